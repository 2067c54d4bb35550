"""What is wrong with a cluster, decided from one reading of its gauges: `oncue doctor` and `GET /v1/problems` agree."""

from __future__ import annotations

from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.load import Load
from oncue.domain.missing_workers import Offered
from oncue.domain.placement import read_offer
from oncue.domain.self_audit import TURN
from oncue.engines.gauges import MEMBER_LEASE, Gauges, QueueGauge
from oncue.engines.values import Member

LATE_PLANNING = Duration(5 * SECOND)
LATE_START = Duration(60 * SECOND)
STANDING_STILL = Duration(MINUTE)  # a turn that no process has taken for this long
BUSY_LOOP = 0.9
SCHEDULERS = ("up", "scheduler")  # roles


def silent_members(gauges: Gauges) -> list[Member]:
    """The processes without a heartbeat for so long that they do not count."""
    return [one for one in gauges.members if abs(gauges.at - one.beat_at) > MEMBER_LEASE]


def has_mixed_versions(gauges: Gauges) -> bool:
    return len({version for _, version in gauges.processes}) > 1


def running_schedulers(gauges: Gauges) -> int:
    return sum(n for (role, _), n in gauges.processes.items() if role in SCHEDULERS)


def is_planning_late(gauges: Gauges) -> bool:
    return gauges.planner_lag > LATE_PLANNING


def audit_stopped_for(gauges: Gauges) -> Duration | None:
    """How long the self-audit's next step has been due. None: it goes on, or has never begun."""
    turn = gauges.turns.get(TURN)
    stopped = Duration(0 if turn is None else gauges.at - turn.next_at)
    return stopped if stopped > STANDING_STILL else None


def offered(gauges: Gauges) -> list[Offered]:
    """What live workers take."""
    return [Offered(one.classes, gauges.at, offer=read_offer(one.info)) for one in gauges.live_workers]


def paused_with_due_runs(gauges: Gauges) -> list[QueueGauge]:
    return [one for one in gauges.queues if one.paused and one.due]


def late_queues(gauges: Gauges) -> list[QueueGauge]:
    """The queues whose first run has been due for too long, the latest first."""
    late = (one for one in gauges.queues if not one.paused and one.oldest_due > LATE_START)
    return sorted(late, key=lambda one: -one.oldest_due)


def fully_used(load: Load | None) -> str:
    """Return what a worker has no more of; empty: it has everything, or has not said."""
    if load is None:
        return ""
    full = [kind for kind, slots in sorted(load.slots.items()) if slots and load.used.get(kind, 0) >= slots]
    lacking = [f"all {load.slots[kind]} {kind} slots used" for kind in full]
    return ", ".join(lacking + ([f"event loop {load.busy:.0%} busy"] if load.busy >= BUSY_LOOP else []))
