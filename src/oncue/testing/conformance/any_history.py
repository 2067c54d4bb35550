"""Any history: hypothesis lets workers, users and time do whatever they like; the model says what must follow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from oncue.domain import attempt
from oncue.domain.change import resume
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import SECOND
from oncue.domain.policy import CatchUp
from oncue.domain.run import Claimed, Settlement, State
from oncue.testing.conformance.store import EmptyStore, Store, job_of
from oncue.testing.model import Model, Run

T = TypeVar("T")

QUEUES = ("fast", "slow")
some_run = st.integers(0, 1_000)  # which of those there are: taken modulo their number


class Histories(RuleBasedStateMachine):
    """Each rule does one thing to the engine and the same to the model; after each, both are compared."""

    def __init__(self, empty_store: EmptyStore) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self.model = Model()
        self.claims: dict[RunId, Claimed] = {}  # held now
        self.stale: list[tuple[WorkerId, Claimed]] = []  # held once
        self.store = self.do(_open(empty_store))
        self.workers = [self.do(self.store.worker()) for _ in range(2)]

    def do(self, verb: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(verb)

    def teardown(self) -> None:
        try:
            self.do(self.store.check_counts())
        finally:
            self.do(self.store.close())
            self._runner.close()

    def pick(self, n: int, *states: State) -> Run | None:
        runs = [run for run in self.model.runs.values() if run.state in states]
        return runs[n % len(runs)] if runs else None

    # ------------------------------------------------------------------------------------------------------------ users

    @rule(
        due=st.integers(-5, 5),
        group=st.sampled_from([None, None, "a", "b"]),
        gate=st.sampled_from([None, None, ("x", 1), ("x", 2), ("y", 1)]),
        queue=st.sampled_from(QUEUES),
        start_within=st.sampled_from([None, None, 3 * SECOND]),
    )
    def create(self, due: int, group: str | None, gate: Any, queue: str, start_within: Any) -> None:
        new = self.do(
            self.store.new_one_shot(due * SECOND, group=group, gate=gate, queue=queue, start_within=start_within)
        )
        self.do(self.store.create(new))
        assert new.run is not None
        run = new.run
        self.model.create(Run(run.run_id, queue, run.wanted, run.wanted, run.lanes, run.expires_at))

    @rule(n=some_run)
    def cancel(self, n: int) -> None:
        if run := self.pick(n, *State):
            before = run.state
            answer = self.do(self.store.running.cancel(None, run.run_id, self.store.now))
            self.model.cancel(run.run_id)
            assert answer is not None
            assert bool(answer.stopped) == (before is State.WAITING)
            assert bool(answer.told) == (before is State.RUNNING)
            assert answer.final is (before if before.final else None)

    @rule(n=some_run)
    def pause(self, n: int) -> None:
        run = self.pick(n, State.WAITING)
        if run and not run.tried:
            assert self.do(self.store.pause(job_of(run.run_id)))
            run.paused = True

    @rule(n=some_run)
    def resume(self, n: int) -> None:
        paused = [run for run in self.model.runs.values() if run.paused and run.state is State.WAITING]
        if paused:
            run, now = paused[n % len(paused)], self.store.now
            assert self.do(self.store.change(job_of(run.run_id), lambda snap: resume(snap, CatchUp.LAST, now)))
            run.paused = False

    @rule(queue=st.sampled_from(QUEUES))
    def pause_or_resume_queue(self, queue: str) -> None:
        if queue in self.model.paused_queues:
            self.do(self.store.fleet.resume_queue(queue))
        else:
            self.do(self.store.fleet.pause_queue(queue, self.store.now))
        self.model.paused_queues ^= {queue}

    # ---------------------------------------------------------------------------------------------------------- workers

    @rule(who=st.integers(0, 1), most=st.integers(1, 9), everything=st.booleans())
    def claim(self, who: int, most: int, everything: bool) -> None:
        """What was peeked at, or any runs at all: only what can be claimed is."""
        now, worker = self.store.now, self.workers[who]
        ready = [run.run_id for run in self.model.ready(now)]
        wanted = list(self.model.runs) if everything else ready[:most]
        allowed = self.model.claimable(now) & set(wanted)
        for run in self.do(self.store.claim(worker, *wanted)):
            assert run.run_id in allowed
            allowed.discard(run.run_id)
            self.model.claim(worker, run.run_id)
            assert run.token == self.model.runs[run.run_id].token
            self.claims[run.run_id] = run
        assert not allowed, "what could be claimed was not"

    @precondition(lambda self: self.claims)
    @rule(n=some_run, how=st.sampled_from(["succeed", "retry", "die", "hand back"]))
    def finish(self, n: int, how: str) -> None:
        run = list(self.claims.values())[n % len(self.claims)]
        known = self.model.runs[run.run_id]
        worker = known.worker
        assert worker is not None
        if how == "hand back":
            if known.expires_at is not None:
                return  # whether it counts as tried is left open
            assert self.do(self.store.hand_back(worker, run)) == {run.run_id}
            self.model.hand_back(run.run_id)
        else:
            settlement = self._settlement(worker, run, how)
            settled = self.do(self.store.settle(worker, settlement))
            assert settled.lost == frozenset()
            assert bool(settled.cancelled) == known.cancel_asked
            self._settled(settlement)
        self.stale.append((worker, self.claims.pop(run.run_id)))

    def _settlement(self, worker: WorkerId, run: Claimed, how: str) -> Settlement:
        if how == "succeed":
            return attempt.succeeded(run, worker, self.store.now, self.store.now, None)
        return self.store.failure(worker, run, retry=how == "retry")

    def _settled(self, settlement: Settlement) -> None:
        self.model.settle(
            settlement.run.run_id,
            settlement.state,
            settlement.due,
            failures=settlement.failures,
            losses=settlement.losses,
        )

    @precondition(lambda self: self.stale)
    @rule(n=some_run)
    def settle_what_was_lost(self, n: int) -> None:
        worker, run = self.stale[n % len(self.stale)]
        assert self.do(self.store.succeed(worker, run)).lost == {run.run_id}
        assert self.do(self.store.hand_back(worker, run)) == frozenset()

    @rule(who=st.integers(0, 1))
    def lose(self, who: int) -> None:
        """A worker falls silent, is buried, and what it held is settled as lost."""
        worker = self.workers[who]
        self.do(self.store.lose(worker))
        assert self.do(self.store.reap()).cancelled == {
            run_id for run_id in self.model.held_by(worker) if self.model.runs[run_id].cancel_asked
        }
        for run_id in self.model.held_by(worker):
            run = self.claims.pop(run_id)
            self._settled(attempt.lost(run, worker, self.store.now, self.store.now))
            self.stale.append((worker, run))
        self.workers[who] = self.do(self.store.worker())

    # ------------------------------------------------------------------------------------------------- time and upkeep

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.store.advance(seconds * SECOND)

    @rule()
    def expire(self) -> None:
        assert self.do(self.store.planning.expire(1_000, self.store.now)) == self.model.expire(self.store.now)

    # ------------------------------------------------------------------------------------------------------- comparing

    @invariant()
    def the_same_runs_are_ready(self) -> None:
        found = self.do(self.store.claimable())
        ready = self.model.ready(self.store.now)
        assert set(found) == {run.run_id for run in ready}
        dues = [self.model.runs[run_id].due for run_id in found]
        assert dues == sorted(dues)

    @invariant()
    def every_run_is_as_it_should_be(self) -> None:
        found = {
            run.run_id: (run.state, run.token, run.failures, run.losses, run.state is State.RUNNING and run.worker_id)
            for run in self.do(self.store.runs(limit=1_000))
        }
        assert found == {
            run.run_id: (run.state, run.token, run.failures, run.losses, run.state is State.RUNNING and run.worker)
            for run in self.model.runs.values()
        }

    @invariant()
    def lanes_never_overlap(self) -> None:
        assert self.model.overlaps() == []


async def _open(empty_store: EmptyStore) -> Store:
    return await Store.on(await empty_store())


def test_any_history_agrees_with_the_model(empty_store: EmptyStore) -> None:
    class OnThisStore(Histories):
        def __init__(self) -> None:
            super().__init__(empty_store)

    every_run = settings.get_current_profile_name() != "thorough"
    run_state_machine_as_test(
        OnThisStore,
        settings=settings(
            max_examples=25 if every_run else 1_000,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
        ),
    )
