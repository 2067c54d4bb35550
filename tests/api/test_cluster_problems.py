"""What is wrong with a cluster, in words: each problem is provoked once, and `oncue doctor` says the same."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.services.test_doctor import MEMBER, WELL, WORKER, before, busy, due, offering, wrong

from oncue.api.cluster_problems import of_cluster
from oncue.domain.explain import RunDiagnosis, explain
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber
from oncue.domain.instants import SECOND, Instant, moment
from oncue.domain.missing_workers import Offered
from oncue.domain.placement import ClassKey, Resources, read_offer
from oncue.domain.run import RunView, State, Trigger
from oncue.engines.port import ClassGauge, Turn
from oncue.services.cluster_checks import diagnose_cluster
from oncue.testing.clock import SOME_DAY

OWN = {ClassId(1): 3, ClassId(2): 2}
CLASS = ClassGauge(ClassId(2), ClassKey("t"), open=7)


def of(change: dict[str, Any], own: dict[ClassId, int] | None = None) -> list[Any]:
    return list(of_cluster(replace(WELL, **change), own))


def lacking(**key: Any) -> dict[str, Any]:
    return {"workers": offering(), "classes": (replace(CLASS, key=ClassKey(**{"task": "t", **key})),)}


CASES = [
    ({"members": (replace(MEMBER, role="api"),)}, "no_scheduler", "problem", "No occurrence becomes a run", 0, True),
    ({"next_plan": before(6 * SECOND)}, "planning_late", "problem", "later than they should", 0, True),
    ({"workers": ()}, "no_workers", "problem", "3 runs cannot start", 3, True),
    ({"workers": ()} | {"classes": (CLASS,)}, "no_workers", "problem", "7 runs cannot start when due", 7, True),
    ({"workers": (replace(WORKER, draining=True),)}, "all_draining", "problem", "3 runs cannot start", 3, True),
    (lacking(task="gone"), "no_worker", "warning", "No live worker has the task 'gone'", 7, True),
    (lacking(queue="slow"), "no_worker", "warning", "Start a worker with --tasks FILE.py --queues slow", 7, True),
    (lacking(labels=("eu", "gpu")), "no_worker", "warning", "the closest lacks gpu", 7, True),
    (lacking(size=Resources(9_000)), "no_worker", "warning", "The run requests 9 cpu", 7, True),
    ({"classes": (due(61 * SECOND), due(90 * SECOND))}, "late_runs", "problem", "due for 90 s", 4, True),
    ({"classes": (due(SECOND),), "paused": {"default": SOME_DAY}}, "paused_queue", "warning", "2+ runs wait", 2, True),
    ({"workers": busy(slots={"thread": 2}, used={"thread": 2}), "classes": (due(3 * SECOND),)}, "workers_full",
     "warning", "Full: w.", 1, False),
    ({"workers": (replace(WORKER, beat_at=before(6 * SECOND)),)}, "worker_without_heartbeat", "warning",
     "6 s ago, from here", 1, False),
    ({"members": (MEMBER, replace(MEMBER, role="api", beat_at=before(31 * SECOND)))}, "process_without_heartbeat",
     "warning", "It ran on here", 1, False),
    ({"members": (MEMBER, replace(MEMBER, role="api", version="0.1.0"))}, "mixed_versions", "warning",
     "1 api of version 0.1.0, 1 up of version 0.2.0.", 2, False),
    ({"findings": {"lane": 2, "sums": 1}}, "findings", "problem", "2 of lane, 1 of sums", 3, False),
    ({"turns": {"self-audit": Turn(before(61 * SECOND), b"")}}, "audit_stopped", "problem", "", 0, False),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "severity", "detail", "count", "theirs"), CASES)
def test_what_is_wrong_is_said_once_and_doctor_agrees(
    change: dict[str, Any], kind: str, severity: str, detail: str, count: int, theirs: bool
) -> None:
    [found] = of(change)

    assert (found.kind, str(found.severity), found.count) == (kind, severity, count)
    assert detail in found.detail
    assert found.title
    assert (found.remedy[-1], found.command.split()[0], found.link[:4]) == (".", "oncue", "/v1/")
    assert [one.kind for one in of(change, OWN)] == [kind] * theirs
    if kind not in (
        "worker_without_heartbeat",
        "workers_full",
    ):  # a heartbeat within the lease is none of doctor's business
        assert len(wrong(diagnose_cluster(replace(WELL, **change)))) == 1


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert of({}) == of({}, OWN) == []
    assert of({"workers": busy(slots={"thread": 2}, used={"thread": 2})}) == []  # and nothing waits
    assert of({"workers": (replace(WORKER, beat_at=before(4 * SECOND)),)}) == []


def test_due_runs_that_no_worker_can_take_are_worse_and_not_also_late() -> None:
    change = {"workers": offering(), "classes": (due(90 * SECOND, queue="slow"), due(80 * SECOND, 2, queue="slow"))}

    [found] = of(change)

    assert (found.kind, str(found.severity), found.count) == ("no_worker", "problem", 4)
    assert found.since == moment(before(90 * SECOND))
    assert found.command == "oncue worker --tasks FILE.py --queues slow"


def test_a_user_is_told_of_own_runs_only_and_counts_these() -> None:
    change = {"workers": offering(), "classes": (due(90 * SECOND, queue="slow"), due(90 * SECOND, 9, queue="dark"))}

    assert len(of(change)) == 2
    [mine] = of(change, {ClassId(1): 1, ClassId(9): 0})
    assert (mine.count, "slow" in mine.detail) == (1, True)
    assert of({"workers": ()}, {}) == []
    late = {"classes": (due(90 * SECOND),)}
    assert [(one.kind, one.count) for one in of(late, OWN)] == [("late_runs", 3)]
    assert of(late, {}) == []


def test_it_says_what_explain_says() -> None:
    change = lacking(labels=("gpu",))
    workers = [Offered((), Instant(SOME_DAY + SECOND), offer=read_offer(one.info)) for one in change["workers"]]
    run = RunView(
        run_id=RunId(MEMBER.member_id), job_id=JobId(MEMBER.member_id), uid=UserNumber(1), class_id=ClassId(2),
        state=State.WAITING, due=SOME_DAY, wanted=SOME_DAY, nominal=None, trigger=Trigger.SCHEDULE, token=0,
        failures=0, losses=0, job_version=1,
    )  # fmt: skip

    [found] = of(change)

    assert found.detail == explain(RunDiagnosis(run), change["classes"][0].key, workers, SOME_DAY).detail


def test_names_of_users_break_neither_words_nor_commands() -> None:
    [found] = of({"classes": (due(90 * SECOND, queue="a b; rm -rf ~\x1b[31m"),)})

    assert "\x1b" not in found.command + found.title + found.detail
    assert "'a b; rm -rf ~" in found.command
    assert "%3B" in found.link
