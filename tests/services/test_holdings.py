"""What the store has under a worker's name is what the worker knows, whatever becomes of answers and commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.services.notified import Office, http_server, office_on
from tests.services.worker_loops import Stage, StagedCrew, crew_on, drive, final, work

from oncue.domain.attempt import LOST_SETTLEMENT
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import NOTICES, RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.notify import Entry, Event, Webhook
from oncue.domain.policy import OnLost
from oncue.domain.run import Claimed, Settled, Settlement, State, read_attempts
from oncue.executors.capture import capture_logging
from oncue.services.attempts import Stop
from oncue.services.holdings import EVERY
from oncue.services.reaper import Reaper
from oncue.services.recent_ends import KEPT_FOR
from oncue.tasks import Isolation
from oncue_conformance.store import Store

pytestmark = pytest.mark.anyio
LATE = Duration(MINUTE)
LONG = 200 * MINUTE
DIES = {"task": "fail", "max_retries": 0}


@pytest.fixture
def stage() -> Iterator[Stage]:
    undo = capture_logging()
    yield Stage()
    undo()


class Line:
    """Between a worker and its store: a verb that commits and has no answer, or arrives long after its caller left."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, store: Store, verb: str, times: int, *, late: bool = False
    ) -> None:
        self._store = store
        self._verb = getattr(store.running, verb)
        self._late = late
        self._left = times
        self._on_its_way: list[tuple[Instant, tuple[Any, ...]]] = []
        self.took: list[Any] = []
        monkeypatch.setattr(store.running, verb, self)

    async def __call__(self, *args: Any) -> Any:
        if not self._left:
            return await self._verb(*args)
        self._left -= 1
        if self._late:
            self._on_its_way.append((self._store.at(LATE), args))
        else:
            self.took += await self._verb(*args) or ()
        raise StoreUnavailable("no answer")

    async def deliver(self) -> None:
        for due, args in list(self._on_its_way):
            if due <= self._store.now:
                self._on_its_way.remove((due, args))
                self.took += await self._verb(*args) or ()


class Watch:
    """How long each run has been running under the name of a worker that does not know it."""

    def __init__(self, store: Store, crew: StagedCrew) -> None:
        self._store = store
        self._crew = crew
        self._since: dict[tuple[RunId, int], Instant] = {}
        self.longest = 0

    async def look(self) -> None:
        stored = {(one.run_id, one.token) for one in await self._store.running.holdings(self._crew.worker_id)}
        unknown = stored - self._crew.holdings.known()
        self._since = {key: self._since.get(key, self._store.now) for key in unknown}
        self.longest = max([self.longest, *(self._store.now - since for since in self._since.values())])


async def pass_time(office: Office, line: Line, watch: Watch, length: int, step: int = SECOND) -> None:
    """Let the worker and a reaper live on, and their loops go on after each outage."""
    store, reaper = office.store, Reaper(office.store.engine, office.store.clock)
    end = store.now + length
    while store.now < end:
        with suppress(StoreUnavailable):
            await office.pass_time(0)
        await line.deliver()
        await reaper.run_once()
        await watch.look()
        await store.clock.advance(Duration(step))


def told_by(url: str, event: str) -> tuple[Entry, ...]:
    return (Entry((Event(event),), webhook=Webhook(url)),)


# -------------------------------------------------------------------------------------- whatever gives runs to a worker


@pytest.mark.parametrize("late", [False, True], ids=["without an answer", "a minute late"])
@pytest.mark.parametrize(("verb", "times"), [("claim", 1), ("claim", 100), ("gather", 1), ("gather", 20)])
async def test_no_run_is_running_unknown_to_its_worker(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, times: int, late: bool
) -> None:
    async with http_server() as server:
        office = await office_on(store, tmp_path, concurrency=20)
        watch, line = Watch(store, office.crew), Line(monkeypatch, store, verb, times, late=late)
        runs = [await store.one_shot(notify=told_by(server.url, "dead"), **DIES) for _ in range(6)]

        await pass_time(office, line, watch, 6 * MINUTE)
        await pass_time(office, line, watch, LONG, step=10 * MINUTE)

        assert watch.longest <= MINUTE
        assert await store.running.holdings(office.crew.worker_id) == []
        assert {(view.state, view.losses) for view in [await store.run(run_id) for run_id in runs]} == {(State.DEAD, 0)}
        notices = await store.runs(job_id=NOTICES)
        assert {(one.state, one.losses) for one in notices} == {(State.SUCCEEDED, 0)}
        assert len(notices) == 6
        assert (line.took == []) is late  # who arrives when nobody waits any more takes nothing
        assert sorted(office.stage.started) == sorted(runs)


class Storm:
    """Most claims have no answer for a while: the request is lost, the answer is, or it arrives up to a minute late."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Store, chance: Random) -> None:
        self._store = store
        self._claim = store.running.claim
        self._chance = chance
        self._on_its_way: list[tuple[Instant, tuple[Any, ...]]] = []
        self.over = False
        self.unanswered = self.late = self.taken_late = 0
        monkeypatch.setattr(store.running, "claim", self)

    async def __call__(self, *args: Any) -> list[Claimed]:
        luck = 1.0 if self.over else self._chance.random()
        if luck >= 0.85:
            return await self._claim(*args)
        self.unanswered += 1
        if luck < 0.4:
            await self._claim(*args)
        elif luck < 0.75:
            self._on_its_way.append((self._store.at(self._chance.randrange(LATE)), args))
        raise StoreUnavailable("no answer")

    async def deliver(self) -> None:
        for due, args in list(self._on_its_way):
            if due <= self._store.now:
                self._on_its_way.remove((due, args))
                self.late += 1
                self.taken_late += len(await self._claim(*args))


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 30))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_becomes_of_claims_each_run_starts_once(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """`-s` shows how much was lost and late."""
    chance = Random(seed)
    crew, storm = await crew_on(store, stage, concurrency=4), Storm(monkeypatch, store, chance)
    watch, reaper, runs = Watch(store, crew), Reaper(store.engine, store.clock), list[RunId]()
    for second in range(300):
        if second < 90:
            groups = {"group": f"g{chance.randrange(3)}"} if chance.random() < 0.5 else {}
            runs.append(await store.one_shot(chance.randrange(20) * SECOND, **groups))
        storm.over = second >= 100
        await store.beat(crew.worker_id)
        crew.prefetch.ask(None)
        with suppress(StoreUnavailable):
            await work(crew)
        await storm.deliver()
        await reaper.run_once()
        await watch.look()
        await store.clock.advance(Duration(SECOND))

    print(f"seed {seed}: {len(runs)} runs, {storm.unanswered} claims without an answer, {storm.late} late, which took "
          f"{storm.taken_late} runs; longest unknown {watch.longest / SECOND:g} s")  # fmt: skip
    assert {(view.state, view.losses) for view in [await store.run(run_id) for run_id in runs]} == {
        (State.SUCCEEDED, 0)
    }
    assert sorted(stage.started) == sorted(runs)
    assert storm.unanswered >= 40
    assert watch.longest <= MINUTE


# --------------------------------------------------------------------------------------------- writes that were lost


class Promoted:
    """A store whose last settlements were acknowledged, and are gone: its replica was promoted without them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Store, *verbs: str) -> None:
        self._real = {verb: getattr(store.running, verb) for verb in verbs}
        self._patch = monkeypatch
        self._running = store.running
        for verb in verbs:
            monkeypatch.setattr(store.running, verb, getattr(self, verb))

    async def settle(self, worker_id: object, settlements: Sequence[Settlement], now: Instant) -> Settled:
        return Settled()

    async def hand_back(self, worker_id: object, runs: Sequence[Claimed], now: Instant) -> frozenset[RunId]:
        return frozenset(run.run_id for run in runs)

    def over(self) -> None:
        for verb, real in self._real.items():
            self._patch.setattr(self._running, verb, real)


async def looks(store: Store, crew: StagedCrew, many: int = 3) -> None:
    for _ in range(many):
        await store.clock.advance(EVERY)
        await store.beat(crew.worker_id)
        await crew.holdings.run_once()
        await crew.settling.run_once()


async def test_settlements_that_a_failover_lost_are_written_again(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    """And so the next of its group starts, which a run that stays running would hold back for ever."""
    good, bad = await store.one_shot(group="g"), await store.one_shot(task="fail")
    crew, lost = await crew_on(store, stage), Promoted(monkeypatch, store, "settle")
    await work(crew)
    lost.over()
    assert (await store.state(good), await store.state(bad), crew.busy) == (State.RUNNING, State.RUNNING, False)
    behind = await store.one_shot(group="g")

    await looks(store, crew, 1)
    assert await store.state(good) is State.RUNNING  # one look is not enough: it may be about to be told
    await looks(store, crew)

    assert (await store.state(good), (await store.run(good)).result) == (State.SUCCEEDED, b"1")
    again = await store.run(bad)
    assert (again.state, again.failures, again.losses) == (State.WAITING, 1, 0)
    assert [line["settled_again"] for line in logged if line["kind"] == "lost_settlement"] == [2]
    stage.started.clear()
    await work(crew)
    assert behind in stage.started
    await store.check_counts()


async def test_runs_whose_return_to_the_queue_was_lost_are_returned_again(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await store.one_shot(task="wait")
    crew, lost = await crew_on(store, stage), Promoted(monkeypatch, store, "hand_back")
    await work(crew)
    for active in crew.attempts:
        crew.attempts.stop(active.run.run_id, Stop.DRAINING)
    await crew.rest()
    await crew.settling.run_once()
    lost.over()

    await looks(store, crew)

    view = await store.run(run_id)
    assert (view.state, view.losses, view.attempts) == (State.WAITING, 0, None)


@pytest.mark.parametrize(("on_lost", "state"), [(OnLost.RERUN, State.WAITING), (OnLost.DEAD, State.DEAD)])
async def test_a_run_that_its_worker_has_forgotten_counts_as_lost(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch, logged: list[Any], on_lost: OnLost, state: State
) -> None:
    run_id = await store.one_shot(on_lost=on_lost)
    crew, lost = await crew_on(store, stage), Promoted(monkeypatch, store, "settle")
    await work(crew)
    lost.over()
    await store.clock.advance(Duration(KEPT_FOR + SECOND))

    await looks(store, crew)

    view = await store.run(run_id)
    assert (view.state, view.losses, view.failures) == (state, 1, 0)
    [attempt] = read_attempts(view.attempts)
    assert (attempt.outcome, attempt.error_type, attempt.error) == ("lost", "WorkerLost", LOST_SETTLEMENT)
    assert [line["lost"] for line in logged if line["kind"] == "lost_settlement"] == [1]


async def test_a_claim_that_a_failover_lost_and_that_another_worker_repeats_stops_the_first(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    """Both attempts have the same token: which of them owns the run, only the worker tells."""
    run_id = await store.one_shot(task="wait")
    crew = await crew_on(store, stage)
    await work(crew)
    [run] = [active.run for active in crew.attempts]
    await store.hand_back(crew.worker_id, run)
    other = await store.worker()
    theirs = await store.claim_one(other, run_id)

    await looks(store, crew)
    await crew.rest()
    await crew.settling.run_once()

    assert stage.stopped == [run_id]
    assert [line["run_id"] for line in logged if line["kind"] == "run_not_held"] == [str(run_id)]
    assert ((await store.run(run_id)).worker_id, (await store.run(run_id)).losses) == (other, 0)
    assert await store.succeed(other, theirs) == Settled()


async def test_who_claims_a_run_again_that_still_executes_here_starts_it_when_that_has_stopped(
    store: Store, stage: Stage
) -> None:
    run_id = await store.one_shot(task="wait")
    crew = await crew_on(store, stage)
    await work(crew)
    [run] = [active.run for active in crew.attempts]
    await store.hand_back(crew.worker_id, run)

    await drive(store, crew, 5 * SECOND)

    assert (stage.started, stage.stopped) == ([run_id, run_id], [run_id])
    assert crew.attempts.capacity.used[Isolation.LOOP] == 1
    stage.go.set()
    assert (await final(store, crew, run_id)).token == 3
    assert crew.attempts.capacity.used[Isolation.LOOP] == 0


# ------------------------------------------------------------------------------------------------ what is no reason yet


async def test_an_answer_that_is_on_its_way_is_waited_for(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than two looks, if the time limit of calls is longer."""
    run_id = await store.one_shot()
    crew = await crew_on(store, stage, store_timeout=Duration(MINUTE), lease=Duration(5 * MINUTE))
    claim = store.running.claim

    async def slow(*args: Any) -> list[Claimed]:
        claimed = await claim(*args)
        await looks(store, crew, 4)
        return claimed

    monkeypatch.setattr(store.running, "claim", slow)
    await work(crew)

    view = await store.run(run_id)
    assert (view.state, view.losses, stage.started) == (State.SUCCEEDED, 0, [run_id])


async def test_what_cannot_be_waited_for_is_not_returned_to_the_queue_while_it_runs(store: Store, stage: Stage) -> None:
    """Its supervisor does so, when the process has ended."""
    run_id = await store.one_shot(task="stubborn")
    crew = await crew_on(store, stage)
    await work(crew)
    crew.attempts.forget()

    await looks(store, crew)
    stage.go.set()

    assert await store.state(run_id) is State.RUNNING


async def test_results_that_are_not_in_storage_yet_are_not_forgotten(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await store.one_shot()
    crew = await crew_on(store, stage, inline_cap=0)
    monkeypatch.setattr(crew.large_results, "_put", lambda *_: asyncio.Event().wait())
    await work(crew)
    assert len(crew.large_results) == 1

    await looks(store, crew)

    assert await store.state(run_id) is State.RUNNING


async def test_nobody_hands_back_what_another_worker_holds(store: Store, stage: Stage) -> None:
    theirs = await store.claim_one(await store.worker(), await store.one_shot())
    crew = await crew_on(store, stage)

    await looks(store, crew)

    assert await store.state(theirs.run_id) is State.RUNNING


async def test_of_many_workers_each_looks_less_often(store: Store, stage: Stage) -> None:
    """But twice in a minute."""
    crew = await crew_on(store, stage)
    pace = {}
    for workers in (1, 20, 40, 1_000):
        crew.prefetch.peers.count = workers
        await store.clock.advance(Duration(MINUTE))
        pace[workers] = await crew.holdings.run_once()

    assert pace == {1: EVERY, 20: EVERY, 40: 2 * EVERY, 1_000: 25 * SECOND}


async def test_a_heartbeat_that_follows_a_step_of_the_clock_first_keeps_nobody_from_claiming(
    store: Store, stage: Stage
) -> None:
    """The supervisor, which writes heartbeats, may believe in the step a few seconds before the worker does."""
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    ahead = store.at(HOUR)
    await store.fleet.beat(crew.worker_id, ahead)
    crew.holdings.beaten(ahead, store.clock.monotonic())

    await work(crew)

    assert await store.state(run_id) is State.SUCCEEDED
