"""The keeper: its beats, of which the newest that has arrived decides; and one worker after the other."""

import asyncio
import errno
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import UserNumber, WorkerId, uuid7
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.load import Load
from oncue.engines.port import Beat
from oncue.services.channel import Alive, Beaten, Drain, Known, Ready, Unusable, Worn
from oncue.services.supervised_worker import SupervisedWorker
from oncue.services.supervisor import FIRST_PAUSE, KNOWN_FOR, REPLACE_AGAIN, WorkerSupervisor
from oncue.settings import Settings
from oncue.tasks import Isolation
from oncue.testing.clock import FakeClock
from oncue.testing.logs import capture_logs

LEASE = Duration(15 * SECOND)
EVERY = LEASE // 5
STEP = Duration(10 * MILLISECOND)


class Fleet:
    """A store that answers, refuses or does not answer at all."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.how = "well"
        self.asked: list[float] = []
        self.loads: list[bytes | None] = []
        self.drain_at: Instant | None = None

    async def beat(self, *_: Any, load: bytes | None = None, **__: Any) -> Beat | None:
        self.loads.append(load)
        self.asked.append(self.clock.monotonic() / SECOND)
        match self.how:
            case "refuses":
                raise StoreUnavailable("away")
            case "hangs":
                await asyncio.Event().wait()
            case "has buried it":
                return None
        return Beat(0, 1, self.drain_at)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.fleet = Fleet(self.clock)
        self.told: list[float] = []
        self.killed_at: float | None = None
        engine: Any = SimpleNamespace(fleet=self.fleet)
        self.supervisor = WorkerSupervisor(engine, self.clock, Settings(lease=LEASE))
        channel: Any = SimpleNamespace(send=lambda said: self.told.append(said.asked_at / SECOND))
        self.kept = SupervisedWorker(
            WorkerId(uuid7(self.clock.now(), bytes(8))), SimpleNamespace(), channel, self.clock.monotonic()
        )  # type: ignore[arg-type]
        self.kept.kill = self._kill  # type: ignore[method-assign]
        self.kept.ready.set()

    def _kill(self) -> None:
        self.killed_at = self.clock.monotonic() / SECOND

    async def passes(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            await self.clock.advance(Duration(50 * MILLISECOND))
            self.kept.alive_at = self.clock.monotonic()
            for _ in range(5):
                await asyncio.sleep(0)


@asynccontextmanager
async def beating() -> AsyncIterator[World]:
    world = World()
    task = asyncio.create_task(world.supervisor._beat_on(world.kept))
    await asyncio.sleep(0)
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_beats_five_times_in_a_lease() -> None:
    async with beating() as world:
        await world.passes(15)

        assert [round(at) for at in world.fleet.asked] == [0, 3, 6, 9, 12, 15]
        assert world.told[1:] == world.fleet.asked[1:]
        assert world.killed_at is None


async def test_every_beat_says_how_busy_the_worker_said_it_is_last() -> None:
    """A message without a load, as most are, leaves the last one."""
    said = [Alive(), Alive(load=Load(busy=0.5)), Alive()]

    async def receive() -> Alive | None:
        return said.pop(0) if said else None

    async with beating() as world:
        await world.passes(0.1)
        world.kept.channel.receive = receive  # type: ignore[method-assign]
        await world.supervisor._listen(world.kept)
        await world.passes(6)

        assert world.fleet.loads == [None, b'{"busy":0.5}', b'{"busy":0.5}']


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_after_an_outage_the_first_beat_decides_not_one_still_under_way(how: str) -> None:
    """The worst moment to go away is just before a beat: the last one that arrived is a whole period old by then."""
    async with beating() as world:
        await world.passes(2.9)
        world.fleet.how = how
        await world.passes(8.4)
        world.fleet.how = "well"  # whoever hangs goes on hanging
        await world.passes(1)

        assert world.told[-1] > 2.9 + 8.4 - 0.01
        await world.passes(15)
        assert world.killed_at is None


async def test_a_late_answer_to_an_old_beat_takes_nothing_back() -> None:
    async with beating() as world:
        await world.passes(2.9)
        late: asyncio.Event = asyncio.Event()
        real = world.fleet.beat

        async def slow(*_: Any, **__: Any) -> Beat | None:
            world.fleet.beat = real  # type: ignore[method-assign]
            await late.wait()
            return Beat(0, 1)

        world.fleet.beat = slow  # type: ignore[method-assign]
        await world.passes(2)
        newest = world.told[-1]
        late.set()
        await world.passes(0.5)

        assert world.told[-1] == newest > 3.9
        assert world.kept.beaten_at / SECOND == newest


async def test_a_worker_that_no_beat_vouches_for_is_ended_before_its_lease() -> None:
    async with beating() as world:
        await world.passes(0.1)
        world.fleet.how = "hangs"
        await world.passes(15)

        assert world.killed_at is not None
        assert 12 < world.killed_at < 13.5


async def test_a_worker_that_was_buried_is_ended_at_once() -> None:
    async with beating() as world:
        world.fleet.how = "has buried it"
        await world.passes(3.1)

        assert world.killed_at is not None
        assert world.killed_at < 3.2


async def test_no_more_beats_are_under_way_than_there_are_connections_for_them() -> None:
    async with beating() as world:
        await world.passes(1)
        world.fleet.how = "hangs"
        await world.passes(9)

        assert len(world.fleet.asked) <= 1 + 8


# ------------------------------------------------------------------------------------------------ one after the other


class Process:
    """Stands in for a worker process: it says what the test lets it say, and ends when it is told to."""

    pid = 2**22 + 1  # nobody can have it

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.ended = asyncio.Event()

    async def wait(self) -> None:
        await self.ended.wait()
        self.returncode = self.returncode or 0


class Talk:
    """Stands in for a channel."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.said: asyncio.Queue[Any] = asyncio.Queue()

    def send(self, said: Any) -> None:
        self.heard.append(said)

    async def receive(self) -> Any:
        return await self.said.get()

    async def close(self) -> None:
        self.said.put_nowait(None)

    @property
    def drains(self) -> list[Drain]:
        return [said for said in self.heard if isinstance(said, Drain)]


class Workers:
    """A keeper at work, and the workers it has started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, reload: bool = False) -> None:
        self.clock = FakeClock()
        self.fleet = Fleet(self.clock)
        self.left: list[WorkerId] = []
        self.fails: list[Exception] = []
        self.kept: list[SupervisedWorker] = []
        self.tried: list[Instant] = []  # when one was to be started
        self.known: list[tuple[Known, ...]] = []
        self.drained: list[Instant | None] = []  # what each was started with
        self.row: Any = None  # of the worker that leaves
        engine: Any = SimpleNamespace(fleet=self.fleet)
        self.fleet.leave = self._leave  # type: ignore[attr-defined]
        self.supervisor = WorkerSupervisor(engine, self.clock, Settings(lease=LEASE, reload=reload))
        monkeypatch.setattr(SupervisedWorker, "start", self._start)

    async def _leave(self, worker_id: WorkerId) -> Any:
        self.left.append(worker_id)
        return self.row

    async def _start(
        self, clock: FakeClock, _: Settings, known: tuple[Known, ...] = (), drain_at: Instant | None = None
    ) -> SupervisedWorker:
        self.tried.append(clock.monotonic())
        if self.fails:
            raise self.fails.pop(0)
        number = len(self.kept).to_bytes(8, "big")
        process, talk = Process(), Talk()
        made = SupervisedWorker(WorkerId(uuid7(clock.now(), number)), process, talk, clock.monotonic())  # type: ignore[arg-type]
        made.kill = process.ended.set  # type: ignore[method-assign]
        self.kept.append(made)
        self.known.append(known)
        self.drained.append(drain_at)
        return made

    async def some(self, count: int) -> SupervisedWorker:
        """The newest, once so many have been started."""
        async with asyncio.timeout(60):
            while len(self.kept) < count:
                await asyncio.sleep(0.01)  # the last words of one that ended take real time
                await self.clock.advance(STEP)
        return self.kept[-1]

    async def says(self, kept: SupervisedWorker, said: Any) -> None:
        self.talk(kept).said.put_nowait(said)
        for _ in range(20):
            await asyncio.sleep(0)

    def talk(self, kept: SupervisedWorker) -> Talk:
        talk: Any = kept.channel
        return talk  # type: ignore[no-any-return]

    async def ends(self, kept: SupervisedWorker) -> None:
        kept.kill()
        await self.says(kept, None)

    async def worn(self, kept: SupervisedWorker) -> None:
        await self.clock.advance(REPLACE_AGAIN)
        kept.alive_at = self.clock.monotonic()
        await self.says(kept, Worn(((Isolation.THREAD, UserNumber(7)),)))


@pytest.fixture
async def workers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workers]:
    workers = Workers(monkeypatch)
    running = asyncio.create_task(workers.supervisor.run())
    yield workers
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(workers.left) == len(workers.kept)


async def test_a_worn_worker_goes_on_until_another_has_taken_its_place(workers: Workers) -> None:
    old = await workers.some(1)
    await workers.says(old, Ready(()))
    await workers.worn(old)
    new = await workers.some(2)
    assert workers.talk(old).drains == []

    await workers.says(new, Ready(()))
    assert workers.talk(old).drains == [Drain(replaced=True)]
    assert workers.talk(new).drains == []

    before = len(workers.fleet.asked)
    await workers.clock.advance(Duration(EVERY))
    await workers.clock.advance(Duration(EVERY))
    assert len(workers.fleet.asked) >= before + 2  # for both
    await workers.ends(old)
    assert workers.left == [old.worker_id]
    assert len(workers.kept) == 2


async def test_who_wore_it_out_is_known_to_the_next_for_a_while(workers: Workers) -> None:
    old = await workers.some(1)
    await workers.says(old, Ready(()))
    await workers.worn(old)
    new = await workers.some(2)
    assert [who for who, _ in workers.known[1]] == [(Isolation.THREAD, UserNumber(7))]

    await workers.says(new, Ready(()))
    await workers.clock.advance(Duration(KNOWN_FOR + SECOND))  # of which it is not alive
    await workers.some(3)
    assert workers.known[2] == ()


async def test_no_more_than_two_worn_ones_are_there_at_once(workers: Workers) -> None:
    for n in (1, 2):
        await workers.says(await workers.some(n), Ready(()))
        await workers.worn(workers.kept[-1])
    third = await workers.some(3)
    await workers.says(third, Ready(()))
    await workers.worn(third)
    await asyncio.sleep(0.05)
    assert len(workers.kept) == 3

    await workers.ends(workers.kept[0])
    await workers.worn(third)
    await workers.some(4)


async def test_a_worn_one_goes_on_when_no_other_can_take_its_place(workers: Workers) -> None:
    old = await workers.some(1)
    await workers.says(old, Ready(()))
    await workers.worn(old)
    new = await workers.some(2)
    await workers.says(new, Unusable("there is no such module"))
    await workers.ends(new)

    assert workers.talk(old).drains == []
    assert workers.supervisor.problem is None
    await workers.worn(old)
    await workers.some(3)


async def test_a_drained_worker_hears_of_it_by_a_heartbeat_and_so_does_the_one_that_replaces_it(
    workers: Workers,
) -> None:
    first = await workers.some(1)
    await workers.says(first, Ready(()))
    workers.fleet.drain_at = Instant(7)
    await workers.clock.advance(Duration(EVERY))
    await workers.says(first, Alive())
    assert [said.drained for said in workers.talk(first).heard if isinstance(said, Beaten)] == [True]
    await workers.ends(first)
    second = await workers.some(2)

    workers.row = SimpleNamespace(drain_at=None)  # resumed since its last heartbeat
    await workers.ends(second)
    third = await workers.some(3)
    workers.row = SimpleNamespace(drain_at=Instant(8))  # drained since its last heartbeat
    await workers.ends(third)
    await workers.some(4)

    assert workers.drained == [None, 7, None, 8]


async def test_when_it_is_told_to_stop_every_worker_is(workers: Workers) -> None:
    old = await workers.some(1)
    await workers.says(old, Ready(()))
    await workers.worn(old)
    new = await workers.some(2)
    await workers.says(new, Ready(()))
    workers.supervisor.stop()

    assert workers.talk(old).drains[-1] == workers.talk(new).drains[-1] == Drain()


@pytest.fixture
async def reloading(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workers]:
    workers = Workers(monkeypatch, reload=True)
    running = asyncio.create_task(workers.supervisor.run())
    yield workers
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_reload_replaces_the_worker_at_once_and_is_no_restart_to_warn_of(reloading: Workers) -> None:
    registered: list[int] = []
    reloading.supervisor.then(lambda: registered.append(len(reloading.kept)))
    old = await reloading.some(1)
    await reloading.says(old, Ready(()))
    with capture_logs() as lines:
        reloading.supervisor.reload()
        assert reloading.talk(old).drains == [Drain(at_once=True)]
        await reloading.ends(old)
        new = await reloading.some(2)
    await reloading.says(new, Ready(()))

    assert (lines, registered, reloading.talk(new).drains) == ([], [1, 2], [])


async def test_a_worker_that_does_not_end_for_a_reload_is_killed_without_the_time_to_finish(reloading: Workers) -> None:
    old = await reloading.some(1)
    await reloading.says(old, Ready(()))
    reloading.supervisor.reload()
    for _ in range(12):  # less than the grace of a stop
        await reloading.clock.advance(Duration(SECOND))
        await reloading.says(old, Alive())

    assert reloading.left == [old.worker_id] or old.process.returncode == 0


async def test_tasks_that_cannot_be_loaded_wait_for_the_next_change(reloading: Workers) -> None:
    first = await reloading.some(1)
    with capture_logs() as lines:
        await reloading.says(first, Unusable("tasks.py, line 3"))
        await reloading.ends(first)
        async with asyncio.timeout(60):
            await reloading.supervisor.begun.wait()
    assert [(line["kind"], line["why"]) for line in lines] == [("worker_unusable", "tasks.py, line 3")]
    assert (len(reloading.kept), reloading.supervisor.problem) == (1, None)

    reloading.supervisor.reload()
    second = await reloading.some(2)
    await reloading.says(second, Ready(()))
    assert reloading.talk(second).drains == []


async def test_a_change_while_a_worker_is_being_started_replaces_it(
    reloading: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await reloading.some(1)

    async def saved_meanwhile(*given: Any) -> SupervisedWorker:
        monkeypatch.setattr(SupervisedWorker, "start", reloading._start)
        reloading.supervisor.reload()
        return await reloading._start(*given)

    monkeypatch.setattr(SupervisedWorker, "start", saved_meanwhile)
    await reloading.ends(first)
    second = await reloading.some(2)
    assert reloading.talk(second).drains == [Drain(at_once=True)]
    await reloading.ends(second)
    assert reloading.talk(await reloading.some(3)).drains == []


async def test_a_start_that_fails_is_tried_again_and_told_once(workers: Workers) -> None:
    first = await workers.some(1)
    await workers.says(first, Ready(()))
    workers.fails = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENOMEM, "no memory")]
    with capture_logs() as lines:
        await workers.ends(first)
        second = await workers.some(2)
    await workers.says(second, Ready(()))

    assert [line["kind"] for line in lines] == ["worker_restarted", "worker_not_started"]
    _, *tries = workers.tried
    assert [later - sooner for sooner, later in pairwise(tries)] == [FIRST_PAUSE, 2 * FIRST_PAUSE]


def open_files() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


async def test_nothing_is_left_of_a_start_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = open_files()
    for _ in range(3):
        with pytest.raises(OSError):
            await SupervisedWorker.start(FakeClock(), Settings())

    async with asyncio.timeout(60):
        while open_files() - before:
            await asyncio.sleep(0.01)


async def test_a_worker_that_says_what_nobody_understands_is_ended(workers: Workers) -> None:
    first = await workers.some(1)
    talk = workers.talk(first)

    async def garbage() -> None:
        raise msgspec.ValidationError("garbage")

    talk.receive = garbage  # type: ignore[method-assign]
    await workers.says(first, Ready(()))
    await workers.some(2)
    assert workers.left == [first.worker_id]
