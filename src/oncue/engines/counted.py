"""An engine whose calls are timed and whose failures are counted, for whoever watches this process."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from oncue.clock import Clock
from oncue.domain.errors import OncueError, StoreRefused, StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.engines.port import (
    Accounts,
    Ahead,
    Archiving,
    Audit,
    Auditing,
    Bulks,
    Declaring,
    Engine,
    Errors,
    Fleet,
    Forgetting,
    Hint,
    History,
    Idempotency,
    Jobs,
    Lists,
    Maintenance,
    Members,
    Notices,
    Objects,
    Outbox,
    Planning,
    Running,
    Search,
    Sessions,
    Signals,
    Standstill,
    Topic,
)
from oncue.engines.port.signals import EVERY_TOPIC
from oncue.metrics.metric import OTHER, Labels
from oncue.metrics.numbers import Numbers
from oncue.metrics.table import CONNECTIONS, CONNECTIONS_USED, HINTS, STORE_CALLS, STORE_ERRORS

Part = TypeVar("Part")
T = TypeVar("T")
Given = ParamSpec("Given")
Verb = Callable[Given, Coroutine[Any, Any, T]]


# Parts whose verbs are called seldom: each verb with a label of its own would be ten series more.
SELDOM_CALLED = (
    *("declaring", "objects", "notices", "archiving", "forgetting", "sessions", "errors", "bulks"),
    *("search", "ahead", "auditing", "outbox"),
)


class CountedEngine:
    """The same engine: each verb does what it did, and takes two microseconds more."""

    def __init__(self, engine: Engine, numbers: Numbers, clock: Clock) -> None:
        self._numbers = numbers
        self._clock = clock
        self.name = engine.name
        self.schema = engine.schema
        self.capabilities = engine.capabilities
        self.standstill: Standstill = engine.standstill
        self.jobs: Jobs = self._counted(engine.jobs)
        self.planning: Planning = self._counted(engine.planning)
        self.running: Running = self._counted(engine.running)
        self.fleet: Fleet = self._counted(engine.fleet)
        self.history: History = self._counted(engine.history)
        self.lists: Lists = self._counted(engine.lists)
        self.search: Search = self._counted(engine.search, "search")
        self.ahead: Ahead = self._counted(engine.ahead, "ahead")
        self.accounts: Accounts = self._counted(engine.accounts)
        self.sessions: Sessions = self._counted(engine.sessions, "sessions")
        self.audit: Audit = self._counted(engine.audit)
        self.idempotency: Idempotency = self._counted(engine.idempotency)
        self.maintenance: Maintenance = self._counted(engine.maintenance)
        self.members: Members = self._counted(engine.members)
        self.declaring: Declaring = self._counted(engine.declaring, "declaring")
        self.objects: Objects = self._counted(engine.objects, "objects")
        self.outbox: Outbox = self._counted(engine.outbox, "outbox")
        self.notices: Notices = self._counted(engine.notices, "notices")
        self.auditing: Auditing = self._counted(engine.auditing, "auditing")
        self.archiving: Archiving = self._counted(engine.archiving, "archiving")
        self.bulks: Bulks = self._counted(engine.bulks, "bulks")
        self.errors: Errors = self._counted(engine.errors, "errors")
        self.forgetting: Forgetting = self._counted(engine.forgetting, "forgetting")
        self.signals: Signals = CountedSignals(engine.signals, numbers)
        self.now = self._timed("now", engine.now)
        self.ping = self._timed("ping", engine.ping)
        self.probe = self._timed("probe", engine.probe)
        self.state = engine.state
        self.diagnose = engine.diagnose
        self._close = engine.close
        self._expose(engine)

    def _expose(self, engine: Engine) -> None:
        """Have its state read whenever somebody asks."""

        def connections(which: int) -> dict[Labels, float]:
            return {(pool,): found[which] for pool, found in engine.state().pools.items()}

        self._numbers.read(CONNECTIONS, lambda: connections(0), self)
        self._numbers.read(CONNECTIONS_USED, lambda: connections(1), self)
        self._numbers.read(HINTS, self._hints, self)

    def _hints(self) -> dict[Labels, float]:
        state = self.state()
        return {("all", "failed"): state.hints_failed, ("all", "reconnected"): state.reconnected}

    async def close(self) -> None:
        for labels, lost in self._hints().items():
            self._numbers.add(HINTS, *labels, n=lost)  # a counter must not fall when its engine is gone
        self._numbers.forget(self)
        await self._close()

    def _counted(self, part: Part, label: str | None = None) -> Part:
        """Count each verb by its name, or all of them under one label."""
        assert label is None or label in SELDOM_CALLED
        verbs = inspect.getmembers(part, inspect.iscoroutinefunction)
        counted = {name: self._timed(label or name, verb) for name, verb in verbs if not name.startswith("_")}
        return cast(Part, _Verbs(counted))

    def _timed(self, name: str, verb: Verb[Given, T]) -> Verb[Given, T]:
        numbers, monotonic = self._numbers, self._clock.monotonic

        @wraps(verb)
        async def timed(*given: Given.args, **named: Given.kwargs) -> T:
            asked_at = monotonic()
            try:
                return await verb(*given, **named)
            except Exception as error:
                if (kind := _kind(error)) is not None:
                    numbers.add(STORE_ERRORS, name, kind)
                raise
            finally:
                numbers.observe(STORE_CALLS, name, value=monotonic() - asked_at)

        return timed


class _Verbs:
    """A part of the engine: its verbs as attributes."""

    def __init__(self, verbs: dict[str, Verb[..., Any]]) -> None:
        self.__dict__.update(verbs)


class CountedSignals:
    def __init__(self, signals: Signals, numbers: Numbers) -> None:
        self._signals = signals
        self._numbers = numbers

    async def send(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            self._numbers.add(HINTS, hint.topic, "sent")
        await self._signals.send(hints)

    async def pass_on(self, hint: Hint, by: WorkerId) -> None:
        self._numbers.add(HINTS, hint.topic, "passed_on")
        await self._signals.pass_on(hint, by)

    async def listen(
        self, topics: Collection[Topic] = EVERY_TOPIC, worker: WorkerId | None = None
    ) -> AsyncIterator[Hint]:
        async for hint in self._signals.listen(topics, worker):
            self._numbers.add(HINTS, hint.topic, "heard")
            yield hint


def _kind(error: Exception) -> str | None:
    """The kind of a failure, as a label. None: the database answered, with a refusal of oncue's own rules."""
    if isinstance(error, StoreUnavailable):
        return "away"
    if isinstance(error, StoreRefused):
        return "refused"
    return None if isinstance(error, OncueError) else OTHER
