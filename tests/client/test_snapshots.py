"""Jobs and runs as values with methods: what each method asks, and what it gives back."""

import pickle
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import httpx2
import msgspec
import pytest
from tests.client.both import J1, R1, R2, Awaiting, Pauses, Wire, problem, said
from tests.client.conftest import Connect

from oncue.client import AsyncJob, AsyncRun, Job, Run, RunFailed, Stale, WaitTimeout

JOB = {"job_id": J1, "task": "hello", "status": "active", "version": 3}
RUN = {"run_id": R1, "job_id": J1, "status": "queued"}


def run(status: str, **fields: Any) -> httpx2.Response:
    return said({**RUN, "status": status, **fields})


def job_of(connect: Connect, *answers: Any) -> tuple[Any, Any, Wire]:
    """A client's job, the client, and the wire, on which only what follows is kept."""
    either = connect(wire := Wire(said(JOB), *answers))
    job = either(either.client.jobs.get(J1))
    wire.requests.clear()
    return job, either, wire


def run_of(connect: Connect, *answers: Any) -> tuple[Any, Any, Wire]:
    either = connect(wire := Wire(run("queued"), *answers))
    found = either(either.client.runs.get(R1))
    wire.requests.clear()
    return found, either, wire


class TestValues:
    def test_each_client_has_its_kind(self, connect: Connect) -> None:
        job, either, _ = job_of(connect, run("queued"))
        found = either(either.client.runs.get(R1))

        kinds = (AsyncJob, AsyncRun) if isinstance(either, Awaiting) else (Job, Run)
        assert (type(job), type(found)) == kinds
        assert (job.job_id, found.run_id) == (UUID(J1), UUID(R1))

    def test_the_client_does_not_show(self, connect: Connect) -> None:
        job, either, _ = job_of(connect, said({**JOB, "colour": "blue"}))

        same = either(job.refresh())

        assert same == job
        assert same is not job
        assert "client" not in repr(job).lower().replace("asyncjob", "")
        assert b"client" not in msgspec.json.encode(job)
        assert msgspec.json.decode(msgspec.json.encode(job))["job_id"] == J1

    def test_it_is_frozen(self, connect: Connect) -> None:
        job, _, _ = job_of(connect)

        with pytest.raises(AttributeError):
            job.name = "other"

    def test_a_copy_from_elsewhere_is_a_value_and_says_what_it_lacks(self, connect: Connect) -> None:
        job, either, _ = job_of(connect)

        copy = pickle.loads(pickle.dumps(job))

        assert copy == job
        with pytest.raises(RuntimeError, match="This snapshot has no client"):
            either(copy.pause())

    def test_lists_and_pages_have_them_too(self, connect: Connect) -> None:
        page = said({"jobs": [JOB], "next_page_token": None})
        job, either, wire = job_of(connect, page, page, said({**JOB, "status": "paused"}))

        [listed] = either.all(either.client.jobs.list())
        [of_page] = either(either.client.jobs.page()).items

        assert listed == of_page == job
        assert either(of_page.pause()).status == "paused"
        assert wire.lines[-1] == f"POST /v1/jobs/{J1}/pause"


class TestJob:
    def test_what_its_methods_ask(self, connect: Connect) -> None:
        job, either, wire = job_of(
            connect,
            *[said({**JOB, "status": "paused"})] * 4,
            *(said({"run_ids": [R1]}), said({"runs": [RUN]}), said({"occurrences": []})),
            said({"state": "waiting", "reason": "paused"}),
        )

        for change in (job.pause(), job.resume(missed="last"), job.cancel(), job.refresh()):
            assert either(change).status == "paused"
        assert either(job.backfill("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")) == (UUID(R1),)
        assert [type(one).__name__.removeprefix("Async") for one in either.all(job.runs())] == ["Run"]
        assert either.all(job.occurrences(limit=5)) == []
        assert either(job.explain()).reason == "paused"

        assert job.status == "active"  # nothing changes under a reader
        here = f"/v1/jobs/{J1}"
        assert wire.lines == [
            *(f"POST {here}/pause", f"POST {here}/resume", f"DELETE {here}", f"GET {here}"),
            *(f"POST {here}/backfill", f"GET {here}/runs", f"GET {here}/occurrences?limit=5", f"GET {here}/explain"),
        ]

    def test_an_edit_sends_the_version_that_was_read(self, connect: Connect) -> None:
        job, either, wire = job_of(connect, said({**JOB, "version": 4}), problem(412))

        assert either(job.edit(name="new")).version == 4
        with pytest.raises(Stale):
            either(job.edit(name="newer"))

        assert wire.bodies == [{"name": "new"}, {"name": "newer"}]
        assert [one.headers["If-Match"] for one in wire.requests] == ['"3"', '"3"']

    def test_an_edit_by_its_id_does_not(self, connect: Connect) -> None:
        job, either, wire = job_of(connect, *[said(JOB)] * 2)

        either(either.client.jobs.edit(job.job_id, name="new"))
        either(either.client.jobs.edit(job, name="new"))

        assert [one.headers.get("If-Match") for one in wire.requests] == [None, None]

    def test_it_is_run_now_and_waited_for(self, connect: Connect) -> None:
        done = run("succeeded", result=7)
        job, either, wire = job_of(connect, said({"run_id": R1}, 202), run("queued"), run("running"), done)

        started = either(job.run_now(payload={"n": 7}))
        ended = either(started.wait(timeout="5m"))

        assert (started.status, ended.status, ended.result) == ("queued", "succeeded", 7)
        assert wire.lines == [f"POST /v1/jobs/{J1}/runNow", *[f"GET /v1/runs/{R1}"] * 3]
        assert wire.bodies[0] == {"payload": {"n": 7}}


class TestRun:
    def test_what_its_methods_ask(self, connect: Connect) -> None:
        found, either, wire = run_of(
            connect,
            *(run("cancelling"), said({"run_id": R2}, 202), said({**RUN, "run_id": R2})),
            *(said({"state": "waiting", "reason": "next"}), run("running")),
        )

        assert either(found.cancel()).status == "cancelling"
        assert either(found.retry(payload={"a": 1})).run_id == UUID(R2)
        assert either(found.explain()).reason == "next"
        assert either(found.refresh()).status == "running"

        here = f"/v1/runs/{R1}"
        assert wire.lines == [
            *(f"POST {here}/cancel", f"POST {here}/retry", f"GET /v1/runs/{R2}", f"GET {here}/explain", f"GET {here}")
        ]

    @pytest.mark.parametrize("status", ["dead", "cancelled", "expired"])
    def test_waiting_for_a_run_that_fails_is_an_error(self, connect: Connect, status: str) -> None:
        why = {"error_type": "ValueError", "error_message": "no"}
        found, either, _ = run_of(connect, run("running"), *[run(status, **why)] * 2)

        with pytest.raises(RunFailed, match=f"^Run {R1} is {status}: ValueError: no$") as failed:
            either(found.wait())

        assert (failed.value.status, failed.value.error_type) == (status, "ValueError")
        assert failed.value.run.run_id == UUID(R1)
        assert type(failed.value.run) is type(found)
        assert either(found.wait(check=False)).status == status

    @pytest.mark.parametrize("timeout", ["3s", timedelta(seconds=3), 3, 3.0])
    def test_waiting_ends_after_its_time(self, connect: Connect, pauses: Pauses, timeout: Any) -> None:
        found, either, _ = run_of(connect, *[run("running")] * 100)

        with pytest.raises(WaitTimeout, match=f"^Run {R1} is still running after 3 s and continues"):
            either(found.wait(timeout))
        assert pauses.now == pytest.approx(3)

    def test_a_time_limit_that_is_none_is_told(self, connect: Connect) -> None:
        found, either, wire = run_of(connect)

        with pytest.raises(ValueError, match="timeout: 'soon' is not a duration"):
            either(found.wait("soon"))
        assert wire.requests == []

    def test_its_log_is_read_in_lines(self, connect: Connect) -> None:
        found, either, wire = run_of(connect, httpx2.Response(200, text="a\nb\n"), httpx2.Response(200, text="b\n"))

        assert either.all(found.log_lines()) == ["a", "b"]
        assert either.all(found.log_lines(tail=1)) == ["b"]
        assert wire.lines == [f"GET /v1/runs/{R1}/logs", f"GET /v1/runs/{R1}/logs?tail=1"]

    def test_lines_to_come_are_whole_wherever_the_answers_end(self, connect: Connect) -> None:
        parts = ["a\nb", "", "c\n", "d\ne"]
        steps = [one for part in parts for one in (run("running"), httpx2.Response(200, text=part))]
        steps[-2] = run("succeeded")
        found, either, _ = run_of(connect, *steps)

        assert either.all(found.log_lines(follow=True)) == ["a", "bc", "d", "e"]

    def test_a_log_of_an_ended_run_is_followed_until_it_is_stored(self, connect: Connect) -> None:
        late = {"Log-Delayed": "true"}
        texts = [httpx2.Response(200, text=text, headers=late) for text in ("a\n", "")]
        texts.append(httpx2.Response(200, text="b\n"))
        either = connect(wire := Wire(*(one for text in texts for one in (run("succeeded"), text))))
        told = list[str]()

        added = either.all(either.client.runs.follow_logs(R1, on_delay=lambda: told.append("late")))

        assert (added, told) == (["a\n", "b\n"], ["late"])
        assert wire.lines[1::2] == [f"GET /v1/runs/{R1}/logs?after={after}" for after in (0, 2, 2)]


@dataclass
class Receipt:
    order: int
    at: datetime


class TestResult:
    def test_it_is_read_as_its_type_also_after_waiting(self, connect: Connect) -> None:
        told = {"order": 7, "at": "2027-01-31T09:00:00Z"}
        found, either, _ = run_of(connect, run("running"), run("succeeded", result=told))

        typed = found.returning(Receipt)
        assert (typed.result, typed == found) == (None, True)
        ended = either(typed.wait())

        assert ended.result == Receipt(7, datetime(2027, 1, 31, 9, tzinfo=ZoneInfo("UTC")))

    def test_one_that_is_not_here_stays_none(self, connect: Connect) -> None:
        found, either, _ = run_of(connect, run("succeeded", large={"result": 20_000_000}))

        assert either(found.returning(Receipt).wait()).result is None


class TestNotebooks:
    def test_a_snapshot_is_a_table_and_nothing_in_it_is_markup(self, connect: Connect) -> None:
        job, either, _ = job_of(connect, said({**JOB, "name": "<script>alert(1)</script>", "payload": {"a": "<b>"}}))

        shown = either(job.refresh())._repr_html_()

        assert "&lt;script&gt;" in shown
        assert "&lt;b&gt;" in shown
        assert "<script" not in shown
        assert "<b>" not in shown
        assert shown.count("<tr>") == shown.count("</tr>") > 3

    def test_a_page_has_a_row_for_each(self, connect: Connect) -> None:
        item = {**RUN, "error_message": "<i>", "result": "x" * 1_000}
        answers = (said({"runs": [item, item]}), said({"runs": []}), said({"users": [{"user_id": "<i>", "number": 1}]}))
        either = connect(Wire(*answers))

        shown = either(either.client.runs.page())._repr_html_()
        assert (shown.count("<tr>"), shown.count(R1), shown.count("&lt;i&gt;"), "<i>" in shown) == (3, 2, 2, False)
        assert either(either.client.runs.page())._repr_html_().count("<tr>") == 1
        assert "&lt;i&gt;" in either(either.client.users.page())._repr_html_()

    def test_what_is_long_is_cut(self, connect: Connect) -> None:
        found, either, _ = run_of(connect, run("succeeded", result="x" * 1_000))

        assert len(either(found.refresh())._repr_html_()) < 1_500
