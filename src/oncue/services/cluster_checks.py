"""What `oncue doctor` sees of the whole cluster, from one reading of its gauges."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import assert_never

from oncue.domain.diagnosis import Diagnosis, ok, problem, warning
from oncue.domain.instants import SECOND, Duration
from oncue.domain.load import read_load
from oncue.domain.missing_workers import closest_worker
from oncue.domain.placement import Mismatch
from oncue.domain.plain_text import printable
from oncue.engines.conditions import (
    LATE_START,
    audit_stopped_for,
    fully_used,
    has_mixed_versions,
    is_planning_late,
    late_queues,
    offered,
    paused_with_due_runs,
    running_schedulers,
    silent_members,
)
from oncue.engines.gauges import MEMBER_LEASE
from oncue.engines.port import ClassGauge, Gauges

MOST_NAMED = 5


def diagnose_cluster(gauges: Gauges) -> list[Diagnosis]:
    return [
        *processes(gauges),
        *schedulers(gauges),
        *workers(gauges),
        *placement(gauges),
        *queues(gauges),
        *dead_letters(gauges),
        findings(gauges.findings),
    ]


def named(names: Iterable[str]) -> str:
    """List names, which are users' words, on one line: `a, b and 3 more`."""
    shown = [printable(name) for name in names]
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return ", ".join(shown[:MOST_NAMED]) + more


def seconds(length: Duration) -> str:
    return f"{length // SECOND:,} s"


# ---------------------------------------------------------------------------------------------------------- processes


def processes(gauges: Gauges) -> Iterator[Diagnosis]:
    running = gauges.processes
    seen = named(f"{n} {role} of version {version}" for (role, version), n in sorted(running.items()))
    if has_mixed_versions(gauges):
        yield warning("processes", seen, "Complete the upgrade: replace the processes of the older version.")
    elif running:
        yield ok("processes", seen)
    if lost := silent_members(gauges):
        yield warning(
            "heartbeats",
            f"no heartbeat for {seconds(MEMBER_LEASE)} or longer: "
            + named(f"{one.role} on {one.host} ({seconds(Duration(abs(gauges.at - one.beat_at)))})" for one in lost),
            "Check these processes. One that was killed is listed for an hour.",
        )


def schedulers(gauges: Gauges) -> Iterator[Diagnosis]:
    running = running_schedulers(gauges)
    if not running:
        yield problem(
            "scheduler",
            "no scheduler runs: nothing is planned, and no run of a dead worker is recovered",
            "Start `oncue scheduler` or `oncue up`.",
        )
        return
    if is_planning_late(gauges):
        yield problem(
            "scheduler",
            f"planning is {seconds(gauges.planner_lag)} late",
            "Read the log of the schedulers, and check the load of the database.",
        )
    else:
        yield ok("scheduler", f"{running} running, planning is on time")
    if (stopped := audit_stopped_for(gauges)) is not None:
        yield problem(
            "self-audit",
            f"no step for {seconds(stopped)}, though a scheduler runs",
            "Read the log of the schedulers for errors of `self-audit`.",
        )


def workers(gauges: Gauges) -> Iterator[Diagnosis]:
    live = gauges.live_workers
    if not live and gauges.draining_workers:
        yield problem(
            "workers",
            f"every live worker is draining: no run starts ({named(one.name for one in gauges.draining_workers)})",
            "Resume one with `oncue workers resume NAME`, or start another with `oncue worker`.",
        )
    elif not live:
        yield problem("workers", "no live worker: no run starts", "Start `oncue worker` or `oncue up`.")
    elif full := {one.name: why for one in live if (why := fully_used(read_load(one.load)))}:
        yield warning(
            "workers",
            f"{len(full)} of {len(live)} have no capacity left: "
            + named(f"{name} ({why})" for name, why in sorted(full.items())),
            "If runs start late, start more workers (`GET /v1/scaling` says how many), or give these more slots.",
        )
    else:
        yield ok("workers", f"{len(live)} live, with free slots")
    if live and (lacking := gauges.tasks_without_worker):
        yield problem(
            "tasks",
            f"open runs, but no live worker with the task: {named(lacking)}",
            "Start a worker that loads these tasks (--tasks), or cancel the jobs.",
        )


def placement(gauges: Gauges) -> Iterator[Diagnosis]:
    """Check that each class with open runs fits a live worker that has its task."""
    workers, elsewhere = offered(gauges), set(gauges.tasks_without_worker)  # another diagnosis names those
    misfits = [
        f"{one.key.task} ({_lacking(one, found[0])})"
        for one in gauges.classes
        if workers
        and one.key.task not in elsewhere
        and (found := closest_worker(one.class_id, one.key, workers, gauges.at)) is not None
    ]
    if misfits:
        yield problem(
            "placement",
            f"open runs that no live worker can take: {named(misfits)}",
            "Start a worker with their tasks (--tasks), this queue (--queues), these labels (--labels) or this size, "
            "or cancel the jobs.",
        )


def _lacking(one: ClassGauge, closest: Mismatch) -> str:
    match closest:
        case Mismatch.NO_TASK | Mismatch.NO_QUEUE:
            return f"queue {one.key.queue}"
        case Mismatch.NO_LABELS:
            return f"labels {', '.join(sorted(one.key.labels))}"
        case Mismatch.TOO_BIG:
            return "too large"
        case _:
            assert_never(closest)


# --------------------------------------------------------------------------------------------------------------- runs


def queues(gauges: Gauges) -> Iterator[Diagnosis]:
    paused, late = paused_with_due_runs(gauges), late_queues(gauges)
    if paused:
        yield warning(
            "paused queues",
            "due runs wait in " + named(f"{one.queue} ({one.due:,}{'+' * one.more})" for one in paused),
            "Resume each queue when its runs may start: `POST /v1/queues/QUEUE/resume`.",
        )
    for one in late[:MOST_NAMED]:
        queue = printable(one.queue)
        yield problem(
            "late runs",
            f"queue {queue}: {one.due:,}{'+' * one.more} due, the oldest for {seconds(one.oldest_due)}",
            f"See why: `oncue runs list --status queued --queue {quote(queue)}`, then `oncue runs explain RUN_ID`.",
        )
    if not (paused or late):
        yield ok("late runs", f"no run is due for longer than {seconds(LATE_START)}")


def dead_letters(gauges: Gauges) -> Iterator[Diagnosis]:
    dead = Tally({task: n for task, n in gauges.dead_letters.items() if n > 0})
    if dead:
        yield warning(
            "dead letters",
            named(f"{n:,} of {task}" for task, n in dead.most_common()),
            "Read the errors with `oncue dead list`, then run the dead letters again or discard them.",
        )
    else:
        yield ok("dead letters", "none")


def findings(by_check: Mapping[str, int]) -> Diagnosis:
    if not by_check:
        return ok("findings", "none")
    return problem(
        "findings",
        "the self-audit found: " + named(f"{n:,} of {check}" for check, n in sorted(by_check.items())),
        "Each is a bug, or the database was changed from outside. `GET /v1/findings` has the details: report them.",
    )
