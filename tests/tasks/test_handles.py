"""The verbs of a task, for async code and for other code: what they check, what they send, what they return."""

from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import httpx2
import pytest
from tests.client.both import J1, R2, Awaiting, Either, Wire, said
from tests.client.conftest import Connect, connect, pauses  # noqa: F401 - fixtures

from oncue import Context, Secret, Tasks, at, cron, every
from oncue.client import AsyncRun, Run, RunFailed, WaitTimeout
from oncue.domain.errors import Invalid
from oncue.shapes.schedules import Schedule


@dataclass
class Receipt:
    order: int
    paid: datetime


tasks = Tasks()


@tasks.task
async def hello(name: str = "world", *, times: int = 1) -> str:
    return name * times


@tasks.task("billing.charge")
def charge(ctx: Context, order: int, at: datetime | None = None) -> Receipt:
    return Receipt(order, datetime.now(UTC))


@tasks.task
def secretive(token: Secret) -> object:
    return token


JOB: dict[str, Any] = {"job_id": J1, "task": "hello", "status": "active", "queue": "default"}


def job(**fields: Any) -> httpx2.Response:
    return said({**JOB, **fields}, 201)


def ended(status: str = "succeeded", result: Any = None, **fields: Any) -> httpx2.Response:
    return said({"run_id": J1, "job_id": J1, "status": status, "result": result, **fields})


class Caller:
    """Calls a task with one of the two clients."""

    def __init__(self, either: Either, wire: Wire) -> None:
        self._either = either
        self.wire = wire

    def __call__(self, task: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        handle = task.using(client=self._either.client)
        return self._either(
            getattr(handle if isinstance(self._either, Awaiting) else handle.sync, verb)(*args, **kwargs)
        )

    @property
    def run_kind(self) -> type[Any]:
        return AsyncRun if isinstance(self._either, Awaiting) else Run


@pytest.fixture
def on(connect: Connect) -> Any:  # noqa: F811
    return lambda *answers: Caller(connect(wire := Wire(*answers)), wire)


class TestEnqueue:
    def test_it_creates_a_job_that_runs_now(self, on: Any) -> None:
        call = on(job())
        run = call(hello, "enqueue", "you", times=2)

        assert call.wire.lines == ["POST /v1/jobs"]
        assert call.wire.bodies == [{"task": "hello", "payload": {"name": "you", "times": 2}}]
        assert isinstance(run, call.run_kind)
        assert (run.run_id, run.job_id, run.status, run.task) == (UUID(J1), UUID(J1), "queued", "hello")

    def test_without_arguments_there_is_no_payload(self, on: Any) -> None:
        call = on(job())
        call(hello, "enqueue")

        assert call.wire.bodies == [{"task": "hello"}]

    @pytest.mark.parametrize("delay", ["10m", timedelta(minutes=10)])
    def test_after_a_delay(self, on: Any, delay: Any) -> None:
        call = on(job(next_run_at="2027-01-01T00:10:00Z", created_at="2027-01-01T00:00:00Z"))
        run = call(hello, "enqueue_in", delay, name="you")

        assert call.wire.bodies[0]["schedule"] in ("in 10m", "in PT600S")
        assert (run.status, run.scheduled_for) == ("scheduled", datetime(2027, 1, 1, 0, 10, tzinfo=UTC))

    def test_at_an_instant(self, on: Any) -> None:
        call = on(job(), job())
        call(charge, "enqueue_at", datetime(2027, 1, 31, 9, tzinfo=ZoneInfo("Europe/Berlin")), 7)
        call(charge, "enqueue_at", "2027-01-31T09:00:00Z", order=7)

        assert [body["schedule"] for body in call.wire.bodies] == [
            {"at": "2027-01-31T09:00:00+01:00"},
            {"at": "2027-01-31T09:00:00Z"},
        ]

    def test_a_call_that_was_not_awaited_is_named(self) -> None:
        with pytest.warns(
            RuntimeWarning, match=r"billing\.charge\.enqueue_in\(…\): write await, or \.sync\.enqueue_in"
        ):
            charge.enqueue_in("10m", order=7)  # type: ignore[unused-coroutine]  # that is the point

    @pytest.mark.parametrize("verb", ["delay", "apply_async", "send"])
    def test_verbs_of_other_libraries_name_the_one_to_write(self, verb: str) -> None:
        for task in (hello, hello.using(queue="mail")):
            with pytest.raises(AttributeError) as refused:
                getattr(task, verb)
            write = "write await .enqueue(…), or .sync.enqueue(…) in sync code"
            assert str(refused.value) == f"task 'hello' has no .{verb}(…): {write}"
        with pytest.raises(AttributeError, match=rf"^task 'hello' has no .{verb}\(…\): write \.sync\.enqueue\(…\)$"):
            getattr(hello.sync, verb)

    def test_a_name_that_nobody_has_for_a_verb_is_an_ordinary_error(self) -> None:
        for handle in (hello, hello.sync):
            assert not hasattr(handle, "delay")
            with pytest.raises(AttributeError, match=r"has no attribute 'sausage'$"):
                _ = handle.sausage  # type: ignore[attr-defined]  # and type checkers still report it
            assert copy(handle).__dict__ == handle.__dict__

    def test_an_instant_needs_a_time_zone(self, on: Any) -> None:
        with pytest.raises(ValueError, match="has no time zone"):
            on()(hello, "enqueue_at", datetime(2027, 1, 31, 9))

    def test_values_are_sent_as_json_and_secrets_by_name(self, on: Any) -> None:
        call = on(job(), job())
        call(charge, "enqueue", 7, at=datetime(2027, 1, 31, 9, tzinfo=UTC))
        call(secretive, "enqueue", Secret.named("bank"))

        assert [body["payload"] for body in call.wire.bodies] == [
            {"order": 7, "at": "2027-01-31T09:00:00Z"},
            {"token": {"secret": "bank"}},
        ]

    @pytest.mark.parametrize(
        ("task", "args", "kwargs", "error", "words"),
        [
            (charge, (), {}, TypeError, "task 'billing.charge': missing a required argument: 'order'"),
            (hello, (), {"nmae": "you"}, TypeError, "task 'hello': got an unexpected keyword argument 'nmae'"),
            (hello, ("you", 2), {}, TypeError, "task 'hello': too many positional arguments"),
            (charge, ("7",), {}, Invalid, "does not fit the signature of task 'billing.charge'.*order"),
            (hello, (object(),), {}, Invalid, "cannot be written as JSON"),
            (hello, (float("inf"),), {}, Invalid, "a number in it is not finite"),
        ],
    )
    def test_what_does_not_fit_is_refused_before_any_request(
        self, on: Any, task: Any, args: Any, kwargs: Any, error: type[Exception], words: str
    ) -> None:
        call = on()
        with pytest.raises(error, match=words):
            call(task, "enqueue", *args, **kwargs)

        assert call.wire.requests == []


class TestRun:
    def test_it_waits_and_returns_the_result_as_its_type(self, on: Any) -> None:
        call = on(job(), ended("running"), ended(result={"order": 7, "paid": "2027-01-31T09:00:00Z"}))

        assert call(charge, "run", 7) == Receipt(7, datetime(2027, 1, 31, 9, tzinfo=UTC))
        assert call.wire.lines == ["POST /v1/jobs", *[f"GET /v1/runs/{J1}"] * 2]

    def test_a_large_result_is_fetched(self, on: Any) -> None:
        paid = "2027-01-31T09:00:00Z"
        call = on(job(), ended(large={"result": 1_000_000}), said({"order": 7, "paid": paid}))

        assert call(charge, "run", 7).order == 7
        assert call.wire.lines[-1] == f"GET /v1/runs/{J1}/result"

    def test_a_failure_raises(self, on: Any) -> None:
        with pytest.raises(RunFailed) as failed:
            on(job(), ended("dead", error_type="CardRefused"))(charge, "run", 7)

        assert failed.value.status == "dead"

    def test_it_waits_no_longer_than_it_is_told(self, on: Any) -> None:
        with pytest.raises(WaitTimeout):
            on(job(), *[ended("running")] * 50)(charge.using(wait_timeout="1s"), "run", 7)


class TestSchedule:
    @pytest.mark.parametrize(
        ("when", "sent"),
        [
            ("every 1h", "every 1h"),
            (every("1h"), {"every": "1h"}),
            (cron("0 9 * * 1-5", "Europe/Berlin"), {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}),
            (cron("0 9 * * *", ZoneInfo("Asia/Tokyo"), dst_gap="skip"), None),
            ({"cron": "0 9 * * *"}, {"cron": "0 9 * * *"}),
        ],
    )
    def test_it_creates_a_recurring_job(self, on: Any, when: Any, sent: Any) -> None:
        call = on(job())
        found = call(hello, "schedule", when, name="you")

        expected = sent or {"cron": "0 9 * * *", "timezone": "Asia/Tokyo", "dst_gap": "skip"}
        assert call.wire.lines == ["POST /v1/jobs"]
        assert call.wire.bodies == [{"task": "hello", "payload": {"name": "you"}, "schedule": expected}]
        assert found.job_id == UUID(J1)

    def test_with_a_key_it_creates_or_replaces(self, on: Any) -> None:
        call = on(job())
        call(hello.using(key="eu", queue="mail"), "schedule", every(timedelta(hours=1)))

        assert call.wire.lines == ["PUT /v1/jobs/by-key/eu"]
        assert call.wire.bodies == [{"task": "hello", "queue": "mail", "schedule": {"every": "PT3600S"}}]

    def test_run_now_runs_the_job_with_the_key_of_the_task(self, on: Any) -> None:
        call = on(job(), said({"run_id": R2}, 201), said({"run_id": R2, "job_id": J1, "status": "queued"}))
        run = call(charge, "run_now")

        assert call.wire.lines == [
            "GET /v1/jobs/by-key/billing.charge",
            f"POST /v1/jobs/{J1}/runNow",
            f"GET /v1/runs/{R2}",
        ]
        assert run.run_id == UUID(R2)


class TestSchedules:
    def test_what_they_stand_for(self) -> None:
        start = datetime(2027, 1, 1, tzinfo=UTC)

        assert every("5m", start_at=start, jitter=timedelta(seconds=2), max_runs=3) == Schedule(
            every="5m", start_at="2027-01-01T00:00:00+00:00", jitter="PT2S", max_runs=3
        )
        assert at(datetime(2027, 1, 1, 9), "Europe/Berlin") == Schedule(
            at="2027-01-01T09:00:00", timezone="Europe/Berlin"
        )
        assert (every("5m").recurring, cron("@daily").recurring, at(start).recurring) == (True, True, False)


class TestUsing:
    def test_fields_of_the_job_and_short_forms(self, on: Any) -> None:
        call = on(job())
        special = hello.using(queue="mail", rate="10/1m").using(timeout=timedelta(seconds=30), idempotency_key="k")
        call(special, "enqueue")

        assert call.wire.bodies == [
            {"task": "hello", "queue": "mail", "rate": {"limit": 10, "per": "1m"}, "timeout": "30s"}
        ]
        assert call.wire.requests[0].headers["Idempotency-Key"] == "k"

    def test_the_task_itself_stays_as_it_is(self, on: Any) -> None:
        call = on(job())
        hello.using(queue="mail")
        call(hello, "enqueue")

        assert call.wire.bodies == [{"task": "hello"}]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"qeue": "mail"}, "qeue: is not an option of calls; did you mean 'queue'?"),
            ({"timezone": "UTC"}, "timezone: is not an option of calls; did you mean 'schedule.timezone'?"),
            ({"payload": {}}, "payload: is not an option of calls"),
            ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
            ({"schedule": "every 5m"}, "schedule: runs more than once"),
        ],
    )
    def test_a_wrong_one_is_refused_at_once(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(Invalid) as refused:
            hello.using(**options)

        assert words in str(refused.value)

    def test_one_run_may_have_a_schedule(self, on: Any) -> None:
        call = on(job())
        call(hello.using(schedule="in 10m"), "enqueue")

        assert call.wire.bodies == [{"task": "hello", "schedule": "in 10m"}]


class TestMany:
    def test_calls_of_any_tasks_are_one_request(self, connect: Connect) -> None:  # noqa: F811
        either = connect(wire := Wire(said({"job_ids": [J1, R2]}, 201)))
        ours = Tasks(client=either.client)
        calls = [hello.bind("you"), charge.using(queue="billing").bind(order=7)]
        many = ours.enqueue_many if isinstance(either, Awaiting) else ours.sync.enqueue_many

        assert either(many(calls)) == (UUID(J1), UUID(R2))
        assert wire.lines == ["POST /v1/jobs/batch"]
        assert wire.bodies[0]["jobs"] == [
            {"task": "hello", "payload": {"name": "you"}},
            {"task": "billing.charge", "queue": "billing", "payload": {"order": 7}},
        ]

    async def test_none_are_no_request_and_too_many_are_refused(self) -> None:
        assert await tasks.enqueue_many([]) == ()
        with pytest.raises(Invalid, match=r"10001 calls; at most 10,000"):
            await tasks.enqueue_many(hello.bind() for _ in range(10_001))

    async def test_what_is_no_call_or_no_instant_is_named(self) -> None:
        with pytest.raises(TypeError, match=r"calls like hello.bind\(name='you'\), not <.*'hello'>"):
            await tasks.enqueue_many([hello])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="an instant is a datetime or a text"):
            await hello.enqueue_at(5)  # type: ignore[arg-type]
