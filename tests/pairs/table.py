"""Every verb against every other, after each step: what was run, and what was wrong."""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from itertools import product
from time import perf_counter
from typing import Any

import asyncpg
import msgspec
from tests.pairs.checking import Met, violations
from tests.pairs.resting import at_rest
from tests.pairs.situations import SITUATIONS, Scene
from tests.pairs.state import Image, Kept, Session, look
from tests.pairs.stepping import Actor, Meanwhile, Watcher, interleaved
from tests.pairs.verbs import VERBS, Act, Situation, answer_of

from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue_conformance.store import Store

# What somebody else has this moment these leave for the next time, or they take several writes: they may do a part of
# what there is to do.
IN_PART = frozenset({"claim", "plan", "permit", "recover_runs", "withdraw", "purge"})

Chosen = Callable[[str, str, str, int], bool]  # situation, first, second, after so many steps


def whichever(*_: object) -> bool:
    return True


class Pair(msgspec.Struct):
    """What came of one verb after each step of another, in all situations in which both have something to do."""

    count: int = 0
    waited: int = 0
    deadlocks: int = 0
    seconds: float = 0.0

    def plus(self, other: "Pair") -> "Pair":
        return Pair(*(mine + more for mine, more in zip(*map(msgspec.structs.astuple, (self, other)), strict=True)))


class Fault(msgspec.Struct, frozen=True):
    situation: str
    first: str
    second: str
    after: int
    step: str
    what: str

    @property
    def rule(self) -> str:
        return self.what.partition(":")[0]

    def __str__(self) -> str:
        step = " ".join(self.step.split())[:100]
        return f"[{self.situation}] {self.second} after step {self.after} of {self.first} ({step}): {self.what}"


class Alone(msgspec.Struct, frozen=True):
    """A verb by itself: its steps, and what is there after it."""

    steps: tuple[str, ...]
    image: Image
    acts: bool


class Stage:
    """One situation on one database, begun from as often as it takes."""

    def __init__(self, name: str, at: Situation, kept: Kept, theatre: "Theatre") -> None:
        self.name = name
        self.at = at
        self.pairs: dict[tuple[str, str], Pair] = defaultdict(Pair)
        self.faults: list[Fault] = []
        self._kept = kept
        self._session = theatre.session
        self._actors = theatre.actors
        self._plain = theatre.plain
        self._watcher = Watcher(theatre.session)
        self._image: Image | None = kept.image
        self._rested: dict[Any, list[str]] = {}
        self._turns: dict[tuple[str, str], set[int]] = {}

    async def alone(self, verb: str) -> Alone:
        await self._begin()
        [first, _] = self._actors
        first.steps.begin()
        await self._act(verb, 0)()
        self._image = await look(self._session)
        return Alone(tuple(first.steps.names), self._image, bool(self._image.differs_in(self._kept.image)))

    async def acts_after(self, second: str, first: str, alone: Alone) -> bool:
        """Whether what one verb leaves gives another something to do."""
        await self._begin()
        await self._act(first, 0)()
        await self._act(second, 1)()
        self._image = await look(self._session)
        return bool(self._image.differs_in(alone.image))

    async def meet(self, first: str, second: str, steps: tuple[str, ...], only: Chosen = whichever) -> None:
        """The second after each chosen step of the first."""
        began = perf_counter()
        pair = self.pairs[first, second]
        for after in range(1, len(steps) + 1):
            if only(self.name, first, second, after):
                for what in await self._meet_once(first, second, after, pair):
                    self.faults.append(Fault(self.name, first, second, after, steps[after - 1], what))
        pair.seconds += perf_counter() - began

    async def _meet_once(self, first: str, second: str, after: int, pair: Pair) -> list[str]:
        await self._begin()
        one, other = self._actors
        try:
            *answers, waited = await interleaved(
                one, self._act(first, 0), after, other, self._act(second, 1), self._watcher
            )
        except Exception as wrong:
            self._image = None
            return [f"raised: {wrong!r}"]
        pair.count += 1
        pair.waited += waited
        deadlocks = one.steps.deadlocks + other.steps.deadlocks
        pair.deadlocks += deadlocks
        self._image = await look(self._session)
        met = Met(self.at, self._kept.image, self._image, ((first, answers[0]), (second, answers[1])))
        wrong = await self._judged(met)
        if deadlocks:
            wrong = [*wrong, "order of locks: they waited for each other, until the server undid one of them"]
        if not wrong and not {first, second} & IN_PART and met.after.key not in await self._in_turn(first, second):
            return ["in turn: it is as if neither came first"]
        return wrong

    async def _in_turn(self, first: str, second: str) -> set[int]:
        """What there is after one of them, and then the other."""
        if (first, second) not in self._turns:
            found = set()
            for order in ((0, 1), (1, 0)):
                await self._begin()
                for who in order:
                    await self._act((first, second)[who], who)()
                self._image = await look(self._session)
                found.add(self._image.key)
            self._turns[first, second] = found
        return self._turns[first, second]

    def _act(self, verb: str, who: int) -> Meanwhile:
        return lambda: answer_of(VERBS[verb], Act(self._actors[who].engine, self.at, who))

    async def _judged(self, met: Met) -> list[str]:
        """What is wrong. What is the same comes to rest in the same way: once is enough."""
        if wrong := list(violations(met)):
            return wrong
        key = (met.after.key, repr(met.claims))
        if key not in self._rested:
            self._rested[key] = await at_rest(self._plain, self._session, met)
            self._image = None
        return self._rested[key]

    async def _begin(self) -> None:
        for actor in self._actors:
            actor.steps.begin()
        await self._kept.restore(self._image)
        self._image = self._kept.image


class Theatre(msgspec.Struct):
    """A database on which one situation after the other is made: a session past the engines, and three of these."""

    url: str
    session: Session
    empty: Kept
    actors: tuple[Actor, Actor]
    plain: Engine

    @classmethod
    @asynccontextmanager
    async def on(cls, url: str) -> AsyncIterator["Theatre"]:
        """Nobody waits for the disk, and a deadlock is found at once: its last lock closes the circle."""
        session = await asyncpg.connect(url)
        name = await session.fetchval("select quote_ident(current_database())")
        for setting in ("deadlock_timeout = '5 ms'", "synchronous_commit = off"):
            await session.execute(f"alter database {name} set {setting}")
        await (await _store(url)).close()
        actors, plain = (await Actor.on(url), await Actor.on(url)), await _open(url)
        try:
            yield cls(url, session, await Kept.of(session, "nothing"), actors, plain)
        finally:
            for engine in (plain, *(actor.engine for actor in actors)):
                await engine.close()
            await session.close()

    async def stage(self, name: str) -> Stage:
        await self.empty.restore(None)
        async with await _store(self.url) as store:
            scene = await Scene(store).prepared()
            at = await scene.finished(await SITUATIONS[name](scene))
        kept = await Kept.of(self.session, f"situation_{list(SITUATIONS).index(name)}")
        return Stage(name, at, kept, self)


async def _open(url: str) -> Engine:
    return await open_engine(Settings(engine=url, pool_size=2))


async def _store(url: str) -> Store:
    return await Store.on(lambda: _open(url))


async def play(stage: Stage, only: Chosen = whichever, follow: Container[str] = VERBS) -> None:
    """All pairs that have something to do, both at once or, of those that `follow`, only after the other."""
    alone = {verb: await stage.alone(verb) for verb in VERBS}
    for first, second in product(VERBS, VERBS):
        steps = alone[first].steps
        if not alone[first].acts or not any(only(stage.name, first, second, n + 1) for n in range(len(steps))):
            continue
        if alone[second].acts:
            await stage.meet(first, second, steps, only)
        elif second in follow and await stage.acts_after(second, first, alone[first]):
            await stage.meet(first, second, steps, only)
            await stage.meet(second, first, alone[second].steps, only)


async def play_pair(stage: Stage, first: str, second: str) -> list[Fault]:
    """What is wrong when these two meet."""
    await stage.meet(first, second, (await stage.alone(first)).steps)
    return stage.faults
