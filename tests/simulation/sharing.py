"""What must be true of runs that share lanes, rates and workers. Each rule yields what it finds wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tests.simulation.journal import Claim, Start, short

from oncue.domain.ids import RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import Rate
from oncue.domain.placement import HEAD_START, Priority, Resources, mismatch
from oncue.engines.granting import UNUSED_AFTER
from oncue.services.rate_limiter import LONGEST

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

Rule = Callable[["Checker"], Iterator[str]]


def rank(priority: Priority, due: Instant) -> Instant:
    """What to order by among runs that are due: the smallest goes first."""
    return Instant(due + HEAD_START[priority])


# ---------------------------------------------------------------------------------------------------------------- lanes


def in_lanes(told: Checker) -> dict[tuple[str, int, int], list[Start]]:
    """Who started in each lane, by its kind, key and width."""
    members: dict[tuple[str, int, int], list[Start]] = defaultdict(list)
    for start in told.journal.starts:
        lanes = told.owners[start.run_id].job.lanes
        if lanes.lane is not None:
            members["lane", lanes.lane, 1].append(start)
        if lanes.gate is not None:
            members["gate", lanes.gate, lanes.width].append(start)
    return members


def lanes_admit_no_more_than_they_may(told: Checker) -> Iterator[str]:
    for (kind, _, width), starts in in_lanes(told).items():
        over = {s.serial: told.journal.over_at(s, holds=told.owners[s.run_id].spec.holds) for s in starts}
        for start in starts:
            inside = {s.run_id for s in starts if s.at <= start.at < over[s.serial]} | {start.run_id}
            if len(inside) > width:
                yield f"{kind}: {[short(run_id) for run_id in inside]} at once, when {start.serial} started"


def a_failure_keeps_its_place(told: Checker) -> Iterator[str]:
    for (kind, _, _), starts in in_lanes(told).items():
        if kind != "lane":
            continue
        for one in starts:
            again = next((s for s in starts if s.run_id == one.run_id and s.at > one.at), None)
            if again is None or one.how != "failed" or one.run_id in told.journal.handed_back:
                continue
            if between := [s.serial for s in starts if one.at < s.at < again.at]:
                yield f"{between} started between {one.serial} and {again.serial} of run {short(one.run_id)}"


def groups_keep_their_order(told: Checker) -> Iterator[str]:
    groups: dict[tuple[UserNumber, str], list[tuple[Instant, RunId, int, int]]] = defaultdict(list)
    for run_id, owned in told.owners.items():
        claims, due = told.journal.claims[run_id], told.due(run_id)
        if owned.spec.group is not None and run_id == owned.job.job_id and claims and due is not None:
            groups[owned.job.uid, owned.spec.group].append((due, run_id, owned.created, claims[0].at))
    for group, members in groups.items():
        members.sort()
        for i, (_, earlier, created, first) in enumerate(members):
            for _, later, _, claimed in members[i + 1 :]:
                if created < claimed < first:
                    yield f"group {group}: {short(later)} went ahead of {short(earlier)}"


# ---------------------------------------------------------------------------------------------------------------- rates


def without_faults_rates_are_kept(told: Checker) -> Iterator[str]:
    """By claims. A start that nobody makes use of is taken back soon; until then it may come close to the next ones."""
    rated: dict[tuple[UserNumber, Rate], list[Claim]] = defaultdict(list)
    for run_id, claims in told.journal.claims.items() if told.world.calm else ():
        owned = told.owners[run_id]
        if owned.spec.rate is not None:
            again = run_id in told.journal.handed_back  # with the start that it had
            rated[owned.job.uid, owned.spec.rate] += claims[:1] if again else claims
    for (uid, rate), claims in rated.items():
        claims.sort(key=lambda claim: claim.now)
        for one, other in zip(claims, claims[rate.limit :], strict=False):
            if other.now - one.now < rate.per - UNUSED_AFTER - LONGEST:
                yield f"user {uid}: {rate.limit + 1} starts in {other.now - one.now} µs, {short(other.run_id)} the last"


# ------------------------------------------------------------------------------------------------- places and resources


def runs_go_where_they_fit(told: Checker) -> Iterator[str]:
    for start in told.journal.starts:
        key = told.owners[start.run_id].spec.class_key
        if (wrong := mismatch(key, told.world.shapes[start.worker].offer)) is not None:
            yield f"start {start.serial} of run {short(start.run_id)} on {short(start.worker)}: {wrong}"


def workers_give_no_more_than_they_have(told: Checker) -> Iterator[str]:
    by_worker: dict[WorkerId, list[Start]] = defaultdict(list)
    for start in told.journal.starts:
        by_worker[start.worker].append(start)
    for starts in by_worker.values():
        for start in starts:
            going = [s for s in starts if s.at <= start.at < told.journal.over_at(s) or s is start]
            if (wrong := _too_much(told, start, going)) is not None:
                yield f"{wrong} on {short(start.worker)}, when {start.serial} of run {short(start.run_id)} started"


def _too_much(told: Checker, start: Start, going: list[Start]) -> str | None:
    shape, spec = told.world.shapes[start.worker], told.owners[start.run_id].spec
    has = shape.offer.resources.size_class()
    sizes = [told.owners[s.run_id].spec.resources.size_class() for s in going]
    taken = Resources(sum(s.cpu_milli for s in sizes), sum(s.memory_mb for s in sizes), sum(s.slots for s in sizes))
    if taken.cpu_milli > has.cpu_milli or taken.memory_mb > has.memory_mb or taken.slots > has.slots:
        return f"{taken} of {has}"
    # What it found out to hold after an answer was lost may find its place taken, and no other left but these.
    sure = (start.run_id, start.worker) not in told.journal.doubted
    if sure and taken.slots > has.slots - shape.reserved_from(spec.priority, spec.resources):
        return f"{taken.slots} of {has.slots} places, {shape.reserved} of them reserved"
    return None


def whatever_was_taken_is_given_back(told: Checker) -> Iterator[str]:
    for crewed in told.world.crews:
        if crewed.given != crewed.whole:
            yield f"at rest {short(crewed.worker_id)} has {crewed.given} of {crewed.whole}"


def nobody_waits_while_there_is_room(told: Checker) -> Iterator[str]:
    yield from told.world.census.problems


RULES: tuple[Rule, ...] = (
    lanes_admit_no_more_than_they_may,
    a_failure_keeps_its_place,
    groups_keep_their_order,
    without_faults_rates_are_kept,
    runs_go_where_they_fit,
    workers_give_no_more_than_they_have,
    whatever_was_taken_is_given_back,
    nobody_waits_while_there_is_room,
)
