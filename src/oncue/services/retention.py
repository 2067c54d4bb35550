"""Keep the store small: roll counters up into their sums, and drop history older than `retention`."""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.instants import DAY, MINUTE, SECOND, Duration, Instant, rfc3339, show_duration
from oncue.engines.port import FOLDED_AT_ONCE, ROLLED_UP_AT_ONCE, Engine
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import PIECES_DROPPED
from oncue.settings import Settings

MAINTAIN_INTERVAL = Duration(10 * MINUTE)
ROLL_UP_INTERVAL = Duration(SECOND)
AFTER_A_FAILURE = Duration(MINUTE)  # of one part of the maintenance, perhaps by a timeout: no immediate retry
MOST_NAMED = 5  # users in a line
STEP = DAY  # one round moves the time before which history is dropped by at most this much


async def letters_at_risk(engine: Engine, settings: Settings, now: Instant) -> list[str]:
    """Return why dead letters will soon be discarded by themselves: they are at four fifths of a limit or beyond."""
    found = await engine.history.open_letters(settings.most_dead_letters * 4 // 5)
    names = await engine.accounts.names(sorted(found.users))
    many = [f"{n} of user {names.get(uid, str(uid))}" for uid, n in sorted(found.users.items())]
    why = [f"{', '.join(many[:MOST_NAMED])}; {settings.most_dead_letters} are kept per user"] if many else []
    if found.oldest is not None and now - found.oldest > settings.keep_dead_letters // 5 * 4:
        kept = show_duration(settings.keep_dead_letters)
        why.append(f"the oldest died at {rfc3339(found.oldest)}; they are kept for {kept}")
    return why


class CounterRollup:
    """Separate from retention, because dropping history may take minutes and counts are read all the time."""

    name = "folding"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run_once(self) -> Duration:
        folded = await self._engine.maintenance.roll_up(ROLLED_UP_AT_ONCE)
        failures = await self._engine.errors.roll_up(FOLDED_AT_ONCE)
        more = folded == ROLLED_UP_AT_ONCE or failures == FOLDED_AT_ONCE
        return Duration(0) if more else ROLL_UP_INTERVAL


class Retention:
    """Maintains history at start and then every ten minutes; twice per partition if those are shorter than that."""

    name = "retention"

    def __init__(self, engine: Engine, clock: Clock, settings: Settings, numbers: Numbers = SILENT) -> None:
        self._engine = engine
        self._numbers = numbers
        self._clock = clock
        self._settings = settings
        self._keep = settings.retention
        self._told: tuple[str, ...] = ()
        self._every = Duration(min(MAINTAIN_INTERVAL, max(ROLL_UP_INTERVAL, settings.partition_span // 2)))
        self._due = clock.monotonic()

    async def run_once(self) -> Duration:
        """Maintain history if it is due. Called more often than that: loops cap their waits."""
        if self._clock.monotonic() >= self._due:
            self._due = Instant(self._clock.monotonic() + min(self._every, AFTER_A_FAILURE))
            dropped = await self._engine.maintenance.maintain(await self._by(), self._keep)
            if dropped:
                log.info("Dropped old partitions of history", kind="piece_dropped", partitions=dropped)
            self._numbers.add(PIECES_DROPPED, n=dropped)
            await self._tell_of_letters()
            self._due = Instant(self._clock.monotonic() + self._every)
        return Duration(self._due - self._clock.monotonic())

    async def _tell_of_letters(self) -> None:
        """Say which dead letters will soon be discarded, once for as long as nothing changes about it."""
        found = await letters_at_risk(self._engine, self._settings, self._clock.now())
        for one in found:
            if one not in self._told:
                log.warning(
                    "Dead letters will be discarded soon: run them again, discard them, or keep more of them",
                    kind="dead_letters_at_risk",
                    why=one,
                )
        self._told = tuple(found)

    async def _by(self) -> Instant:
        """The time to maintain by. After a long pause it takes some rounds to reach the present; there is no hurry."""
        now = self._clock.now()
        by = await self._engine.maintenance.tended(now, STEP)
        if by < now:
            log.error(
                "The last maintenance of history is long ago, or the database's clock was set forward. History is "
                "dropped one day at a time; correct the clock soon if it is wrong",
                kind="history_behind",
                by=rfc3339(by),
                now=rfc3339(now),
                again_in_s=self._every // SECOND,
            )
        return by
