"""What answers become: values, pages, errors."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import httpx2
import msgspec
import pytest
from tests.client.both import J1, K1, R1, R2, Pauses, Wire, problem, said
from tests.client.conftest import Connect

from oncue.client import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotOncue,
    OncueApiError,
    ServerUnreachable,
    Stale,
    TooLarge,
    Unauthorized,
    Unavailable,
    WaitTimeout,
)

JOB = {
    "job_id": J1,
    "task": "hello",
    "status": "hibernating",
    "next_run_at": "2026-11-16T08:00:00.250Z",
    "last_run": {"run_id": R1, "status": "dead", "colour": "blue"},
    "version": 3,
    "invented_later": {"a": 1},
}
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def run(status: str, **fields: Any) -> httpx2.Response:
    return said({"run_id": R1, "job_id": J1, "status": status, **fields})


class TestValues:
    def test_times_are_aware_and_what_is_not_known_does_not_hurt(self, connect: Connect) -> None:
        either = connect(Wire(said(JOB)))

        job = either(either.client.jobs.get(J1))

        assert job.next_run_at == datetime(2026, 11, 16, 8, 0, 0, 250_000, UTC)
        assert (job.status, job.version, job.last_run.status) == ("hibernating", 3, "dead")

    def test_a_link_to_a_result_has_its_end(self, connect: Connect) -> None:
        link = {"url": "https://bucket/key?signed", "expires_at": "2026-11-16T12:00:00.000Z", "size": 5, "sha256": "00"}
        wire = Wire(said(link), said(link))
        either = connect(wire)

        found = either(either.client.runs.result_link(R1))

        assert (found.url, found.expires_at, found.size, found.sha256) == (link["url"], NOON, 5, "00")
        assert either(either.client.runs.payload_link(R1)) == found

    def test_a_run_has_its_attempts(self, connect: Connect) -> None:
        tried = [{"number": 1, "outcome": "failed", "start_time": "2026-11-16T08:00:00.000Z", "error_message": "no"}]
        either = connect(Wire(run("retrying", attempts=tried, progress={"done": 1, "total": 4})))

        found = either(either.client.runs.get(R1))

        assert [(one.number, one.outcome, one.error_message) for one in found.attempts] == [(1, "failed", "no")]
        assert (found.progress.total, found.final) == (4, False)

    def test_something_that_is_not_oncue_is_told(self, connect: Connect) -> None:
        either = connect(Wire(httpx2.Response(200, html="<h1>It works!</h1>"), said({"hello": "world"})))

        for _ in range(2):
            with pytest.raises(NotOncue, match=f"answer to GET /v1/jobs/{J1} is not from an oncue server"):
                either(either.client.jobs.get(J1))

    def test_a_new_key_is_not_in_what_is_printed_of_it(self, connect: Connect) -> None:
        either = connect(Wire(said({"key_id": K1, "user_id": "ada", "role": "member", "key": "oc_secret"}, 201)))

        key = either(either.client.keys.create("ada"))

        assert key.key == "oc_secret"
        assert "oc_secret" not in repr(key)


class TestRequests:
    def test_what_a_call_says_on_the_wire(self, connect: Connect) -> None:
        wire = Wire(*[said(JOB)] * 6)
        either = connect(wire)
        jobs = either.client.jobs

        either(jobs.create(task="hello", schedule=NOON, timeout=timedelta(minutes=5)))
        either(jobs.put("a/b ü", task="hello"))
        either(jobs.edit(J1, if_match=3, name=None))
        either(jobs.edit(J1, if_match='"4"', name="x"))
        either(jobs.resume(J1, missed="all"))
        either(jobs.pause(J1))

        assert wire.lines == [
            "POST /v1/jobs",
            "PUT /v1/jobs/by-key/a%2Fb%20%C3%BC",
            f"PATCH /v1/jobs/{J1}",
            f"PATCH /v1/jobs/{J1}",
            f"POST /v1/jobs/{J1}/resume",
            f"POST /v1/jobs/{J1}/pause",
        ]
        assert wire.bodies == [
            {"task": "hello", "schedule": "2026-11-16T12:00:00Z", "timeout": "PT300S"},
            {"task": "hello"},
            {"name": None},
            {"name": "x"},
            {"missed": "all"},
            None,
        ]
        assert [one.headers.get("If-Match") for one in wire.requests[2:5]] == ['"3"', '"4"', None]
        assert {one.headers["Authorization"] for one in wire.requests} == {"Bearer oc_1"}
        assert wire.requests[0].headers["Content-Type"] == "application/json"

    def test_values_of_python_are_sent_as_the_api_takes_them(self, connect: Connect) -> None:
        class Task:
            name = "hello"

        wire = Wire(*[said(JOB)] * 2, said({"job_ids": [J1]}), said({"series": [], "start_time": NOON.isoformat()}))
        either = connect(wire)
        client, berlin = either.client, ZoneInfo("Europe/Berlin")

        either(client.jobs.create(task=Task(), schedule={"at": datetime(2027, 1, 31, 9), "timezone": berlin}))
        either(client.jobs.edit(UUID(J1), schedule={"every": timedelta(minutes=5), "timezone": berlin}))
        assert either(client.jobs.create_many([{"task": Task()}])) == (UUID(J1),)
        with contextlib.suppress(NotOncue):
            either(client.series(step=timedelta(minutes=5)))

        assert wire.bodies[:3] == [
            {"task": "hello", "schedule": {"at": "2027-01-31T09:00:00", "timezone": "Europe/Berlin"}},
            {"schedule": {"every": "PT300S", "timezone": "Europe/Berlin"}},
            {"jobs": [{"task": "hello"}]},
        ]
        assert wire.requests[3].url.params["step"] == "PT300S"

    def test_what_json_cannot_have_is_refused_before_it_is_sent(self, connect: Connect) -> None:
        either = connect(wire := Wire())

        with pytest.raises(TypeError, match="object cannot be sent as JSON"):
            either(either.client.jobs.create(task="hello", payload={"a": object()}))
        assert wire.requests == []

    @pytest.mark.parametrize("timeout", [5, "5s", timedelta(seconds=5)])
    def test_a_time_limit_is_any_length_of_time(self, connect: Connect, timeout: Any) -> None:
        either = connect(wire := Wire(said(JOB)), timeout=timeout, retry_for="1m")

        either(either.client.jobs.get(J1))

        assert wire.requests[0].extensions["timeout"]["read"] == 5
        assert either.client.retry_policy.retry_for == 60

    def test_the_rest_of_the_calls(self, connect: Connect) -> None:
        empty = {"run_ids": [], "count": 2, "queues": [], "keys": [], "name": "default", "audit": [], "findings": []}
        wire = Wire(*[said(empty)] * 11)
        either = connect(wire)
        client = either.client

        either(client.jobs.backfill(J1, NOON, "2026-11-17T00:00:00Z"))
        either(client.jobs.purge(J1))
        assert either(client.dead_letters.discard([R1, R2])) == 2
        assert either(client.dead_letters.requeue(filter={"task": "x"})).count == 2
        assert either(client.queues.list()) == ()
        assert either(client.queues.pause("a/b")).name == "default"
        assert either(client.keys.revoke(K1)) is None
        assert either(client.stats())["count"] == 2
        assert either.all(client.audit()) == []
        assert either.all(client.findings()) == []
        assert either(client.scaling()) == ()

        assert wire.lines == [
            f"POST /v1/jobs/{J1}/backfill",
            f"DELETE /v1/jobs/{J1}?purge=true",
            "POST /v1/dead-letters/discard",
            "POST /v1/dead-letters/requeue",
            "GET /v1/queues",
            "POST /v1/queues/a%2Fb/pause",
            f"DELETE /v1/keys/{K1}",
            "GET /v1/stats",
            "GET /v1/audit",
            "GET /v1/findings",
            "GET /v1/scaling",
        ]
        assert wire.bodies[0] == {"from": "2026-11-16T12:00:00Z", "to": "2026-11-17T00:00:00Z"}
        assert wire.bodies[2:4] == [{"run_ids": [R1, R2]}, {"filter": {"task": "x"}}]

    def test_what_is_one_persons_own(self, connect: Connect) -> None:
        me = {"user_id": "ada", "role": "member", "key_id": K1}
        letter = {"run_id": R1, "job_id": J1, "status": "dead", "payload": {"a": 1}}
        either = connect(wire := Wire(said(me), said(JOB), said(letter)))
        client = either.client

        assert msgspec.to_builtins(either(client.me())) == me
        assert either(client.jobs.get_by_key("a/b")).job_id == UUID(J1)
        assert either(client.dead_letters.get(R1)).payload == {"a": 1}
        assert wire.lines == ["GET /v1/me", "GET /v1/jobs/by-key/a%2Fb", f"GET /v1/runs/{R1}"]

    def test_dead_letters_are_filtered(self, connect: Connect) -> None:
        either = connect(wire := Wire(said({"dead_letters": []})))

        either.all(either.client.dead_letters.list(job_id=J1, task="t", queue="q", start_time=NOON, end_time="b"))

        asked = {"job_id": J1, "task": "t", "queue": "q", "start_time": NOON.isoformat(), "end_time": "b"}
        assert dict(wire.requests[0].url.params) == asked

    def test_a_preview_tells_what_is_skipped(self, connect: Connect) -> None:
        either = connect(Wire(said({"description": "", "occurrences": [], "skipped": ["02:30 is not there"]})))

        assert either(either.client.schedules.preview("30 2 * * *")).skipped == ("02:30 is not there",)

    @pytest.mark.parametrize("nothing", ["", ".", ".."])
    def test_what_cannot_be_a_key_goes_nowhere(self, connect: Connect, nothing: str) -> None:
        either = connect(wire := Wire())

        with pytest.raises(ValueError, match="is not a valid id or name"):
            either(either.client.jobs.get_by_key(nothing))
        assert wire.requests == []

    def test_all_dead_letters_are_never_meant_by_accident(self, connect: Connect) -> None:
        either = connect(Wire())

        with pytest.raises(ValueError, match="either run_ids or filter"):
            either(either.client.dead_letters.discard())

    def test_a_time_without_a_zone_is_refused_before_it_is_misread(self, connect: Connect) -> None:
        either = connect(Wire())

        with pytest.raises(ValueError, match="start_time needs a time zone"):
            either.all(either.client.jobs.list(start_time=datetime(2026, 1, 1)))


class TestPages:
    def test_a_list_goes_on_through_short_and_empty_pages_to_the_end(self, connect: Connect) -> None:
        pages = [(["a", "b"], "t1"), ([], "t2"), (["c"], None)]
        wire = Wire(*(said({"jobs": [{**JOB, "name": i} for i in ids], "next_page_token": t}) for ids, t in pages))
        either = connect(wire)

        found = either.all(either.client.jobs.list(status="active", tag="a&b", start_time=NOON, limit=2))

        assert [job.name for job in found] == ["a", "b", "c"]
        assert [dict(one.url.params) for one in wire.requests] == [
            {"status": "active", "tag": "a&b", "start_time": "2026-11-16T12:00:00+00:00", "limit": "2"} | token
            for token in ({}, {"page_token": "t1"}, {"page_token": "t2"})
        ]

    def test_pages_are_asked_for_only_when_they_are_wanted(self, connect: Connect) -> None:
        either = connect(wire := Wire(said({"jobs": [JOB, JOB], "next_page_token": "t1"})))

        assert len(either.first(2, either.client.jobs.list())) == 2
        assert len(wire.requests) == 1

    def test_one_page_with_its_token(self, connect: Connect) -> None:
        either = connect(Wire(said({"jobs": [JOB], "next_page_token": "t1"})))

        page = either(either.client.jobs.page(limit=1))

        assert ([job.job_id for job in page.items], page.next_page_token) == ([UUID(J1)], "t1")

    @pytest.mark.parametrize(
        ("part", "name", "path"),
        [
            ("runs", "runs", "/v1/runs"),
            ("dead_letters", "dead_letters", "/v1/dead-letters"),
        ],
    )
    def test_other_lists_too(self, connect: Connect, part: str, name: str, path: str) -> None:
        item = {"run_id": R1, "job_id": J1, "status": "dead", "payload": {"a": 1}}
        either = connect(wire := Wire(*(said({name: [item], "next_page_token": t}) for t in ("t", None))))

        assert [one.run_id for one in either.all(getattr(either.client, part).list())] == [UUID(R1)] * 2
        assert wire.lines == [f"GET {path}", f"GET {path}?page_token=t"]


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, BadRequest),
            (401, Unauthorized),
            (403, Forbidden),
            (404, NotFound),
            (409, Conflict),
            (412, Stale),
            (413, TooLarge),
            (418, OncueApiError),
            (422, Invalid),
            (500, OncueApiError),
        ],
    )
    def test_each_status_has_its_error(self, connect: Connect, status: int, kind: type[OncueApiError]) -> None:
        either = connect(Wire(problem(status, "because", run_status="dead")))

        with pytest.raises(OncueApiError) as refused:
            either(either.client.runs.cancel(R1))

        assert type(refused.value) is kind
        assert (refused.value.status, refused.value.title, refused.value.detail) == (status, "No", "because")
        assert refused.value.members == {"run_status": "dead"}

    def test_fields_that_are_wrong_are_named(self, connect: Connect) -> None:
        wrong = {"path": "payload.to", "code": "required", "message": "say to whom"}
        either = connect(Wire(problem(422, "all of it", errors=[wrong])))

        with pytest.raises(Invalid, match=r"^payload\.to: say to whom$") as refused:
            either(either.client.jobs.create(task="hello"))

        assert [(one.path, one.code) for one in refused.value.errors] == [("payload.to", "required")]

    def test_a_proxys_page_is_an_error_all_the_same(self, connect: Connect) -> None:
        either = connect(Wire(*[httpx2.Response(502, html="<h1>Bad Gateway</h1>")] * 5))

        with pytest.raises(Unavailable, match="Bad Gateway"):
            either(either.client.jobs.get(J1))


class TestWaiting:
    def test_it_looks_less_and_less_often_until_the_run_is_final(self, connect: Connect, pauses: Pauses) -> None:
        either = connect(Wire(*[run("running")] * 12, run("dead")))

        assert either(either.client.runs.wait(R1, check=False)).status == "dead"
        assert pauses.all[:3] == pytest.approx([0.05, 0.075, 0.1125])
        assert pauses.all[-1] == 2.0

    def test_it_gives_up_in_time_and_says_how_the_run_stands(self, connect: Connect, pauses: Pauses) -> None:
        either = connect(Wire(*[run("retrying")] * 100))

        with pytest.raises(WaitTimeout, match=f"Run {R1} is still retrying after 3 s and continues"):
            either(either.client.runs.wait(R1, timeout=3))
        assert pauses.now == pytest.approx(3)

    def test_a_server_that_is_away_for_a_moment_does_not_end_it(self, connect: Connect) -> None:
        either = connect(Wire(run("running"), httpx2.ConnectError("refused"), problem(503), run("succeeded")))

        assert either(either.client.runs.wait(R1)).status == "succeeded"

    @pytest.mark.parametrize("failure", [problem(503, headers={"Retry-After": "5"}), httpx2.ReadError("reset")])
    def test_a_server_that_is_away_does_not_make_it_longer(
        self, connect: Connect, pauses: Pauses, failure: Any
    ) -> None:
        either = connect(Wire(run("running"), *[failure] * 50), retries=50)

        with pytest.raises(WaitTimeout, match=rf"No answer to GET /v1/runs/{R1} in time: (reset|status 503)"):
            either(either.client.runs.wait(R1, timeout=1))
        assert pauses.now == pytest.approx(1)

    def test_nor_does_one_that_says_nothing(self, connect: Connect, pauses: Pauses) -> None:
        given: list[float] = []

        def hang(request: httpx2.Request) -> httpx2.Response:
            given.append(request.extensions["timeout"]["read"])
            pauses.now += given[-1]
            raise httpx2.ReadTimeout("slow")

        either = connect(Wire(run("running"), *[hang] * 50), timeout=10)

        with pytest.raises(WaitTimeout):
            either(either.client.runs.wait(R1, timeout=15))
        assert given == pytest.approx([10, 15 - 10 - 0.05 - 0.1])
        assert pauses.now == pytest.approx(15)

    @pytest.mark.parametrize("timeout", [3, 60])
    def test_no_answer_with_time_left_is_told_as_such(self, connect: Connect, pauses: Pauses, timeout: float) -> None:
        either = connect(Wire(*[httpx2.ConnectError("refused")] * 5))

        with pytest.raises(ServerUnreachable):
            either(either.client.runs.wait(R1, timeout=timeout))
        assert pauses.now == pytest.approx(1.5)

    def test_a_refusal_ends_it_at_once(self, connect: Connect, pauses: Pauses) -> None:
        either = connect(Wire(problem(404)))

        with pytest.raises(NotFound):
            either(either.client.runs.wait(R1, timeout=0))
        assert pauses.all == []
