"""Services with one planted bug each: the simulation has to see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engines.mutants import plan_in_two_commits
from tests.simulation import backlogs

from oncue import clock
from oncue.domain.ids import SCHEDULE, RunId, UserNumber
from oncue.domain.instants import HOUR, NEVER, SECOND, Duration, Instant
from oncue.domain.placement import ClassKey, Offer, Priority, Resources, mismatch
from oncue.domain.planning import plan
from oncue.domain.run import Claimed, Peeked, RunView, State
from oncue.engines.port import Planned
from oncue.services import attempts, capacity, choosing, prefetch
from oncue.services.attempts import ActiveAttempt, Attempts, End, Stop
from oncue.services.capacity import Capacity
from oncue.services.holdings import Holdings
from oncue.services.reaper import Reaper, Watched
from oncue.services.scheduler import BATCH, HORIZON, Scheduler
from oncue.services.settling import Settling
from oncue.services.worker import Worker
from oncue.tasks import Isolation

Plant = Callable[[pytest.MonkeyPatch], None]


def starting_without_a_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Capacity, "left_ended", lambda *_: None)  # it cannot count what nobody claimed; the story goes on

    async def look_only(worker: Any, due: Sequence[RunId]) -> list[Claimed]:
        views = [await worker._engine.history.run(None, run_id) for run_id in due]
        return [as_claimed(view) for view in views if view is not None and view.state is State.WAITING]

    patch.setattr(Worker, "_claim", look_only)


def starting_what_a_hint_names_without_a_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Capacity, "left_ended", lambda *_: None)
    learn, claim, named = prefetch.Prefetch.learn, Worker._claim, set[RunId]()

    def believe(looking: prefetch.Prefetch, runs: Sequence[Peeked]) -> None:
        named.update(run.run_id for run in runs)
        learn(looking, runs)

    async def claim_the_others(worker: Any, due: Sequence[RunId]) -> list[Claimed]:
        views = [await worker._engine.history.run(None, run_id) for run_id in due if run_id in named]
        believed = [as_claimed(view) for view in views if view is not None and view.state is State.WAITING]
        return [*believed, *await claim(worker, [run_id for run_id in due if run_id not in named])]

    patch.setattr(prefetch.Prefetch, "learn", believe)
    patch.setattr(Worker, "_claim", claim_the_others)


def as_claimed(view: RunView) -> Claimed:
    same = {name: getattr(view, name) for name in Claimed.__struct_fields__ if name in view.__struct_fields__}
    missing = {"origin": SCHEDULE, "lane": None, "gate": None, "checkpoint": None, "inline": True}
    return Claimed(**same | missing)


def not_looking_at_what_is_held(patch: pytest.MonkeyPatch) -> None:
    async def nothing(holdings: Holdings, asked_at: Instant) -> None:
        pass

    patch.setattr(Holdings, "_look", nothing)


def starting_what_was_claimed_long_ago(patch: pytest.MonkeyPatch) -> None:
    begin = Holdings.__init__

    def trusting(holdings: Any, *args: Any, **how: Any) -> None:
        begin(holdings, *args, **how)
        holdings._too_long = NEVER

    patch.setattr(Holdings, "__init__", trusting)


def not_stopping_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    stop = Attempts.stop

    def deaf(attempts: Attempts, run_id: RunId, why: Stop) -> None:
        if why is not Stop.CANCELLED:
            stop(attempts, run_id, why)

    patch.setattr(Attempts, "stop", deaf)


def burying_without_reaping(patch: pytest.MonkeyPatch) -> None:
    async def nothing(reaper: Reaper, now: Instant) -> int:
        return 0

    patch.setattr(Reaper, "_recover_runs", nothing)


def looking_no_more_often_than_half_the_shortest_lease(patch: pytest.MonkeyPatch) -> None:
    watch = Reaper._watch

    def fearful(reaper: Any, workers: Iterable[Any], now: Instant) -> None:
        watch(reaper, known := list(workers), now)
        if any(worker.lease <= 2 * SECOND for worker in known):  # every gap is too long for it: all are seen anew
            at = reaper._clock.monotonic()
            reaper._watched = {one: replace(seen, since=at) for one, seen in reaper._watched.items()}

    patch.setattr(Reaper, "_watch", fearful)


def judging_by_the_stores_clock(patch: pytest.MonkeyPatch) -> None:
    def by_the_clock(reaper: Any, worker: Any, before: Any, at: Instant, gap: int, now: Instant) -> Watched:
        return Watched(worker.beat_at, Instant(at - (now - worker.beat_at)))

    patch.setattr(Reaper, "_seen", by_the_clock)


def believing_every_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clock, "DOUBTFUL", NEVER)


def settling_once_and_not_again(patch: pytest.MonkeyPatch) -> None:
    settle = Settling._settle

    async def forgetful(settling: Any) -> None:
        try:
            await settle(settling)
        finally:
            settling._ended.clear()

    patch.setattr(Settling, "_settle", forgetful)


def planning_in_two_calls(patch: pytest.MonkeyPatch) -> None:
    async def plan_twice(scheduler: Any, now: Instant) -> Planned:
        engine, until = scheduler._engine, Instant(now + HORIZON)
        planned: Planned = await plan_in_two_commits(
            engine, engine.planning.plan, until, BATCH, now, lambda job: plan(job, now, until)
        )
        return planned

    patch.setattr(Scheduler, "_plan_all", plan_twice)


def trusting_hints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(prefetch, "SWEEP", Duration(NEVER))


# ------------------------------------------------------------------------------------------------------------- sharing


def keeping_the_places_of_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    end = Attempts._end

    def forgetful(attempts: Attempts, going: ActiveAttempt, came_to: End) -> None:
        if going.stop is Stop.CANCELLED:
            attempts.capacity.take(going.kind, going.size, going.run.uid)  # and once is not twice
        end(attempts, going, came_to)

    patch.setattr(Attempts, "_end", forgetful)


def keeping_users_accounts_open(patch: pytest.MonkeyPatch) -> None:
    release = Capacity.release

    def forgetful(capacity: Any, kind: Isolation, size: Resources, uid: UserNumber) -> None:
        release(capacity, kind, size, uid)
        held = capacity._held[kind]
        held[uid] = held.get(uid, 0) + size.slots

    patch.setattr(Capacity, "release", forgetful)


def giving_reserved_places_to_anybody(patch: pytest.MonkeyPatch) -> None:
    many = Capacity.how_many
    patch.setattr(
        Capacity, "how_many", lambda capacity, kind, size, priority: many(capacity, kind, size, Priority.HIGH)
    )


def counting_places_only(patch: pytest.MonkeyPatch) -> None:
    take, release = Capacity.take, Capacity.release

    def places(size: Resources) -> Resources:
        return Resources(slots=size.slots)

    patch.setattr(Capacity, "take", lambda self, kind, size, *rest: take(self, kind, places(size), *rest))
    patch.setattr(Capacity, "release", lambda self, kind, size, uid: release(self, kind, places(size), uid))


def taking_what_has_other_labels(patch: pytest.MonkeyPatch) -> None:
    def nearly_fits(key: ClassKey, offer: Offer) -> str | None:
        return mismatch(key, replace(offer, labels=frozenset(key.labels)))

    patch.setattr(prefetch, "mismatch", nearly_fits)


def counting_it_as_a_failure_to_give_way(patch: pytest.MonkeyPatch) -> None:
    stopped = Attempts._stopped

    def strict(attempts: Any, going: ActiveAttempt) -> End:
        if going.stop is Stop.PREEMPTED:
            return attempts._failure(going, "Preempted", "gave way")
        return stopped(attempts, going)

    patch.setattr(Attempts, "_stopped", strict)


def letting_nobody_give_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempts, "make_room", lambda attempts, *asked: None)


def asking_the_same_to_give_way_again_and_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attempts, "may_preempt", lambda spec, *since: spec.preemptible)


def keeping_room_for_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing.Choice, "_goes_before", lambda choice, kept, run: False)


def going_by_due_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "HEAD_START", dict.fromkeys(Priority, Duration(0)))


def going_by_priority_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "HEAD_START", {priority: Duration(priority * HOUR) for priority in Priority})


def giving_one_user_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(capacity, "MOST_FOR_ONE", 2.0)


def taking_no_turns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(prefetch, "LATE", NEVER)


# Each bug, and a seed whose story it spoils.
SERVICE_MUTANTS: dict[str, tuple[Plant, int]] = {
    "a worker starts what it saw without claiming it": (starting_without_a_claim, 1),
    "a worker starts what a hint names without claiming it": (starting_what_a_hint_names_without_a_claim, 1),
    "a worker never looks at what it holds": (not_looking_at_what_is_held, 6),
    "a worker starts what it claimed before it fell asleep": (starting_what_was_claimed_long_ago, 6),
    "what was cancelled is not stopped": (not_stopping_what_was_cancelled, 145),
    "the dead are buried, and what they held is not taken back": (burying_without_reaping, 1),
    "one short lease keeps the dead from being found": (looking_no_more_often_than_half_the_shortest_lease, 6),
    "the dead are found by the store's clock": (judging_by_the_stores_clock, 26),
    "a clock that was set forward is believed at once": (believing_every_clock, 19),
    "an end is forgotten when the store did not answer": (settling_once_and_not_again, 7),
    "a scheduler plans in two calls": (planning_in_two_calls, 3),
    "a worker that missed a hint never looks again": (trusting_hints, 55),
    "what was cancelled keeps its place": (keeping_the_places_of_what_was_cancelled, 1),
    "what users hold is never given back": (keeping_users_accounts_open, 1),
    "reserved places are anybody's": (giving_reserved_places_to_anybody, 1),
    "cpu and memory are not counted": (counting_places_only, 4),
    "labels do not matter": (taking_what_has_other_labels, 5),
    "giving way spends an attempt": (counting_it_as_a_failure_to_give_way, 2),
}

# Bugs that show when there is far too much to do for many minutes, and the story that they spoil.
BACKLOG_MUTANTS: dict[str, tuple[Plant, Callable[[], Awaitable[list[str]]]]] = {
    "nobody has a head start": (going_by_due_alone, partial(backlogs.priorities, 0)),
    "priority is all that counts": (going_by_priority_alone, partial(backlogs.priorities, 0)),
    "no room is kept for what is big": (keeping_room_for_nobody, partial(backlogs.sizes, "cpu")),
    "one user may hold every place": (giving_one_user_everything, backlogs.users_with_long_runs),
    "users take no turns": (taking_no_turns, backlogs.users),
    "nobody gives way": (letting_nobody_give_way, backlogs.giving_way),
    "the same give way again and again": (asking_the_same_to_give_way_again_and_again, backlogs.giving_way),
}
