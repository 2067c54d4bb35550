"""What is wrong with the cluster, in words for people. The conditions are those of `oncue doctor` and of explain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from shlex import quote
from urllib.parse import quote as in_url

from msgspec.structs import replace

from oncue.domain.diagnosis import State
from oncue.domain.explain import is_silent, rough_length
from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant, moment
from oncue.domain.load import read_load
from oncue.domain.missing_workers import no_worker_for, options_of_a_worker
from oncue.domain.placement import ClassKey, Mismatch
from oncue.domain.plain_text import printable, showable
from oncue.domain.planning import GRACE
from oncue.engines import conditions
from oncue.engines.gauges import ClassGauge, Gauges, QueueGauge
from oncue.shapes.overview import KnownProblem

MOST_OF_A_KIND = 10
Own = Mapping[ClassId, int]  # a user's open runs by class


def of_cluster(gauges: Gauges, own: Own | None) -> Iterator[KnownProblem]:
    """Yield what is wrong. With a user's `own` runs, only what keeps these from starting."""
    if own is not None:
        gauges = replace(gauges, classes=tuple(one for one in gauges.classes if own.get(one.class_id, 0) > 0))
    workers = conditions.offered(gauges)
    reasons = {
        one.class_id: reason
        for one in gauges.classes
        if (reason := no_worker_for(one.class_id, one.key, workers, gauges.at)) is not None
    }
    yield from _scheduling(gauges)
    if not workers:
        yield from _no_workers(gauges, own)
    else:
        yield from _no_worker(gauges, reasons, own)
    startable = replace(gauges, classes=tuple(one for one in gauges.classes if one.class_id not in reasons))
    yield from _late(startable, own)
    yield from _paused(gauges, own)
    if own is None:
        yield from _silent(gauges)
        yield from _processes(gauges)
        yield from _audited(gauges)


def time_of(at: Instant | None) -> datetime | None:
    return None if at is None else moment(at)


def plural(n: int, what: str, *, more: bool = False) -> str:
    return f"{n:,}{'+' * more} {what}{'s' * (n != 1 or more)}"


def _scheduling(gauges: Gauges) -> Iterator[KnownProblem]:
    if not conditions.running_schedulers(gauges):
        yield KnownProblem(
            kind="no_scheduler",
            severity=State.PROBLEM,
            title="No scheduler runs",
            detail="No occurrence becomes a run, and no run of a dead worker is recovered.",
            since=time_of(_in_the_past(gauges.next_plan, gauges.at)),
            link="/v1/processes",
            remedy="Start a scheduler; `oncue up` has one, too.",
            command="oncue scheduler",
        )
    elif conditions.is_planning_late(gauges):
        yield KnownProblem(
            kind="planning_late",
            severity=State.PROBLEM,
            title=f"Planning is {rough_length(gauges.planner_lag)} late",
            detail="Occurrences become runs later than they should.",
            since=time_of(gauges.next_plan),
            link="/v1/processes",
            remedy="Read the log of the schedulers, and check the load of the database.",
            command="oncue doctor",
        )


def _in_the_past(at: Instant | None, now: Instant) -> Instant | None:
    return at if at is not None and at <= now else None


# ------------------------------------------------------------------------------------------------- runs and workers


def _no_workers(gauges: Gauges, own: Own | None) -> Iterator[KnownProblem]:
    if own is not None and not gauges.classes:
        return
    draining = gauges.draining_workers
    known = KnownProblem(
        kind="no_workers",
        severity=State.PROBLEM,
        title="No live worker: no run starts",
        detail=_unstarted(gauges.classes, own),
        count=_count(gauges.classes, own),
        since=time_of(_oldest(gauges.classes)),
        link="/v1/workers",
        remedy="Start a worker; `oncue up` has one, too.",
        command="oncue worker",
    )
    if draining:
        known = replace(
            known,
            kind="all_draining",
            title="Every live worker is draining: no run starts",
            remedy="Resume one, or start another worker.",
            command=f"oncue workers resume {_word(draining[0].name)}",
        )
    yield known


def _unstarted(classes: Sequence[ClassGauge], own: Own | None) -> str:
    if not classes:
        return ""
    count = plural(_count(classes, own), "run")
    if own is not None or any(one.due for one in classes):
        return f"{count} cannot start."
    return f"{count} cannot start when due; none is due yet."


def _no_worker(
    gauges: Gauges, reasons: Mapping[ClassId, tuple[Mismatch, str]], own: Own | None
) -> Iterator[KnownProblem]:
    """Yield the classes that no live worker can take, one entry for each reason; those with due runs are worse."""
    alike: dict[str, list[ClassGauge]] = {}
    for one in gauges.classes:
        if one.class_id in reasons:
            alike.setdefault(reasons[one.class_id][1], []).append(one)
    for detail, classes in list(alike.items())[:MOST_OF_A_KIND]:
        key, due = classes[0].key, any(one.due for one in classes)
        yield KnownProblem(
            kind="no_worker",
            severity=State.PROBLEM if due else State.WARNING,
            title=f"No worker can run {printable(key.task)}",
            detail=showable(detail),
            count=_count(classes, own),
            since=time_of(_oldest(classes)),
            link=f"/v1/runs?task={in_url(key.task, safe='')}&status={'queued' if due else 'scheduled'}",
            remedy=_REMEDIES[reasons[classes[0].class_id][0]],
            command=_command(key, reasons[classes[0].class_id][0]),
        )


_REMEDIES = {
    Mismatch.NO_TASK: "Start a worker that has the task, or cancel the jobs.",
    Mismatch.NO_QUEUE: "Start a worker that takes runs from this queue, or move the jobs to another queue.",
    Mismatch.NO_LABELS: "Start a worker that has all these labels, or ask for fewer.",
    Mismatch.TOO_BIG: "Start a larger worker, or let the jobs request less.",
}


def _command(key: ClassKey, lacking: Mismatch) -> str:
    match lacking:
        case Mismatch.NO_QUEUE | Mismatch.NO_LABELS:
            return " ".join(["oncue worker", *map(_word, options_of_a_worker(key))])
        case _:
            return f"oncue runs list --task {_word(key.task)}"


def _late(gauges: Gauges, own: Own | None) -> Iterator[KnownProblem]:
    late = conditions.late_queues(gauges)
    for one in late[:MOST_OF_A_KIND]:
        yield KnownProblem(
            kind="late_runs",
            severity=State.PROBLEM,
            title=f"Runs of the queue {printable(one.queue)} start late",
            detail=f"The oldest has been due for {rough_length(one.oldest_due)}. {_waits(one, own)}",
            count=one.due if own is None else _count(_of(gauges, one), own),
            since=time_of(Instant(gauges.at - one.oldest_due)),
            link=f"/v1/runs?status=queued&queue={in_url(one.queue, safe='')}",
            remedy="Start more workers, or give them more slots; `oncue runs explain` says what one run waits for.",
            command=f"oncue runs list --status queued --queue {_word(one.queue)}",
        )
    if own is None:
        yield from _full(gauges)


def _waits(one: QueueGauge, own: Own | None) -> str:
    if own is not None:
        return "Yours wait with it."
    return f"{plural(one.due, 'run', more=one.more)} could start now."


def _full(gauges: Gauges) -> Iterator[KnownProblem]:
    """Yield the workers without a free slot, if something waits for one."""
    full = [worker.name for worker in gauges.live_workers if conditions.fully_used(read_load(worker.load))]
    waiting = [one for one in gauges.classes if one.oldest_due is not None and gauges.at - one.oldest_due > GRACE]
    if full and waiting:
        yield KnownProblem(
            kind="workers_full",
            severity=State.WARNING,
            title=f"{len(full)} of {plural(len(gauges.live_workers), 'worker')} have no capacity left",
            detail=f"Runs wait for a free slot. Full: {_names(full)}.",
            count=len(full),
            since=time_of(_oldest(waiting)),
            link="/v1/workers",
            remedy="Start more workers (`GET /v1/scaling` says how many), or give these more slots.",
            command="oncue top",
        )


def _paused(gauges: Gauges, own: Own | None) -> Iterator[KnownProblem]:
    for one in conditions.paused_with_due_runs(gauges)[:MOST_OF_A_KIND]:
        classes = _of(gauges, one)
        count = one.due if own is None else _count(classes, own)
        yield KnownProblem(
            kind="paused_queue",
            severity=State.WARNING,
            title=f"The queue {printable(one.queue)} is paused, and runs wait in it",
            detail=f"{plural(count, 'run', more=own is None and one.more)} {'waits' if count == 1 else 'wait'} in it.",
            count=count,
            since=time_of(gauges.paused[one.queue]),
            link=f"/v1/runs?queue={in_url(one.queue, safe='')}",
            remedy="Resume it when its runs may start; that needs an admin key.",
            command=f"oncue queues resume {_word(one.queue)}",
        )


# -------------------------------------------------------------------------------------------------------- processes


def _after_lease(lease: int, silence: int) -> str:
    if silence < lease:
        return f"After {rough_length(lease)} its runs start on other workers."
    return f"That is longer than its lease of {rough_length(lease)}: its runs start on other workers."


def _silent(gauges: Gauges) -> Iterator[KnownProblem]:
    silent = [one for one in gauges.workers if is_silent(one.beat_at, one.lease, gauges.at)]
    for one in silent[:MOST_OF_A_KIND]:
        yield KnownProblem(
            kind="worker_without_heartbeat",
            severity=State.WARNING,
            title=f"The worker {printable(one.name)} sends no heartbeat",
            detail=f"The last one came {rough_length(gauges.at - one.beat_at)} ago, from {printable(one.host)}. "
            + _after_lease(one.lease, gauges.at - one.beat_at),
            count=1,
            since=time_of(one.beat_at),
            link="/v1/workers",
            remedy="Check the worker's machine, its log and its connection to the database.",
            command="oncue top",
        )


def _processes(gauges: Gauges) -> Iterator[KnownProblem]:
    for one in conditions.silent_members(gauges)[:MOST_OF_A_KIND]:
        yield KnownProblem(
            kind="process_without_heartbeat",
            severity=State.WARNING,
            title=f"A process with the role {printable(one.role)} sends no heartbeat",
            detail=f"It ran on {printable(one.host)}. One that was killed is listed for an hour.",
            count=1,
            since=time_of(one.beat_at),
            link="/v1/processes",
            remedy="Check that the process runs, and that it reaches the database.",
            command="oncue doctor",
        )
    if conditions.has_mixed_versions(gauges):
        running = sorted(gauges.processes.items())
        yield KnownProblem(
            kind="mixed_versions",
            severity=State.WARNING,
            title="Processes of different versions run",
            detail=_names([f"{n} {role} of version {version}" for (role, version), n in running]) + ".",
            count=len({version for _, version in gauges.processes}),
            link="/v1/processes",
            remedy="Complete the upgrade: replace the processes of the older version.",
            command="oncue doctor",
        )


def _audited(gauges: Gauges) -> Iterator[KnownProblem]:
    if gauges.findings:
        found = [f"{n:,} of {check}" for check, n in sorted(gauges.findings.items())]
        yield KnownProblem(
            kind="findings",
            severity=State.PROBLEM,
            title="The self-audit found something wrong in the database",
            detail=f"{_names(found)}. Each is a bug, or the database was changed from outside.",
            count=sum(gauges.findings.values()),
            link="/v1/findings",
            remedy="Read the details, and report them.",
            command="oncue doctor",
        )
    stopped = conditions.audit_stopped_for(gauges)
    if stopped is not None and conditions.running_schedulers(gauges):
        yield KnownProblem(
            kind="audit_stopped",
            severity=State.PROBLEM,
            title=f"The self-audit has stood still for {rough_length(stopped)}",
            since=time_of(Instant(gauges.at - stopped)),
            link="/v1/findings",
            remedy="Read the log of the schedulers for errors of `self-audit`.",
            command="oncue doctor",
        )


# ------------------------------------------------------------------------------------------------------------ words


def _of(gauges: Gauges, queue: QueueGauge) -> list[ClassGauge]:
    return [one for one in gauges.classes if one.key.queue == queue.queue]


def _count(classes: Sequence[ClassGauge], own: Own | None) -> int:
    """How many runs are affected: those that are due, or all that are open if none is; of a user, all open ones."""
    if own is not None:
        return sum(own.get(one.class_id, 0) for one in classes)
    return sum(one.due for one in classes) or sum(one.open for one in classes)


def _oldest(classes: Sequence[ClassGauge]) -> Instant | None:
    return min((one.oldest_due for one in classes if one.oldest_due is not None), default=None)


def _names(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(printable(name) for name in names[:most]) + more


def _word(name: str) -> str:
    return quote(showable(name))
