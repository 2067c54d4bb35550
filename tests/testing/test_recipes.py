"""Every recipe of docs/recipes.md does what its page says. All run in this process."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.test_docs import ROOT, blocks

from oncue import Tasks
from oncue.client import Invalid, RunFailed
from oncue.executors.command import command_task
from oncue.executors.http import http_task
from oncue.settings import Settings
from oncue.testing import OncueApp, run

PAGE = ROOT / "docs" / "recipes.md"
TITLES = [line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## ")]
LONGEST = 25  # lines of a recipe, without blank ones

Answer = tuple[int, dict[str, str], bytes]


def recipe(title: str) -> dict[str, Any]:
    """The names that the code of a recipe defines."""
    code = dict(zip(TITLES, blocks(PAGE, "python"), strict=True))[title]
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(code, names)
    return names


class Server(ThreadingHTTPServer):
    """Gives these answers, one after the other, then the last one for ever; and notes the keys it was sent."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.keys.append(self.headers["Idempotency-Key"])
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answers = self.server.answers
        status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name of the standard library

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the standard library
        """Says nothing."""


@contextmanager
def serving(*answers: Answer) -> Iterator[Server]:
    with Server(*answers) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_the_page_has_ten_recipes_of_few_lines() -> None:
    code = blocks(PAGE, "python")

    assert len(code) == len(TITLES) == 10
    assert [title for title, text in zip(TITLES, code, strict=True) if len(lines_of(text)) > LONGEST] == []


def lines_of(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip()]


def test_a_nightly_report() -> None:
    names = recipe("A nightly report in a time zone")
    with OncueApp([names["tasks"]], now="2027-03-27T12:00Z") as app:
        app.apply()
        runs = app.sync.travel(to="2027-03-30T12:00Z")

    assert [run.result for run in runs] == [f"report for 2027-03-{day}" for day in (27, 28, 29)]


def test_retry_an_api() -> None:
    fetch = recipe("Retry an API")["fetch_rates"]
    with serving((429, {"Retry-After": "7"}, b""), (503, {}, b""), (200, {}, b'{"EUR": 1.1}')) as api:
        done = run(fetch, url=api.url)
    with serving((404, {}, b"no such rates")) as api:
        refused = run(fetch, url=api.url)

    assert done.result == {"EUR": 1.1}
    assert [type(attempt.error).__name__ for attempt in done.attempts] == ["RetryAfter", "HTTPStatusError", "NoneType"]
    assert (refused.status, len(refused.attempts), str(refused.error)) == ("dead", 1, "404: no such rates")


def test_n_calls_a_minute() -> None:
    names = recipe("At most N calls a minute to a partner")
    with OncueApp([names["tasks"]]) as app:
        for order in range(20):
            asyncio.run(names["order_placed"](order))
        names["tasks"].sync.enqueue_many(names["fetch_stock"].bind(article=str(n)) for n in range(20))
        first = app.sync.travel(by="59s")
        rest = app.sync.travel(by="2m")

    assert (len(first), len(rest)) == (30, 10)
    assert {one.task for one in [*first, *rest]} == {"send_order", "fetch_stock"}


def test_one_at_a_time_per_customer(monkeypatch: pytest.MonkeyPatch) -> None:
    names = recipe("One at a time per customer")
    active: Counter[int] = Counter()
    most: Counter[str] = Counter()
    order: list[str] = []

    async def watched(customer: int, change: str) -> None:
        active[customer] += 1
        order.append(change)
        most["of one"] = max(most["of one"], active[customer])
        most["of all"] = max(most["of all"], active.total())
        await asyncio.sleep(0.01)
        active[customer] -= 1

    monkeypatch.setattr(names["sync_customer"], "function", watched)
    with OncueApp([names["tasks"]]) as app:
        for change in ("a1", "a2", "a3"):
            asyncio.run(names["customer_changed"](1, change))
        asyncio.run(names["customer_changed"](2, "b1"))
        app.sync.drain()

    assert sorted(order) == ["a1", "a2", "a3", "b1"]
    assert most == {"of one": 1, "of all": 2}


def test_import_a_large_file(tmp_path: Path) -> None:
    names = recipe("Import a large file")
    file = tmp_path / "rows.csv"
    file.write_bytes(b"".join(b"%d,%s\n" % (n, b"x" * 1000) for n in range(2500)))
    stored: list[bytes] = []

    def store(lines: list[bytes]) -> None:
        if stored and len(stored) < 1500 and not fails:
            fails.append("once")
            raise ConnectionError("the database is restarted")
        stored.extend(lines)

    fails: list[str] = []
    names["store"] = store

    done = run(names["import_file"], path=str(file))

    assert [attempt.outcome for attempt in done.attempts] == ["failed", "succeeded"]
    assert done.result == 2500
    assert b"".join(stored) == file.read_bytes(), "every row once"
    assert done.progress[-1] == (file.stat().st_size, file.stat().st_size)


def test_send_mail_exactly_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = recipe("Send mail exactly once")
    with serving((504, {}, b"sent, but the answer is lost"), (200, {}, b"")) as provider:
        monkeypatch.setenv("MAIL_API", provider.url)
        with OncueApp([names["tasks"]]) as app:
            names["order_paid"](7, "a@example.org")
            names["order_paid"](7, "a@example.org")
            app.sync.travel(by="1h")
            app.assert_ran(names["receipt"], times=1)

    assert len(provider.keys) == 2
    assert len(set(provider.keys)) == 1, "both attempts sent one key"


def test_a_job_per_tenant() -> None:
    names = recipe("A job per tenant, kept in step")
    keep = names["keep_in_step"]
    with OncueApp([names["tasks"]]) as app:
        keep(app.client, {"a": "Europe/Berlin", "b": "UTC"})
        app.client.jobs.pause("digest-a")
        keep(app.client, {"a": "Asia/Tokyo", "c": "UTC"})
        jobs = {job.key: (job.status, job.schedule["timezone"]) for job in app.client.jobs.list()}
        with pytest.raises(Invalid):
            keep(app.client, {"d": "UTC", "e": "Mars/Olympus"})
        after = {job.key for job in app.client.jobs.list()}

    assert jobs["digest-a"] == ("paused", "Asia/Tokyo")
    assert (jobs["digest-b"][0], jobs["digest-c"][0]) == ("cancelled", "active")
    assert after == jobs.keys()


def test_run_a_shell_command() -> None:
    dump = recipe("Run a shell command")["nightly_dump"]
    built_in = Tasks()
    built_in.add(command_task(Settings(allow_commands=True)))
    with OncueApp([built_in], now="2027-01-31T00:00Z") as app:
        dump(app.client)
        job = app.client.jobs.get("nightly-dump")

    assert job.next_run_at is not None
    assert job.next_run_at.isoformat() == "2027-01-31T02:00:00+00:00"
    subprocess.run(["sh", "-n", *job.payload["argv"][1:]], check=True)  # the shell understands it


def test_poll_a_website() -> None:
    watch = recipe("Poll a website, and be told when it fails")["watch"]

    async def nobody(host: str, port: int) -> Any:
        raise OSError(f"there is no {host}")

    built_in = Tasks()
    built_in.add(http_task(Settings(), nobody))
    with OncueApp([built_in]) as app:
        watch(app.client, "https://example.org")
        job = app.client.jobs.get("watch-https://example.org")
        [ran, *_] = app.sync.travel(by=timedelta(minutes=6))
        with pytest.raises(RunFailed, match=r"no example\.org"):
            ran.wait()

    assert job.notify is not None
    assert ran.attempt_number == 3


def test_fan_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = recipe("Fan-out with a final step")
    monkeypatch.chdir(tmp_path)
    with OncueApp([names["tasks"]]) as app:
        names["prepare"].sync.enqueue(album=1, photos=["a", "b", "c"])
        runs = app.sync.drain()
        names["resize"].sync.enqueue(album=1, photo="c", of=3)  # as when its answer was lost
        app.sync.drain()
        app.assert_ran(names["publish"], times=1)

    assert [one.task for one in runs] == ["prepare", *["resize"] * 3, "publish"]
    assert runs[-1].result == "album 1 is published"
