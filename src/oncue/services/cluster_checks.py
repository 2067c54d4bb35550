"""What `oncue doctor` sees of the whole cluster, from one reading of its gauges."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import assert_never

from oncue.domain.audit_progress import TURN
from oncue.domain.diagnosis import Diagnosis, ok, problem, warning
from oncue.domain.ids import ClassId
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.load import Load, read_load
from oncue.domain.placement import Mismatch, Offer, mismatch, read_offer
from oncue.domain.plain_text import printable
from oncue.engines.gauges import MEMBER_LEASE
from oncue.engines.port import ClassGauge, Gauges, Member

LATE_PLANNING = Duration(5 * SECOND)
LATE_START = Duration(60 * SECOND)
STANDING_STILL = Duration(MINUTE)  # a turn that no process has taken for this long
BUSY_LOOP = 0.9
MOST_NAMED = 5

SCHEDULERS = ("up", "scheduler")  # roles


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
    if len({version for _, version in running}) > 1:
        yield warning("processes", seen, "Complete the upgrade: replace the processes of the older version.")
    elif running:
        yield ok("processes", seen)
    lost = [one for one in gauges.members if not _alive(gauges, one)]
    if lost:
        yield warning(
            "heartbeats",
            f"no heartbeat for {seconds(MEMBER_LEASE)} or longer: "
            + named(f"{one.role} on {one.host} ({seconds(Duration(abs(gauges.at - one.beat_at)))})" for one in lost),
            "Check these processes. One that was killed is listed for an hour.",
        )


def _alive(gauges: Gauges, member: Member) -> bool:
    return abs(gauges.at - member.beat_at) <= MEMBER_LEASE


def schedulers(gauges: Gauges) -> Iterator[Diagnosis]:
    running = sum(n for (role, _), n in gauges.processes.items() if role in SCHEDULERS)
    if not running:
        yield problem(
            "scheduler",
            "no scheduler runs: nothing is planned, and no run of a dead worker is recovered",
            "Start `oncue scheduler` or `oncue up`.",
        )
        return
    if gauges.planner_lag > LATE_PLANNING:
        yield problem(
            "scheduler",
            f"planning is {seconds(gauges.planner_lag)} late",
            "Read the log of the schedulers, and check the load of the database.",
        )
    else:
        yield ok("scheduler", f"{running} running, planning is on time")
    turn = gauges.turns.get(TURN)
    if turn is not None and gauges.at - turn.next_at > STANDING_STILL:
        yield problem(
            "self-audit",
            f"no step for {seconds(Duration(gauges.at - turn.next_at))}, though a scheduler runs",
            "Read the log of the schedulers for errors of `self-audit`.",
        )


def workers(gauges: Gauges) -> Iterator[Diagnosis]:
    live = gauges.live_workers
    if not live:
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
    live, elsewhere = gauges.live_workers, set(gauges.tasks_without_worker)  # another diagnosis names those
    offers = [(read_offer(one.info), frozenset(one.classes)) for one in live]
    misfits = [
        f"{one.key.task} ({lacking})"
        for one in gauges.classes
        if live and one.key.task not in elsewhere and (lacking := _lacking(one, offers))
    ]
    if misfits:
        yield problem(
            "placement",
            f"open runs that no live worker can take: {named(misfits)}",
            "Start a worker with this queue (--queues), these labels (--labels) or this size, or cancel the jobs.",
        )


def _lacking(one: ClassGauge, offers: Iterable[tuple[Offer | None, frozenset[ClassId]]]) -> str:
    """Return what the closest worker lacks for this class; empty: one can take it."""
    closest = Mismatch.NO_TASK
    for offer, classes in offers:
        found = mismatch(one.key, offer) if offer is not None else None
        if found is None and (offer is not None or one.class_id in classes):  # an offer of another version
            return ""
        closest = max(closest, found or Mismatch.NO_TASK)
    match closest:
        case Mismatch.NO_TASK | Mismatch.NO_QUEUE:
            return f"queue {one.key.queue}"
        case Mismatch.NO_LABELS:
            return f"labels {', '.join(sorted(one.key.labels))}"
        case Mismatch.TOO_BIG:
            return "too large"
        case _:
            assert_never(closest)


def fully_used(load: Load | None) -> str:
    """Return what a worker has no more of; empty: it has everything, or has not said."""
    if load is None:
        return ""
    full = [kind for kind, slots in sorted(load.slots.items()) if slots and load.used.get(kind, 0) >= slots]
    lacking = [f"all {load.slots[kind]} {kind} slots used" for kind in full]
    return ", ".join(lacking + ([f"event loop {load.busy:.0%} busy"] if load.busy >= BUSY_LOOP else []))


# --------------------------------------------------------------------------------------------------------------- runs


def queues(gauges: Gauges) -> Iterator[Diagnosis]:
    paused = [one for one in gauges.queues if one.paused and one.due]
    late = [one for one in gauges.queues if not one.paused and one.oldest_due > LATE_START]
    if paused:
        yield warning(
            "paused queues",
            "due runs wait in " + named(f"{one.queue} ({one.due:,}{'+' * one.more})" for one in paused),
            "Resume each queue when its runs may start: `POST /v1/queues/QUEUE/resume`.",
        )
    for one in sorted(late, key=lambda one: -one.oldest_due)[:MOST_NAMED]:
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
            "Read the errors with `oncue dead list`, then requeue or discard the dead letters.",
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
