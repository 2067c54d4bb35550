"""Any history: hypothesis lets workers, users and time act at random; the model says what must follow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from oncue.domain import attempt
from oncue.domain.change import resume
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import SECOND, Duration
from oncue.domain.job import Rate
from oncue.domain.lane import Held
from oncue.domain.policy import CatchUp
from oncue.domain.run import Claimed, Settlement, State
from oncue.testing.model import Model, Run
from oncue_conformance.store import LIVE, EmptyStore, Store, job_of

T = TypeVar("T")

QUEUES = ("fast", "slow")
ENDINGS = ("succeed", "retry", "retry", "die", "hand back")
# Each as often as it is listed. One rule for all of them: hypothesis would leave some rules out of each history, and
# histories in which nothing is created or nothing is finished show nothing.
ACTS = (
    *("create", "create", "create"),
    *("claim", "claim", "claim", "claim_everything"),
    *("finish", "finish", "finish", "finish", "settle_again", "lose"),
    *("cancel", "pause", "resume", "switch_queue", "wait", "wait", "expire", "permit", "permit"),
)

jobs = st.fixed_dictionaries(
    {
        "due": st.integers(-5, 3).map(lambda seconds: seconds * SECOND),
        "group": st.sampled_from(["a", None, "b"]),
        "gate": st.sampled_from([None, ("x", 2), ("x", 1), ("y", 1)]),
        "queue": st.sampled_from(QUEUES),
        "start_within": st.sampled_from([None, None, 3 * SECOND]),
        "rate": st.sampled_from([None, None, Rate(1, Duration(2 * SECOND)), Rate(2, Duration(5 * SECOND), "r")]),
    }
)


class Histories(RuleBasedStateMachine):
    """Each act is done to the engine and to the model; after each, both are compared."""

    def __init__(self, empty_store: EmptyStore) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self.model = Model()
        self.claims: dict[RunId, Claimed] = {}  # held now
        self.stale: list[tuple[WorkerId, Claimed]] = []  # held earlier
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

    @initialize(some=st.lists(jobs, min_size=3, max_size=8))
    def create_some(self, some: list[dict[str, Any]]) -> None:
        for job in some:
            self.create(job)

    @rule(what=st.sampled_from(ACTS), n=st.integers(0, 99), job=jobs)
    def act(self, what: str, n: int, job: dict[str, Any]) -> None:
        """Do an act. `n` chooses among the existing runs; `job` is for a new one."""
        if what == "create":
            self.create(job)
        else:
            getattr(self, what)(n)

    def pick(self, n: int, *states: State) -> Run | None:
        runs = [run for run in self.model.runs.values() if run.state in states]
        return runs[n % len(runs)] if runs else None

    # ------------------------------------------------------------------------------------------------------------ users

    def create(self, job: dict[str, Any]) -> None:
        new = self.do(self.store.new_one_shot(**job))
        self.do(self.store.create(new))
        assert new.run is not None
        run = new.run
        self.model.create(Run(run.run_id, job["queue"], run.wanted, run.wanted, run.lanes, run.expires_at))

    def cancel(self, n: int) -> None:
        if run := self.pick(n, *(State if n % 5 == 0 else LIVE)):
            before = run.state
            answer = self.do(self.store.running.cancel(None, run.run_id, self.store.now))
            self.model.cancel(run.run_id)
            assert answer is not None
            assert bool(answer.stopped) == (before is State.WAITING)
            assert bool(answer.told) == (before is State.RUNNING)
            assert answer.final is (before if before.final else None)

    def pause(self, n: int) -> None:
        run = self.pick(n, State.WAITING)
        if run and not run.tried and not run.paused:
            assert self.do(self.store.pause(job_of(run.run_id)))
            run.paused = True

    def resume(self, n: int) -> None:
        paused = [run for run in self.model.runs.values() if run.paused and run.state is State.WAITING]
        if paused:
            run, now = paused[n % len(paused)], self.store.now
            assert self.do(self.store.change(job_of(run.run_id), lambda snap: resume(snap, CatchUp.LAST, now)))
            run.paused = False

    def switch_queue(self, n: int) -> None:
        queue = QUEUES[n % 2]
        if queue in self.model.paused_queues:
            self.do(self.store.fleet.resume_queue(queue, self.store.now))
            self.model.paused_queues.remove(queue)
        elif n % 3 == 0:  # rarely: paused jobs show little
            self.do(self.store.fleet.pause_queue(queue, self.store.now))
            self.model.paused_queues.add(queue)

    # ---------------------------------------------------------------------------------------------------------- workers

    def claim(self, n: int) -> None:
        ready = [run.run_id for run in self.model.ready(self.store.now)]
        self._claim(self.workers[n % 2], ready[: 1 + n % 7])

    def claim_everything(self, n: int) -> None:
        self._claim(self.workers[n % 2], list(self.model.runs))

    def _claim(self, worker: WorkerId, wanted: list[RunId]) -> None:
        """Claim; exactly the claimable runs are claimed."""
        allowed = self.model.claimable(self.store.now) & set(wanted)
        for run in self.do(self.store.claim(worker, *wanted)):
            assert run.run_id in allowed
            allowed.discard(run.run_id)
            self.model.claim(worker, run.run_id)
            assert run.token == self.model.runs[run.run_id].token
            self.claims[run.run_id] = run
        assert not allowed, "what could be claimed was not"

    def finish(self, n: int) -> None:
        if not self.claims:
            return
        run = list(self.claims.values())[n % len(self.claims)]
        known, how = self.model.runs[run.run_id], ENDINGS[n // 20]
        worker = known.worker
        assert worker is not None
        if how != "hand back":
            self._settle(worker, known, self._settlement(worker, run, how))
        elif known.expires_at is None:  # the contract leaves open whether returning a run to the queue counts as tried
            assert self.do(self.store.hand_back(worker, run)) == {run.run_id}
            self.model.hand_back(run.run_id)
        else:
            return
        self.stale.append((worker, self.claims.pop(run.run_id)))

    def _settlement(self, worker: WorkerId, run: Claimed, how: str) -> Settlement:
        if how == "succeed":
            return attempt.succeeded(run, self.store.now, self.store.now, None)
        return self.store.failure(worker, run, retry=how == "retry")

    def _settle(self, worker: WorkerId, known: Run, settlement: Settlement) -> None:
        cancelling = known.cancel_asked
        settled = self.do(self.store.settle(worker, settlement))
        self._settled(settlement)
        assert (settled.lost, bool(settled.cancelled)) == (frozenset(), cancelling)

    def _settled(self, settlement: Settlement) -> None:
        run_id, state, due = settlement.run.run_id, settlement.state, settlement.due
        self.model.settle(run_id, state, due, failures=settlement.failures, losses=settlement.losses)

    def settle_again(self, n: int) -> None:
        """Check that runs that were settled, returned to the queue or lost no longer belong to their old attempts."""
        if self.stale:
            worker, run = self.stale[n % len(self.stale)]
            assert self.do(self.store.succeed(worker, run)).lost == {run.run_id}
            assert self.do(self.store.hand_back(worker, run)) == frozenset()

    def lose(self, n: int) -> None:
        """A worker has no heartbeat and is declared dead; the runs it held are settled as lost."""
        worker = self.workers[n % 2]
        held = self.model.held_by(worker)
        if held:
            self.do(self.store.lose(worker))
            cancelled = {run_id for run_id in held if self.model.runs[run_id].cancel_asked}
            assert self.do(self.store.recover_runs()).cancelled == cancelled
            for run_id in held:
                run = self.claims.pop(run_id)
                self._settled(attempt.lost(run, worker, self.store.now, self.store.now))
                self.stale.append((worker, run))
            self.workers[n % 2] = self.do(self.store.worker())

    # ------------------------------------------------------------------------------------------------- time and upkeep

    def wait(self, n: int) -> None:
        self.store.advance((1 + n % 4) * SECOND)

    def expire(self, n: int) -> None:
        expired = self.do(self.store.planning.expire(1_000, self.store.now))
        assert len(expired) == self.model.expire(self.store.now)

    def permit(self, n: int) -> None:
        """Grant exactly the starts that rates allow; anything, once starts were not used in time."""
        until, now = self.store.at((n % 3) * SECOND), self.store.now
        unused = self.model.sees_unused_starts(now)
        given = self.do(self.store.permit((n % 3) * SECOND)).runs
        if not unused:
            assert given == self.model.permit(until, now)
            return
        rated = [run.run_id for run in self.model.runs.values() if run.state is State.WAITING and run.lanes.meter]
        views = [self.do(self.store.run(run_id)) for run_id in rated]
        self.model.granted({view.run_id: (view.due, Held.RATE not in view.held) for view in views})

    # ------------------------------------------------------------------------------------------------------- comparing

    @invariant()
    def the_same_runs_are_ready(self) -> None:
        found = self.do(self.store.claimable())
        assert set(found) == {run.run_id for run in self.model.ready(self.store.now)}
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

    run_state_machine_as_test(
        OnThisStore,
        settings=settings(
            max_examples=settings().max_examples // 4,  # each has forty steps
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
        ),
    )
