"""The hot path: peek ahead, claim on the instant, settle in batches."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from heapq import merge
from typing import Any
from uuid import UUID

from oncue.domain.ids import ClassId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import JobStatus
from oncue.domain.lane import Held
from oncue.domain.run import Claimed, Peeked, Settled, Settlement, State
from oncue.engines.port import Cancelled, Count
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.counting import Counted, count
from oncue.engines.sqlite.inserting import delete_many, insert_many
from oncue.engines.sqlite.lanes import Touched, tend
from oncue.engines.sqlite.pieces import Pieces, find_ended
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
_COUNT = {
    State.SUCCEEDED: Count.SUCCEEDED,
    State.DEAD: Count.DEAD,
    State.CANCELLED: Count.CANCELLED,
    State.EXPIRED: Count.EXPIRED,
}
NOBODY: frozenset[bytes] = frozenset()


class SqliteRunning:
    def __init__(self, store: Store, pieces: Pieces) -> None:
        self._store = store
        self._pieces = pieces

    async def peek(self, classes: Sequence[ClassId], after: Instant, until: Instant, limit: int) -> list[Peeked]:
        def peek(db: Connection) -> list[rows.Row]:
            by_class = [fetch(db, _SQL["peek"], (class_id, after, until, limit)) for class_id in classes]
            return by_class[0] if len(by_class) == 1 else list(merge(*by_class, key=lambda row: (row[1], row[0])))

        return rows.peeked(await self._store.read(peek, hot=True))

    async def claim(self, worker_id: WorkerId, run_ids: Sequence[RunId], now: Instant) -> list[Claimed]:
        asked = {run_id.bytes: run_id for run_id in run_ids}
        found = await self._store.write(lambda db: _claim(db, worker_id.bytes, list(asked), now))
        return [rows.claimed(row, asked) for row in found]

    async def held_by(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> dict[RunId, int]:
        asked = {run_id.bytes: run_id for run_id in run_ids}

        def look(db: Connection) -> list[tuple[bytes, int, int | None]]:
            return _held(db, worker_id.bytes, list(asked)) if _is_known(db, worker_id.bytes) else []

        return {asked[run_id]: token for run_id, token, *_ in await self._store.read(look, hot=True)}

    async def settle(self, worker_id: WorkerId, settlements: Sequence[Settlement], now: Instant) -> Settled:
        expected = _Outcome(worker_id.bytes, settlements)
        return await self._store.write(lambda db: self._settle(db, expected))

    async def hand_back(self, worker_id: WorkerId, runs: Sequence[Claimed], now: Instant) -> frozenset[RunId]:
        back = [
            Settlement(
                run=run,
                state=State.WAITING,
                ended_at=now,
                due=run.due,
                failures=run.failures,
                losses=run.losses,
                attempts=run.attempts,
            )
            for run in runs
        ]
        expected = _Outcome(worker_id.bytes, back, again_counts_as=None)
        answer = await self._store.write(lambda db: self._settle(db, expected))
        return frozenset(run.run_id for run in runs) - answer.lost

    async def cancel(self, uid: UserNumber | None, run_id: RunId, now: Instant) -> Cancelled | None:
        return await self._store.write(partial(_cancel, self._pieces, uid, run_id, now))

    async def save(
        self, worker_id: WorkerId, run: Claimed, *, progress: bytes | None = None, checkpoint: bytes | None = None
    ) -> bool:
        given = (run.run_id.bytes, run.token, worker_id.bytes, progress, checkpoint)
        return await self._store.write(lambda db: bool(fetch(db, _SQL["save"], given)))

    async def reap(
        self, limit: int, now: Instant, decide: Callable[[Claimed, WorkerId, Instant], Settlement]
    ) -> Settled:
        def reap(db: Connection) -> Settled:
            by_worker: dict[bytes, list[Settlement]] = defaultdict(list)
            for *row, worker_id, claimed_at in fetch(db, _SQL["orphans"], (limit,)):
                run = rows.claimed(tuple(row), {row[0]: RunId(UUID(bytes=row[0]))})
                by_worker[worker_id].append(decide(run, WorkerId(UUID(bytes=worker_id)), claimed_at))
            cancelled: set[RunId] = set()
            for worker_id, decided in by_worker.items():
                expected = _Outcome(worker_id, decided, again_counts_as=Count.LOST)
                cancelled |= self._settle(db, expected, buried=True).cancelled
            return Settled(cancelled=frozenset(cancelled))

        return await self._store.write(reap)

    def _settle(self, db: Connection, expected: _Outcome, *, buried: bool = False) -> Settled:
        settlements = expected.settlements
        if not settlements:
            return Settled()
        if not buried and not _is_known(db, expected.worker_id):
            return Settled(lost=frozenset(settled.run.run_id for settled in settlements))
        outcome = expected if _as_expected(db, expected) else expected.corrected(db)
        self._write(db, outcome)
        return Settled(
            lost=frozenset(RunId(UUID(bytes=run_id)) for run_id in outcome.lost),
            cancelled=frozenset(RunId(UUID(bytes=run_id)) for run_id in outcome.cancelled),
        )

    def _write(self, db: Connection, outcome: _Outcome) -> None:
        self._pieces.insert(db, outcome.ended)
        insert_many(db, "dead", rows.HISTORY, outcome.dead)
        db.executemany(_SQL["retry"], outcome.again)
        delete_many(db, "running", outcome.run_ids)
        delete_many(db, "runs", outcome.run_ids[: len(outcome.ended)])
        count(db, outcome.tally)
        tend(db, outcome.touched)


class _Outcome:
    """What a batch of settlements comes to, worked out before the writer's turn for the case that nobody interfered."""

    def __init__(
        self,
        worker_id: bytes,
        settlements: Sequence[Settlement],
        *,
        again_counts_as: Count | None = Count.RETRIED,
        lost: Collection[bytes] = NOBODY,
        cancelled: Collection[bytes] = NOBODY,
    ) -> None:
        self.worker_id = worker_id
        self.settlements = settlements
        self.lost = lost
        self.cancelled = cancelled
        self.ended: list[tuple[Any, ...]] = []
        self.dead: list[tuple[Any, ...]] = []
        self.again: list[tuple[Any, ...]] = []
        self.tally: Counted = Tally()
        self.touched = Touched()
        self._again_counts_as = again_counts_as
        for settled in settlements:
            self._add(settled)
        self.run_ids: list[bytes] = [row[0] for row in self.ended] + [row[-1] for row in self.again]

    def _add(self, settled: Settlement) -> None:
        run, state = settled.run, settled.state
        if self.lost and run.run_id.bytes in self.lost:
            return
        if self.cancelled and run.run_id.bytes in self.cancelled:
            state = State.CANCELLED
        if state is State.WAITING:
            self.again.append(_again(settled))
        else:
            self.ended.append(rows.ended(settled, state, self.worker_id))
        if state is State.DEAD:
            self.dead.append(rows.ended(settled, state, self.worker_id, whole=True))
        if (what := _COUNT.get(state, self._again_counts_as)) is not None:
            self.tally[run.uid, run.class_id, what] += 1
        if run.lane is not None or run.gate is not None:
            self.touched.free(run.lane, run.gate)

    def corrected(self, db: Connection) -> _Outcome:
        """The same batch after a look at who is held with which token, and who is to be cancelled."""
        asked = {settled.run.run_id.bytes: settled.run.token for settled in self.settlements}
        held = {run_id: rest for run_id, *rest in _held(db, self.worker_id, list(asked))}
        lost = {run_id for run_id, token in asked.items() if run_id not in held or held[run_id][0] != token}
        cancelled = {run_id for run_id, (_, cancel_at) in held.items() if cancel_at is not None} - lost
        return _Outcome(
            self.worker_id,
            list({settled.run.run_id: settled for settled in self.settlements}.values()),
            again_counts_as=self._again_counts_as,
            lost=lost,
            cancelled=cancelled,
        )


def _again(settled: Settlement) -> tuple[Any, ...]:
    run = settled.run
    return (
        settled.due,
        run.token,
        settled.failures,
        settled.losses,
        settled.attempts,
        Held.PAUSED.value,
        rows.STATUS_NUMBER[JobStatus.PAUSED],
        run.run_id.bytes,
    )


def _claim(db: Connection, worker_id: bytes, run_ids: list[bytes], now: Instant) -> list[rows.Row]:
    if not run_ids or not _is_known(db, worker_id):
        return []
    found = fetch(db, _SQL["claim"], (rows.blobs(run_ids), now))
    by_token: dict[int, list[bytes]] = defaultdict(list)
    for row in found:
        by_token[row[1]].append(row[0])
    for token, some in by_token.items():
        db.execute(_SQL["hold_for"], (rows.blobs(some), token, worker_id, now))
    return found


def _is_known(db: Connection, worker_id: bytes) -> bool:
    """A worker that was buried gets nothing and settles nothing, even if it has not noticed."""
    return first(db, "select 1 from workers where worker_id = ?", (worker_id,)) is not None


def _held(db: Connection, worker_id: bytes, run_ids: list[bytes]) -> list[tuple[bytes, int, int | None]]:
    return fetch(db, _SQL["held_by"], (rows.blobs(run_ids), worker_id)) if run_ids else []


def _as_expected(db: Connection, expected: _Outcome) -> bool:
    """Whether all are held with their tokens, none twice, and none is to be cancelled: as nearly always."""
    settlements = expected.settlements
    token = settlements[0].run.token
    run_ids = set(expected.run_ids)
    found = first(db, _SQL["count_held"], (rows.blobs(run_ids), token, expected.worker_id))
    return found is not None and found[0] == len(settlements)


def _cancel(pieces: Pieces, uid: UserNumber | None, run_id: RunId, now: Instant, db: Connection) -> Cancelled | None:
    row = first(db, "select uid, state from live_runs where run_id = ?", (run_id.bytes,))
    row = row or find_ended(db, run_id, "select uid, state from {table} where run_id = ?")
    if row is None or (uid is not None and row[0] != uid):
        return None
    state = State(row[1])
    if state.final:
        return Cancelled(final=state)
    if state is State.RUNNING:
        return Cancelled(told=ask_to_stop(db, [run_id.bytes], now))
    return Cancelled(stopped=end_waiting(db, pieces, [run_id.bytes], State.CANCELLED, now))


def ask_to_stop(db: Connection, run_ids: list[bytes], now: Instant) -> tuple[tuple[RunId, WorkerId], ...]:
    told = [first(db, _SQL["ask_to_stop"], (now, run_id)) for run_id in run_ids]
    return tuple((RunId(UUID(bytes=row[0])), WorkerId(UUID(bytes=row[1]))) for row in told if row is not None)


def end_waiting(db: Connection, pieces: Pieces, run_ids: list[bytes], state: State, now: Instant) -> tuple[RunId, ...]:
    """Waiting runs that will never start, into history; their places go to others."""
    if not run_ids:
        return ()
    piece, touched, tally = pieces.ensure(db, now), Touched(), Counted()
    for uid, class_id, lane, gate in fetch(db, _SQL["members"], (rows.blobs(run_ids),)):
        tally[uid, class_id, _COUNT[state]] += 1
        touched.free(lane, gate)
    db.execute(_SQL["end_waiting"].format(piece=piece), (rows.blobs(run_ids), int(state), now))
    delete_many(db, "runs", run_ids)
    count(db, tally)
    tend(db, touched)
    return tuple(RunId(UUID(bytes=run_id)) for run_id in run_ids)
