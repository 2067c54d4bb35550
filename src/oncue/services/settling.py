"""Write the outcomes of attempts, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oncue.clock import Clock
from oncue.domain import attempt
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.plain_text import message_of
from oncue.domain.run import Claimed, Settled, Settlement, State
from oncue.engines.hints import free_or_held, peeked
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Engine, Hint, Topic
from oncue.engines.refusals import Refusal, apart
from oncue.log import log
from oncue.services.attempts import End
from oncue.services.changes import Changes
from oncue.services.load_meter import LoadMeter
from oncue.services.outcome_lines import OutcomeLines
from oncue.services.prefetch import Prefetch
from oncue.services.recent_ends import RecentEnds
from oncue.services.run_numbers import RunNumbers

BATCH = 1_000  # runs in one transaction
SMALL_BATCH = 50  # a smaller batch waits a moment for more
LINGER = Duration(2 * MILLISECOND)
IDLE = Duration(5 * SECOND)
LONGEST_REASON = 500  # characters


class Settling:
    name = "settling"

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        worker_id: WorkerId,
        prefetch: Prefetch,
        counted: RunNumbers,
        load: LoadMeter,
        defaults: KnownDefaults,
        recent: RecentEnds,
        linger: Duration = LINGER,
        *,
        log_runs: bool = False,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._worker_id = worker_id
        self._prefetch = prefetch
        self._counted = counted
        self._load = load
        self._defaults = defaults
        self._recent = recent
        self.changes = Changes(engine.signals, clock)
        self._lines = OutcomeLines(every=log_runs)
        self._linger = linger
        self._most = BATCH
        self._ended: list[Settlement] = []
        self._back: list[Claimed] = []
        self.returned = 0  # runs that returned to the queue so far

    def __len__(self) -> int:
        return len(self._ended) + len(self._back)

    def known(self) -> Iterator[Claimed]:
        """Return the runs whose outcomes are not written yet."""
        yield from (end.run for end in self._ended)
        yield from self._back

    def add(self, end: End) -> None:
        if isinstance(end, Settlement):
            self._ended.append(end)
        else:
            self._back.append(end)
            self.returned += 1

    async def run_once(self) -> Duration:
        if not len(self):
            return IDLE
        if self._linger and len(self) < SMALL_BATCH:
            await self._clock.sleep(self._linger)
        try:
            if self._back:
                await self._hand_back()
            if self._ended:
                await self._settle()
        except StoreUnavailable:
            self._most = max(1, self._most // 2)  # the batch may have been too large for the timeout
            raise
        self._most = BATCH
        return Duration(0) if len(self) else IDLE

    async def _settle(self) -> None:
        """Settle a batch. It stays here until the store answers: after an outage it is written and fenced again."""
        batch = self._ended[: self._most]
        async for done, answer in apart(batch, self._write):
            if isinstance(answer, Refusal):
                await self._settle_instead(done[0], answer.why)
                answer = Settled()
            else:
                self._say(done, answer)
            del self._ended[: len(done)]
            self._recent.add(done)
            self._counted.settled(done, answer)
            self._load.add(done)
            await self._tell(done, notices=answer.notices > 0)
            await self.changes.of(one.run.uid for one in done)

    def _say(self, done: Sequence[Settlement], answer: Settled) -> None:
        if answer.lost:
            log.warning(
                "Results came too late and were refused: other workers own these runs now",
                kind="result_refused",
                runs=len(answer.lost),
            )
        self._lines.tell(done, except_for=answer.lost | answer.cancelled)

    async def _hand_back(self) -> None:
        batch = self._back[: self._most]
        async for runs, answer in apart(batch, self._write_back):
            del self._back[: len(runs)]
            if isinstance(answer, Refusal):
                now = self._clock.now()
                self._ended.append(attempt.given_up(runs[0], now, now, _unwritten(answer.why)))
                continue
            self._recent.add(runs)
            self._counted.handed_back(len(answer))
            back = [peeked(run, run.due) for run in runs if run.run_id in answer]
            await self._engine.signals.send(free_or_held(back, self._clock.now()))
            await self.changes.of(run.uid for run in runs)

    async def _settle_instead(self, refused: Settlement, why: Exception) -> None:
        """Settle a refused outcome by a substitute. The outcome is dropped only when the store accepts the substitute.

        If the store refuses it, too, the store has a problem: the other outcomes go first next time, and all are
        retried.
        """
        log.error(
            "The database refused the outcome of an attempt; the run fails instead",
            kind="outcome_refused",
            run_id=str(refused.run.run_id),
            exc_info=why,
        )
        now = self._clock.now()
        instead = attempt.given_up(refused.run, refused.started_at or now, now, _unwritten(why))
        try:
            await self._write([instead])
        except BaseException:
            self._ended.append(self._ended.pop(0))
            raise

    async def _write(self, settlements: Sequence[Settlement]) -> Settled:
        await self._defaults.refresh()
        told = self._defaults.told(settlements)
        return await self._engine.running.settle(self._worker_id, told, self._clock.now())

    async def _write_back(self, runs: Sequence[Claimed]) -> frozenset[RunId]:
        return await self._engine.running.hand_back(self._worker_id, runs, self._clock.now())

    async def _tell(self, batch: Sequence[Settlement], *, notices: bool) -> None:
        """Hint to prefetches: a run is retried soon, a lane admitted its next run, or a notice waits for its start."""
        if notices or any(done.run.lane is not None or done.run.gate is not None for done in batch):
            self._prefetch.ask(None)
            await self._engine.signals.send([Hint(Topic.RUNS)])
            return
        again = [peeked(done.run, done.due) for done in batch if done.state is State.WAITING and done.due is not None]
        for hint in free_or_held(again, self._clock.now()):
            self._prefetch.ask(hint.due, hint.classes)
            await self._engine.signals.send([hint])


def _unwritten(why: Exception) -> str:
    return f"the outcome of this attempt could not be stored: {message_of(why, LONGEST_REASON)}"
