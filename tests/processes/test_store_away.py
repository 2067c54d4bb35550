"""The store is away, or only slow: what an API answers meanwhile, how soon, and what is left of it afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from bench.store_proxy import StoreProxy
from tests.processes.fleet import Fleet, Json, children_of, until

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

ANSWER_WITHIN = 2.0  # beyond what a call takes that needs no store
JOB = {"task": "slow", "payload": {"seconds": 0}}
CALLS: list[tuple[str, str, Json | None]] = [
    ("GET", "/readyz", None),
    ("GET", "/v1/jobs", None),
    ("GET", "/v1/stats", None),
    ("GET", "/v1/tasks", None),
    ("GET", "/v1/events", None),
    ("POST", "/v1/jobs", JOB),
    ("POST", "/v1/jobs", {"task": "never announced"}),
    ("POST", "/v1/jobs/batch", {"jobs": [JOB] * 10}),
    ("PUT", "/v1/jobs/by-key/one", JOB),
    ("POST", "/v1/keys", {"user_id": "ada", "role": "member"}),
]
WRITING = [call for call in CALLS if call[0] != "GET" and call[2] != {"task": "never announced"}]


@pytest.fixture
def crashing_fleet(crashable_postgres: PrivatePostgres, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, crashable_postgres.create_database("oncue"))
    yield from with_api(fleet)


@pytest.fixture
def file_fleet(fleet: Fleet) -> Iterator[Fleet]:
    yield from with_api(fleet)


def with_api(fleet: Fleet) -> Iterator[Fleet]:
    """An API, and tasks that a worker announced which is gone by now."""
    try:
        fleet.start("api")
        worker = fleet.start("worker")
        fleet.ready(workers=1)
        worker.send(signal.SIGTERM)
        worker.ended()
        yield fleet
    finally:
        fleet.close()


ALIVE = ("GET", "/healthz", None)


def asked(fleet: Fleet, calls: list[tuple[str, str, Json | None]]) -> list[tuple[str, int, float, str | None]]:
    """All of them at the same time, three of each: path, status, seconds, Retry-After."""

    def ask(call: tuple[str, str, Json | None]) -> tuple[str, int, float, str | None]:
        began = time.monotonic()
        status, _, headers = fleet.raw(*call)
        return call[1], status, time.monotonic() - began, headers.get("Retry-After")

    with ThreadPoolExecutor(3 * len(calls)) as callers:
        return list(callers.map(ask, calls * 3))


def says_it_is_away(fleet: Fleet, calls: list[tuple[str, str, Json | None]]) -> None:
    """In time, by the measure of calls that were asked with them and need no store: the machine may be busy."""
    answers = asked(fleet, [*calls, ALIVE])
    expected = {(path, 503, "1") for _, path, _ in calls} | {("/healthz", 200, None)}
    assert {(path, status, after) for path, status, _, after in answers} == expected
    busy = max(seconds for path, _, seconds, _ in answers if path == "/healthz")
    assert max(seconds for _, _, seconds, _ in answers) < ANSWER_WITHIN + 3 * busy, answers


def is_back(fleet: Fleet) -> None:
    until(lambda: fleet.raw("GET", "/readyz")[0] == 200, "it is ready again", fleet.tell)
    for method, path, body in CALLS:
        if path not in ("/readyz", "/v1/events"):
            expected = 422 if body == {"task": "never announced"} else 201 if method != "GET" else 200
            assert fleet.raw(method, path, body)[0] in (expected, 200 if method == "PUT" else expected), path


def stopped(server: PrivatePostgres) -> Callable[[], None]:
    server.stop("immediate")
    return server.start


def frozen(server: PrivatePostgres) -> Callable[[], None]:
    """All its processes: connections are taken by the kernel, and nothing answers."""
    os.kill(server.pid, signal.SIGSTOP)  # first: it would start more of them
    halted = [server.pid, *children_of(server.pid)]
    for pid in halted:
        os.kill(pid, signal.SIGSTOP)

    def thaw() -> None:
        for pid in halted:
            os.kill(pid, signal.SIGCONT)

    return thaw


@pytest.mark.parametrize("gone", [stopped, frozen])
def test_while_postgres_is_away_every_call_is_503_in_time_and_then_all_is_well(
    crashing_fleet: Fleet, crashable_postgres: PrivatePostgres, gone: Callable[[PrivatePostgres], Callable[[], None]]
) -> None:
    fleet = crashing_fleet
    back = gone(crashable_postgres)
    try:
        for _ in range(3):
            says_it_is_away(fleet, CALLS)
    finally:
        back()
    is_back(fleet)

    assert {status for _, status, _, _ in asked(fleet, WRITING)} <= {200, 201}
    until(lambda: 0 < connections(crashable_postgres) <= 12, "no connection is left over", fleet.tell)
    assert "Traceback" not in fleet.tell()


def connections(server: PrivatePostgres) -> int:
    """Eight for calls, three of the hot path, one that listens."""
    return sum(b"oncue" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children_of(server.pid))


def test_what_takes_long_on_a_store_that_is_well_is_waited_for(
    crashing_fleet: Fleet, crashable_postgres: PrivatePostgres
) -> None:
    fleet = crashing_fleet
    code = """
        import asyncio, asyncpg, sys
        async def main():
            connection = await asyncpg.connect(sys.argv[1])
            async with connection.transaction():
                await connection.execute("lock table waiting in access exclusive mode")
                print("locked", flush=True)
                sys.stdin.readline()
        asyncio.run(main())
    """
    with ThreadPoolExecutor(1) as caller, beside(code, fleet.engine):
        began = time.monotonic()
        batch = caller.submit(fleet.raw, "POST", "/v1/jobs/batch", {"jobs": [JOB] * 10})
        until(lambda: time.monotonic() > began + 3, "it takes three seconds")
        assert fleet.raw("GET", "/readyz")[0] == 200
        assert not batch.done()

    assert batch.result()[0] == 201


@contextmanager
def beside(code: str, *arguments: str) -> Iterator[None]:
    """Another process that has done something by now, and goes on when the block ends."""
    argv = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            other.communicate("go on\n")


LOCKS = {
    "by one of ours": """
        import fcntl, sys
        with open(sys.argv[1] + ".lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            print("locked", flush=True)
            sys.stdin.readline()
    """,
    "by another program": """
        import apsw, sys
        db = apsw.Connection(sys.argv[1])
        db.execute("begin immediate")
        print("locked", flush=True)
        sys.stdin.readline()
    """,
}


@pytest.mark.parametrize("lock", LOCKS)
def test_while_a_file_is_locked_writes_are_503_in_time_and_then_all_is_well(file_fleet: Fleet, lock: str) -> None:
    fleet = file_fleet
    with beside(LOCKS[lock], str(fleet.folder / "oncue.db")):
        for _ in range(3):
            says_it_is_away(fleet, [*WRITING, ("GET", "/readyz", None)])
        assert fleet.raw("GET", "/v1/tasks")[0] == 200
    is_back(fleet)
    assert "Traceback" not in fleet.tell()


async def test_all_calls_of_a_request_to_a_slow_store_have_one_time_limit_together(
    postgres_server: PrivatePostgres, postgres_url: str, tmp_path: Path
) -> None:
    """A purge takes five seconds here, and none of its calls two."""
    if not postgres_server.ours:
        pytest.skip("the proxy reaches only this machine")
    url, limit, slow = urlsplit(postgres_url), 2.0, 0.05
    proxy = StoreProxy(url.port or 0)
    async with proxy.listening() as port:
        fleet = Fleet(tmp_path, url._replace(netloc=f"{url.username}@127.0.0.1:{port}").geturl())
        try:
            fleet.start("api", "--store-timeout", f"{limit:g}s")
            fleet.start("worker")
            await asyncio.to_thread(fleet.ready, workers=1)
            job = await asyncio.to_thread(fleet.create, "slow", {"seconds": 0}, schedule="every 1h")
            proxy.delay = slow
            began = time.monotonic()
            status, answer, headers = await asyncio.to_thread(fleet.raw, "DELETE", f"/v1/jobs/{job}?purge=true")
            took = time.monotonic() - began
            proxy.delay = 0.0
            again = await asyncio.to_thread(fleet.raw, "DELETE", f"/v1/jobs/{job}?purge=true")
        finally:
            await asyncio.to_thread(fleet.close)

    assert (status, headers["Retry-After"]) == (503, "1"), answer
    assert took < limit + ANSWER_WITHIN
    assert again[0] in (200, 404)
