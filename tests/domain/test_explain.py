"""Why something has or has not run yet: every reason, their order, and that there always is exactly one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_docs import ROOT, table

from oncue.domain.explain import Explanation, Reason, RunDiagnosis, explain, explain_job, telling
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, NEVER, SECOND, Duration, Instant, parse_instant
from oncue.domain.job import Cursor, Job, JobStatus, Rate, Snapshot, Spec, WaitingRun, encode_spec
from oncue.domain.lane import Concurrency, Held
from oncue.domain.missing_workers import Offered
from oncue.domain.placement import ClassKey, Offer, Resources
from oncue.domain.policy import OnLost
from oncue.domain.run import Attempt, RunView, State, Trigger, with_attempt
from oncue.domain.schedule import Schedule

NOW = parse_instant("2026-11-15T12:00:00Z")
RUN, JOB, OTHER, WORKER = (UUID(int=n) for n in range(1, 5))
CLASS = ClassId(7)
KEY = ClassKey("resize", "images", labels=("gpu",), size=Resources(2_000, 1_024, 2))
FIT = Offer(frozenset({"resize"}), frozenset({"images"}), frozenset({"gpu"}), Resources(4_000, 4_096, 8))
LEASE = Duration(15 * SECOND)


def a_run(state: State = State.WAITING, *, due: int = -SECOND, spec: Spec | None = None, **how: Any) -> RunView:
    """Due a second ago, held by nothing, never tried, unless said otherwise."""
    fields: dict[str, Any] = {
        "run_id": RunId(RUN),
        "job_id": JobId(JOB),
        "uid": UserNumber(1),
        "class_id": CLASS,
        "state": state,
        "due": Instant(NOW + due),
        "wanted": Instant(NOW + due),
        "nominal": None,
        "trigger": Trigger.SCHEDULE,
        "token": 0,
        "failures": 0,
        "losses": 0,
        "job_version": 1,
        "spec": encode_spec(spec or Spec("resize")),
    }
    return RunView(**fields | how)


def worker(offer: Offer | None = FIT, *, draining: bool = False, silent: int = 0, classes: Any = ()) -> Offered:
    return Offered(classes, Instant(NOW - silent + LEASE), draining, offer)


def why(at: RunDiagnosis, *workers: Offered, **how: Any) -> Explanation:
    return explain(at, KEY, workers or (worker(),), NOW, **how)


RUNNING = a_run(State.RUNNING, started_at=Instant(NOW - 12 * SECOND), worker_id=WorkerId(WORKER))


def running(silent: int, run: RunView = RUNNING) -> RunDiagnosis:
    return RunDiagnosis(run, beat_at=Instant(NOW - silent), lease=LEASE)


GROUPED = Spec("resize", group="g")
GATED = Spec("resize", concurrency=Concurrency("c", 3))
RATED = Spec("resize", rate=Rate(5, MINUTE))
GAVE_WAY = with_attempt(None, Attempt(1, WorkerId(WORKER), NOW, NOW, "preempted"))

TABLE: list[tuple[Reason, RunDiagnosis, dict[str, Any], str]] = [
    (
        Reason.FINISHED,
        RunDiagnosis(a_run(State.SUCCEEDED, ended_at=NOW)),
        {},
        "Succeeded at 2026-11-15T12:00:00.000Z.",
    ),
    (
        Reason.FINISHED,
        RunDiagnosis(a_run(State.DEAD, ended_at=NOW)),
        {},
        "Failed permanently at 2026-11-15T12:00:00.000Z. "
        "Read the error, then run it again or discard this dead letter.",
    ),
    (
        Reason.FINISHED,
        RunDiagnosis(a_run(State.CANCELLED, ended_at=NOW)),
        {},
        "Cancelled at 2026-11-15T12:00:00.000Z.",
    ),
    (
        Reason.FINISHED,
        RunDiagnosis(a_run(State.EXPIRED, ended_at=NOW)),
        {},
        "Expired at 2026-11-15T12:00:00.000Z, because it did not start within start_within. This run will never start.",
    ),
    (Reason.RUNNING, running(5 * SECOND), {}, f"Running on worker {WORKER} for 12 s."),
    (
        Reason.WORKER_LOST,
        running(5 * SECOND + 1),
        {},
        f"Worker {WORKER} has sent no heartbeat for 5 s. Without a heartbeat by 2026-11-15T12:00:09.999Z, "
        "the run restarts on another worker; after three lost workers it becomes a dead letter.",
    ),
    (
        Reason.WORKER_LOST,
        RunDiagnosis(RUNNING),
        {},
        f"Worker {WORKER} is gone. Within seconds "
        "the run restarts on another worker; after three lost workers it becomes a dead letter.",
    ),
    (
        Reason.PAUSED,
        RunDiagnosis(a_run(held=Held.PAUSED)),
        {},
        "The job is paused. Resume it to start this run.",
    ),
    (
        Reason.QUEUE_PAUSED,
        RunDiagnosis(a_run()),
        {"paused_queues": {"images"}},
        "The queue 'images' is paused. An administrator can resume it.",
    ),
    (Reason.NOT_DUE, RunDiagnosis(a_run(due=3 * HOUR)), {}, "Due at 2026-11-15T15:00:00.000Z, in 3 h."),
    (
        Reason.NOT_DUE,
        RunDiagnosis(a_run(due=3 * HOUR, held=Held.RATE, spec=RATED)),
        {},
        "Due at 2026-11-15T15:00:00.000Z, in 3 h.",
    ),
    (
        Reason.NOT_DUE,
        RunDiagnosis(a_run(due=8 * SECOND, failures=1)),
        {},
        "The last attempt did not succeed. The run retries at 2026-11-15T12:00:08.000Z, in 8 s.",
    ),
    (
        Reason.NOT_DUE,
        RunDiagnosis(a_run(due=8 * SECOND, losses=1, held=Held.RATE, spec=RATED)),
        {},
        "The last attempt did not succeed. The run retries at 2026-11-15T12:00:08.000Z, in 8 s, or later: "
        "it then waits for its rate limit of 5 per 1m for the key 'resize'.",
    ),
    (
        Reason.OVERLAP,
        RunDiagnosis(a_run(held=Held.LANE), RunId(OTHER), 1),
        {},
        f"The job runs one run at a time. Blocked by run {OTHER}.",
    ),
    (
        Reason.GROUP,
        RunDiagnosis(a_run(held=Held.LANE, spec=GROUPED), RunId(OTHER), 1),
        {},
        f"The group 'g' runs one run at a time. Blocked by run {OTHER}.",
    ),
    (
        Reason.GROUP,
        RunDiagnosis(a_run(held=Held.LANE, spec=GROUPED)),
        {},
        "The group 'g' runs one run at a time. This run waits for its turn.",
    ),
    (
        Reason.CONCURRENCY,
        RunDiagnosis(a_run(held=Held.GATE, spec=GATED), RunId(OTHER), 4),
        {},
        f"The concurrency key 'c' has a limit of 3. Blocked by run {OTHER}.",
    ),
    (
        Reason.RATE,
        RunDiagnosis(a_run(held=Held.RATE, spec=RATED)),
        {},
        "Waiting for its rate limit of 5 per 1m for the key 'resize'. A scheduler assigns the start time.",
    ),
    (
        Reason.RATE,
        RunDiagnosis(a_run(due=MINUTE, wanted=NOW, spec=Spec("resize", rate=Rate(1, Duration(5 * SECOND // 2), "k")))),
        {},
        "Waiting for its rate limit of 1 per 2500ms for the key 'k'. "
        "The run starts at 2026-11-15T12:01:00.000Z, in 60 s.",
    ),
    (
        Reason.NOT_DUE,  # it has not been given a start yet
        RunDiagnosis(a_run(due=MINUTE, wanted=NOW, held=Held.RATE, spec=RATED)),
        {},
        "Due at 2026-11-15T12:01:00.000Z, in 60 s.",
    ),
    (Reason.NO_CAPACITY, RunDiagnosis(a_run()), {}, "Due: starts when a worker has a free slot."),
    (
        Reason.NO_CAPACITY,
        RunDiagnosis(a_run(), place=0),
        {},
        "Next in line: starts when a worker has a free slot.",
    ),
    (
        Reason.NO_CAPACITY,
        RunDiagnosis(a_run(spec=Spec("resize", unknown=(("later", b"1"),)))),
        {},
        "A newer oncue defined this job; only workers of that version start it. "
        "Due: starts when a worker has a free slot.",
    ),
    (
        Reason.NO_CAPACITY,
        RunDiagnosis(a_run(attempts=GAVE_WAY), place=0),
        {},
        "Preempted by a high-priority run at 2026-11-15T12:00:00.000Z. "
        "Next in line: starts when a worker has a free slot.",
    ),
    (
        Reason.NO_CAPACITY,
        RunDiagnosis(a_run(), place=12),
        {},
        "12 runs wait before it for the same workers. Wait, or start more workers.",
    ),
    (
        Reason.NO_CAPACITY,
        RunDiagnosis(a_run(), place=10_000),
        {},
        "At least 10,000 runs wait before it for the same workers. Wait, or start more workers.",
    ),
]


@pytest.mark.parametrize(("reason", "at", "how", "says"), TABLE)
def test_a_reason_is_told_with_what_it_waits_for(
    reason: Reason, at: RunDiagnosis, how: dict[str, Any], says: str
) -> None:
    found = why(at, **how)

    assert (found.reason, found.detail) == (reason, says)


def test_every_reason_has_a_case_here() -> None:
    of_workers = {Reason.NO_WORKER, Reason.NO_LABELS, Reason.TOO_BIG}

    assert {reason for reason, *_ in TABLE} | of_workers == set(Reason)


def test_the_page_has_a_row_for_every_reason_in_order() -> None:
    page = ROOT / "docs" / "why-has-it-not-run.md"

    assert [row[0] for row in table(page, "reason", "what it means", "what to do")] == list(Reason)


def only(**fields: Any) -> Offer:
    return msgspec.structs.replace(FIT, **fields)


NO_TASK = only(tasks=frozenset({"other"}))
NO_QUEUE = only(queues=frozenset({"default"}))
NO_LABELS = only(labels=frozenset({"arm"}))
TOO_SMALL = only(resources=Resources(1_000, 4_096, 8))
FEW_PLACES = only(slots={"resize": 1})  # its task runs in threads or processes, of which there are fewer
SMALLEST = only(resources=Resources(9_000, 512, 1))
ASKS = a_run(spec=Spec("resize", resources=Resources(1_999, 1_024, 2)))
BIG = "the closest live worker with its task, queue and labels has"


@pytest.mark.parametrize(
    ("workers", "reason", "says"),
    [
        (
            [NO_TASK],
            Reason.NO_WORKER,
            "No live worker has the task 'resize'. Start a worker that has it, with --tasks.",
        ),
        (
            [NO_QUEUE, NO_TASK],
            Reason.NO_WORKER,
            "No live worker with the task 'resize' takes runs from the queue 'images'. "
            "Start a worker with --tasks FILE.py --queues images --labels gpu.",
        ),
        (
            [NO_TASK, NO_LABELS, NO_QUEUE],
            Reason.NO_LABELS,
            "No live worker with the task 'resize' and the queue 'images' has all required labels; "
            "the closest lacks gpu. Start a worker with --tasks FILE.py --queues images --labels gpu.",
        ),
        (
            [NO_LABELS, TOO_SMALL, NO_TASK],
            Reason.TOO_BIG,
            f"The run requests 1.999 cpu, 1024 MB and 2 slots; {BIG} 1 cpu, 4096 MB and 8 slots in total. "
            "Request less, or start a larger worker.",
        ),
        (
            [FEW_PLACES],
            Reason.TOO_BIG,
            f"The run requests 1.999 cpu, 1024 MB and 2 slots; {BIG} 4 cpu, 4096 MB and 1 slot in total. "
            "Request less, or start a larger worker.",
        ),
        (
            [SMALLEST, TOO_SMALL],
            Reason.TOO_BIG,
            f"The run requests 1.999 cpu, 1024 MB and 2 slots; {BIG} 1 cpu, 4096 MB and 8 slots in total. "
            "Request less, or start a larger worker.",
        ),
        (
            [TOO_SMALL, NO_LABELS, FIT, NO_TASK],
            Reason.NO_CAPACITY,
            "1 run waits before it for the same workers. Wait, or start more workers.",
        ),
    ],
)
def test_the_worker_that_comes_closest_decides(workers: list[Offer], reason: Reason, says: str) -> None:
    found = why(RunDiagnosis(ASKS, place=1), *map(worker, workers))

    assert (found.reason, found.detail) == (reason, says)


def test_only_what_is_asked_for_is_compared() -> None:
    key, run = ClassKey("resize", size=Resources(slots=9)), a_run(spec=Spec("resize", resources=Resources(slots=9)))
    small = Offer(frozenset({"resize"}), resources=Resources(4_000, 4_096, 1_000), slots={"resize": 8})

    found = explain(RunDiagnosis(run), key, [worker(small)], NOW)

    assert (found.reason, "requests 9 slots" in found.detail, "has 8 slots in total" in found.detail) == (
        Reason.TOO_BIG,
        True,
        True,
    )


def test_of_several_labels_those_are_named_that_the_closest_lacks() -> None:
    key = ClassKey("resize", labels=("arm", "gpu", "ssd"))
    offers = [Offer(frozenset({"resize"}), labels=frozenset(has)) for has in (["gpu"], ["arm", "ssd"])]

    found = explain(RunDiagnosis(a_run()), key, list(map(worker, offers)), NOW)

    assert "the closest lacks gpu. Start a worker with --tasks FILE.py" in found.detail
    assert found.detail.endswith(" --labels arm,gpu,ssd.")


def test_a_built_in_task_needs_no_file() -> None:
    elsewhere = Offer(frozenset({"http"}), queues=frozenset({"default"}))

    found = explain(RunDiagnosis(a_run()), ClassKey("http", queue="images"), [worker(elsewhere)], NOW)

    assert found.detail.endswith(" Start a worker with --queues images.")


def test_names_that_a_shell_would_run_are_quoted_where_they_are_to_be_typed() -> None:
    """Who names a queue is not always who reads why nothing takes runs from it."""
    here = worker(Offer(frozenset({"resize"})))
    queue, labels = ClassKey("resize", queue="$(reboot)"), ClassKey("resize", labels=("a b", "`id`"))

    told = [explain(RunDiagnosis(a_run()), key, [here], NOW).detail for key in (queue, labels)]

    assert told[0].endswith(" --queues '$(reboot)'.")
    assert told[1].endswith(" --labels 'a b,`id`'.")


@pytest.mark.parametrize("gone", [worker(draining=True), worker(silent=LEASE + 1)])
def test_who_drains_or_has_outlived_its_lease_does_not_count(gone: Offered) -> None:
    assert why(RunDiagnosis(a_run()), gone).reason is Reason.NO_WORKER
    assert ("is draining" in why(RunDiagnosis(a_run()), gone).detail) is gone.draining
    assert why(RunDiagnosis(a_run()), gone, worker(silent=LEASE)).reason is Reason.NO_CAPACITY


def test_without_any_worker_there_is_no_worker() -> None:
    assert explain(RunDiagnosis(a_run()), KEY, (), NOW).reason is Reason.NO_WORKER


def test_a_worker_that_offers_nothing_in_words_is_judged_by_its_classes() -> None:
    assert why(RunDiagnosis(a_run()), worker(None, classes=(CLASS,))).reason is Reason.NO_CAPACITY
    assert why(RunDiagnosis(a_run()), worker(None, classes=(ClassId(8),))).reason is Reason.NO_WORKER


@pytest.mark.parametrize(
    ("run", "how", "reason"),
    [
        (a_run(State.SUCCEEDED, held=Held.PAUSED), {"paused_queues": {"images"}}, Reason.FINISHED),
        (RUNNING, {"paused_queues": {"images"}}, Reason.WORKER_LOST),
        (a_run(due=HOUR, held=Held.PAUSED | Held.LANE), {"paused_queues": {"images"}}, Reason.PAUSED),
        (a_run(due=HOUR, held=Held.LANE), {"paused_queues": {"images"}}, Reason.QUEUE_PAUSED),
        (a_run(due=HOUR, held=Held.LANE | Held.GATE), {}, Reason.NOT_DUE),
        (a_run(due=1, held=Held.RATE), {}, Reason.NOT_DUE),
        (a_run(due=0, held=Held.LANE | Held.GATE | Held.RATE), {}, Reason.OVERLAP),
        (a_run(held=Held.GATE | Held.RATE), {}, Reason.CONCURRENCY),
        (a_run(held=Held.RATE), {}, Reason.RATE),
    ],
)
def test_of_several_reasons_the_first_in_order_is_told(run: RunView, how: dict[str, Any], reason: Reason) -> None:
    assert explain(RunDiagnosis(run), KEY, (), NOW, **how).reason is reason


def test_a_start_that_a_rate_gave_for_later_is_the_rates_doing() -> None:
    late = a_run(due=MINUTE, wanted=Instant(NOW - SECOND), spec=Spec("resize", rate=Rate(1, HOUR, "k")))

    found = why(RunDiagnosis(late))

    assert (found.reason, "The run starts at 2026-11-15T12:01:00.000Z" in found.detail) == (Reason.RATE, True)
    assert why(RunDiagnosis(msgspec.structs.replace(late, failures=1))).reason is Reason.NOT_DUE
    assert why(RunDiagnosis(msgspec.structs.replace(late, wanted=Instant(NOW + 1)))).reason is Reason.NOT_DUE


def test_the_next_in_line_has_the_first_position_and_the_holder_is_named() -> None:
    behind = why(RunDiagnosis(a_run(held=Held.LANE), RunId(OTHER), 0))

    assert (behind.holder, behind.position, behind.state) == (OTHER, 1, "queued")
    assert why(RunDiagnosis(a_run(held=Held.GATE), RunId(OTHER), 3)).position == 4
    assert why(RunDiagnosis(a_run(), place=0)).position == 1
    assert why(RunDiagnosis(a_run())).position is None


DO = (
    "No other run of its group or concurrency key starts beside it. Let the function check ctx.cancelled; to end it "
    f"now, restart worker {WORKER}. Jobs with on_left_behind release do not wait"
)


def holding(state: State = State.WAITING, **how: Any) -> RunView:
    return a_run(state, run_id=RunId(OTHER), **how)


@pytest.mark.parametrize(
    ("holder", "says"),
    [
        (holding(State.RUNNING, started_at=Instant(NOW - 12 * SECOND)), ", which has been running for 12 s"),
        (holding(State.RUNNING), ", which is running"),
        (
            holding(State.RUNNING, started_at=NOW, cancel_at=Instant(NOW - 6 * SECOND), worker_id=WorkerId(WORKER)),
            f": it was cancelled 6 s ago, and its function does not stop. {DO}",
        ),
        (holding(held=Held.PAUSED, failures=1, due=MINUTE), ", which cannot start because its job is paused"),
        (
            holding(spec=Spec("resize", queue="slow"), due=MINUTE),
            ", which cannot start because the queue 'slow' is paused",
        ),
        (holding(due=MINUTE, failures=1), ", which retries at 2026-11-15T12:01:00.000Z"),
        (holding(due=MINUTE, losses=1, held=Held.RATE), ", which retries at 2026-11-15T12:01:00.000Z at the earliest"),
        (holding(due=MINUTE), ", which is due at 2026-11-15T12:01:00.000Z"),
        (holding(held=Held.LANE, spec=GROUPED), ", which is itself blocked: the group 'g' runs one run at a time"),
        (
            holding(held=Held.GATE | Held.RATE, spec=GATED),
            ", which is itself blocked: the concurrency key 'c' has a limit of 3",
        ),
        (
            holding(held=Held.RATE, spec=RATED),
            ", which waits for its rate limit of 5 per 1m for the key 'resize'",
        ),
        (holding(spec=Spec("resize", queue="images")), ", which waits for a free slot on a worker"),
        (holding(State.SUCCEEDED), ", which has just ended"),
        (a_run(State.RUNNING, started_at=NOW), ""),  # another run
        (None, ""),
    ],
)
def test_what_the_holder_does_or_waits_for_is_told_when_it_is_known(holder: RunView | None, says: str) -> None:
    found = why(RunDiagnosis(a_run(held=Held.LANE), RunId(OTHER), 1), holder=holder, paused_queues={"slow"})

    assert found.detail == f"The job runs one run at a time. Blocked by run {OTHER}{says}."


def test_what_is_lost_ends_as_its_definition_says() -> None:
    careful = msgspec.structs.replace(RUNNING, spec=encode_spec(Spec("resize", on_lost=OnLost.DEAD)))

    assert "dead letter" in why(RunDiagnosis(careful)).detail
    assert "restarts on another worker" in why(RunDiagnosis(RUNNING)).detail


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"cancel_at": Instant(NOW - 6 * SECOND)}, "it was cancelled 6 s ago, and its function does not stop"),
        (
            {"spec": encode_spec(Spec("resize", timeout=Duration(6 * SECOND)))},
            "its timeout of 6s ended 6 s ago, and its function does not stop",
        ),
    ],
)
def test_one_that_does_not_stop_is_told_so_and_what_to_do(how: dict[str, Any], says: str) -> None:
    found = why(running(0, msgspec.structs.replace(RUNNING, **how)))

    assert found.detail == f"Running on worker {WORKER} for 12 s; {says}. {DO}."


def test_one_that_is_being_stopped_is_told_so() -> None:
    stopping = msgspec.structs.replace(RUNNING, cancel_at=Instant(NOW - 3 * SECOND))

    found = why(running(0, stopping))

    assert (found.state, found.reason, found.detail.endswith("cancelled 3 s ago, and stopping.")) == (
        "cancelling",
        Reason.RUNNING,
        True,
    )


def test_without_a_definition_a_one_shot_can_only_wait_for_its_group() -> None:
    unreadable = a_run(held=Held.LANE, spec=None, job_id=JobId(RUN))

    for spec in (None, b"{", b'{"task":'):
        run = msgspec.structs.replace(unreadable, spec=spec)
        assert why(RunDiagnosis(run)).reason is Reason.GROUP
        assert why(RunDiagnosis(msgspec.structs.replace(run, job_id=JobId(JOB)))).reason is Reason.OVERLAP


# --------------------------------------------------------------------------------------------------------------- a job


def a_job(status: JobStatus = JobStatus.ACTIVE, next_at: Instant = NEVER, **how: Any) -> Snapshot:
    spec = Spec("resize", schedule=Schedule(cron="0 9 * * *"), queue="images")
    job = Job(JobId(JOB), UserNumber(1), spec, None, NOW, NOW, status=status)
    return Snapshot(job, CLASS, Cursor(next_at, NOW), **how)


@pytest.mark.parametrize(
    ("snap", "how", "reason", "says"),
    [
        (
            a_job(JobStatus.CANCELLED),
            {"paused_queues": {"images"}},
            Reason.FINISHED,
            "Cancelled at 2026-11-15T12:00:00.000Z.",
        ),
        (a_job(JobStatus.FINISHED), {}, Reason.FINISHED, "no more occurrences"),
        (a_job(JobStatus.PAUSED), {"paused_queues": {"images"}}, Reason.PAUSED, "Resume it"),
        (a_job(), {"paused_queues": {"images"}}, Reason.QUEUE_PAUSED, "'images'"),
        (a_job(next_at=Instant(NOW + 2 * DAY)), {}, Reason.NOT_DUE, "at 2026-11-17T12:00:00.000Z, in 2 days"),
        (a_job(next_at=Instant(NOW - SECOND)), {}, Reason.NOT_DUE, "check that a scheduler runs"),
        (a_job(), {}, Reason.NOT_DUE, "no more occurrences"),
    ],
)
def test_a_job_without_a_run_is_explained_by_itself(
    snap: Snapshot, how: dict[str, Any], reason: Reason, says: str
) -> None:
    found = explain_job(snap, NOW, **how)

    assert (found.state, found.reason, says in found.detail) == (snap.job.status, reason, True), found


def waiting(number: int, wanted: int) -> WaitingRun:
    return WaitingRun(RunId(UUID(int=number)), Instant(NOW + wanted), None, scheduled=True)


@pytest.mark.parametrize(
    ("runs", "going", "told"),
    [
        ([waiting(11, -MINUTE), waiting(12, 0), waiting(13, 1)], [OTHER], UUID(int=12)),
        ([waiting(12, 2), waiting(13, 1)], [OTHER], OTHER),
        ([waiting(12, 2), waiting(13, 1)], [], UUID(int=13)),
        ([], [], None),
    ],
)
def test_the_last_run_that_is_due_tells_how_its_job_stands(
    runs: list[WaitingRun], going: list[UUID], told: UUID | None
) -> None:
    assert telling(a_job(waiting=tuple(runs), going=tuple(map(RunId, going))), NOW) == told


# ----------------------------------------------------------------------------------------------------- whatever comes

instants = st.one_of(
    st.none(), st.integers(NOW - DAY, NOW + DAY).map(Instant), st.sampled_from([Instant(0), NEVER, Instant(-NEVER)])
)
lengths = st.one_of(st.none(), st.integers(0, DAY).map(Duration))
some_instants = instants.filter(lambda at: at is not None)
specs = st.sampled_from(
    [None, b"", b"\xff"]
    + [
        encode_spec(Spec("resize", **how))
        for how in (
            {},
            {"group": "g"},
            {"rate": Rate(1, MILLISECOND)},
            {"concurrency": Concurrency("c", 1)},
            {"on_lost": OnLost.DEAD},
        )
    ]
)
runs = st.builds(
    a_run,
    st.sampled_from(State),
    wanted=some_instants,
    failures=st.integers(0, 2),
    losses=st.integers(0, 2),
    held=st.integers(0, 15).map(Held),
    started_at=instants,
    ended_at=instants,
    cancel_at=instants,
    worker_id=st.sampled_from([None, WorkerId(WORKER)]),
    run_id=st.sampled_from([RunId(RUN), RunId(OTHER), RunId(JOB)]),
    due=st.integers(-2 * HOUR, 2 * HOUR),
).flatmap(lambda run: specs.map(lambda spec: msgspec.structs.replace(run, spec=spec)))
paused = st.sets(st.sampled_from(["images", "default"]))
places = st.one_of(st.none(), st.integers(0, 10_000))
standings = st.builds(RunDiagnosis, runs, st.sampled_from([None, RunId(OTHER)]), places, instants, lengths)
offers = st.sampled_from([FIT, NO_TASK, NO_QUEUE, NO_LABELS, TOO_SMALL, FEW_PLACES, None])
workers = st.lists(
    st.builds(Offered, st.sampled_from([(), (CLASS,)]), some_instants, st.booleans(), offers), max_size=4
)


@given(at=standings, others=workers, paused_queues=paused, holder=st.one_of(st.none(), runs))
def test_whatever_comes_there_is_one_reason_and_a_sentence(
    at: RunDiagnosis, others: list[Offered], paused_queues: set[str], holder: RunView | None
) -> None:
    found = explain(at, KEY, others, NOW, paused_queues=paused_queues, holder=holder)

    assert isinstance(found.reason, Reason)
    assert found.detail
    assert "None" not in found.detail.replace("orker None", "")
    assert (found.reason is Reason.FINISHED) == at.run.state.final
    assert (found.reason in (Reason.RUNNING, Reason.WORKER_LOST)) == (at.run.state is State.RUNNING)
    assert found.position is None or found.position >= 1
    if found.holder is not None:
        assert found.reason in (Reason.OVERLAP, Reason.GROUP, Reason.CONCURRENCY)


@given(
    status=st.sampled_from(JobStatus),
    next_at=some_instants,
    cursor=st.booleans(),
    paused_queues=paused,
)
def test_whatever_a_job_is_there_is_one_reason(
    status: JobStatus, next_at: Instant, cursor: bool, paused_queues: set[str]
) -> None:
    snap = a_job(status, next_at)
    snap = snap if cursor else msgspec.structs.replace(snap, cursor=None)

    assert isinstance(explain_job(snap, NOW, paused_queues=paused_queues).reason, Reason)
