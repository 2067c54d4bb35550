"""An engine as one process reaches it: requests and answers get lost, come late, or find the asker asleep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from tests.simulation.process import Process

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.port import Engine, Hint, Topic
from oncue.engines.sqlite.store import Act, Store, _Queued

STEP = 50 * MILLISECOND
STORE_TIMEOUT = 3 * SECOND
LEASE = 6 * SECOND
LONG_AFTER = 60 * SECOND
LEASES = (SECOND, LEASE, 2 * SECOND)  # where they differ

# Not guarded by anything, on purpose: a pause that arrives after the resume that followed it is the last word.
LAST_ONE_COUNTS = {"fleet.pause_queue", "fleet.resume_queue"}

# Requests that may arrive long after whoever sent them has given up.
HAVE_A_DEADLINE = {"running.claim"}

# Where it matters most who heard what, more goes wrong.
DELICATE = {f"running.{verb}" for verb in ("claim", "holdings", "held_by", "settle", "hand_back", "save")} | {
    "planning.plan",
    "planning.withdraw",
    "planning.permit",
}

T = TypeVar("T")
Verb = Callable[..., Coroutine[Any, Any, Any]]


class OwnTurn(Store):
    """The engine's store without its threads: whoever asks does the work, so no thread can change the order of things.

    A call is one step of the world, in which nothing else happens, and a seed is one story.
    """

    async def write(self, act: Act[T], timeout: Duration | None = None) -> T:
        [answer] = self._commit([_Queued(act, self._loop.create_future())])
        if answer.error is not None:
            raise answer.error
        result: T = answer.result
        return result

    async def read(self, act: Act[T], *, hot: bool = False) -> T:
        return self._look(act)


def ask(call: Coroutine[Any, Any, T]) -> T:
    """The answer of a verb that waits for nobody."""
    while True:
        try:
            call.send(None)  # some planted bugs let others run; there are none
        except StopIteration as over:
            answer: T = over.value
            return answer


@dataclass(frozen=True)
class Weather:
    """How likely what goes wrong is, for each call."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    slow: float = 0.0
    ghost: float = 0.0  # given up by the caller, and applied afterwards
    asleep: float = 0.0  # the process is stopped inside the call
    hint_lost: float = 0.0

    @classmethod
    def of(cls, chance: Random) -> Weather:
        bad = chance.choice([0.5, 1.0, 2.0])
        return cls(0.01 * bad, 0.02 * bad, 0.03 * bad, 0.006 * bad, 0.008 * bad, 0.2 * bad)


CALM = Weather()


class Way:
    """From a process to the store, with the weather between them."""

    def __init__(self, engine: Engine, chance: Random, witness: Callable[[str, tuple[Any, ...], Any], None]) -> None:
        self.engine = engine
        self.weather = CALM
        self.chance = chance
        self.ghosts: set[asyncio.Task[None]] = set()
        self.deliver: Callable[[Hint], None] = lambda hint: None
        self._witness = witness

    async def call(self, process: Process, name: str, verb: Verb, args: tuple[Any, ...], how: dict[str, Any]) -> Any:
        await process.thaw()
        if process.dead:
            raise asyncio.CancelledError
        answer = await self._through(process, name, lambda: self._apply(name, verb, args, how))
        await process.thaw()
        return answer

    def _apply(self, name: str, verb: Verb, args: tuple[Any, ...], how: dict[str, Any]) -> Any:
        answer = ask(verb(*args, **how))
        self._witness(name, args, answer)
        return answer

    async def _through(self, process: Process, name: str, apply: Callable[[], Any]) -> Any:
        if self.weather is CALM:
            return apply()
        luck, weather, pause = self.chance.random(), self.weather, self._pause()
        if name in DELICATE:
            luck /= 3
        if (luck := luck - weather.request_lost) < 0:
            await process.sleep(pause)
            raise StoreUnavailable("the request was lost")
        if (luck := luck - weather.answer_lost) < 0:
            apply()
            await process.sleep(pause)
            raise StoreUnavailable("the answer was lost")
        if (luck := luck - weather.slow) < 0:
            return await self._slowly(process, apply, pause)
        if (luck := luck - weather.ghost) < 0 and name not in LAST_ONE_COUNTS:
            self._haunt(process, apply, LONG_AFTER if name in HAVE_A_DEADLINE else STORE_TIMEOUT)
            await process.sleep(STORE_TIMEOUT)
            raise StoreUnavailable("no answer in time")
        if luck - weather.asleep < 0:
            process.freeze(self.chance.choice([LEASE // 4, LEASE // 2, LEASE + SECOND, LEASE * 3 // 2]))
            return await self._slowly(process, apply, 0)
        return apply()

    def _pause(self) -> int:
        """Shorter than what counts as away; mostly much shorter."""
        return STEP * self.chance.choice([0, 1, 1, 2, 4, 10, 20, 40, 58])

    async def _slowly(self, process: Process, apply: Callable[[], Any], pause: int) -> Any:
        if self.chance.random() < 0.5:
            await process.sleep(pause)
            return apply()
        answer = apply()
        await process.sleep(pause)
        return answer

    def _haunt(self, process: Process, apply: Callable[[], Any], late_by: int) -> None:
        """A store works at a request for as long as its own timeout, whatever became of the asker.

        What the net keeps for longer must say itself when it is too late.
        """
        late = STORE_TIMEOUT + STEP * self.chance.randrange(0, late_by // STEP)

        async def ghost() -> None:
            await process.clock.sleep(Duration(late))
            apply()

        self.later(ghost())

    def later(self, what: Coroutine[Any, Any, None]) -> None:
        """On its way through the net, whatever becomes of its sender."""
        task = asyncio.create_task(what)
        self.ghosts.add(task)
        task.add_done_callback(self.ghosts.discard)


class Part:
    """One protocol of the engine."""

    def __init__(self, way: Way, process: Process, name: str) -> None:
        self._way = way
        self._process = process
        self._name = name
        self._real = getattr(way.engine, name)

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        real, name = getattr(self._real, verb), f"{self._name}.{verb}"

        async def call(*args: Any, **how: Any) -> Any:
            return await self._way.call(self._process, name, real, args, how)

        setattr(self, verb, call)
        return call


class Signals:
    """Hints: dropped, doubled, late."""

    def __init__(self, way: Way, process: Process) -> None:
        self._way = way
        self._process = process

    async def send(self, hints: Sequence[Hint]) -> None:
        if self._process.dead:
            return
        chance, lost = self._way.chance, self._way.weather.hint_lost
        for hint in hints:
            if hint.topic is Topic.CHANGED:
                continue  # nobody watches in a story: whether it is lost is nothing to draw lots for
            if not lost or chance.random() >= lost:
                self._way.deliver(hint)
            if lost and chance.random() < lost:
                self._way.later(self._late(hint, STEP * chance.randrange(1, 20)))

    async def pass_on(self, hint: Hint, by: WorkerId) -> None:
        await self.send([hint])

    async def _late(self, hint: Hint, length: int) -> None:
        await self._process.clock.sleep(Duration(length))
        self._way.deliver(hint)


class Reached:
    """The engine, as this process reaches it."""

    def __init__(self, way: Way, process: Process, store_now: Verb) -> None:
        self._way = way
        self._process = process
        self._store_now = store_now
        self.name = way.engine.name
        self.schema = way.engine.schema
        self.capabilities = way.engine.capabilities
        self.jobs = Part(way, process, "jobs")
        self.planning = Part(way, process, "planning")
        self.running = Part(way, process, "running")
        self.fleet = Part(way, process, "fleet")
        self.members = Part(way, process, "members")
        self.notices = Part(way, process, "notices")
        self.history = Part(way, process, "history")
        self.lists = Part(way, process, "lists")
        self.accounts = Part(way, process, "accounts")
        self.audit = Part(way, process, "audit")
        self.auditing = Part(way, process, "auditing")
        self.archiving = Part(way, process, "archiving")
        self.forgetting = Part(way, process, "forgetting")
        self.idempotency = Part(way, process, "idempotency")
        self.maintenance = Part(way, process, "maintenance")
        self.signals = Signals(way, process)

    async def now(self) -> Any:
        return await self._way.call(self._process, "now", self._store_now, (), {})
