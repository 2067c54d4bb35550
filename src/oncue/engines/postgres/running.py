"""The hot path: peek ahead, claim on the instant, settle in batches."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from asyncpg import Record

from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import JobStatus
from oncue.domain.lane import Held
from oncue.domain.run import Claimed, Peeked, Settled, Settlement, State
from oncue.engines.port import Cancelled, Count
from oncue.engines.postgres import lanes, rows
from oncue.engines.postgres.counting import Counted, count
from oncue.engines.postgres.inserting import copy
from oncue.engines.postgres.pieces import Pieces
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
_COUNT = {
    State.SUCCEEDED: Count.SUCCEEDED,
    State.DEAD: Count.DEAD,
    State.CANCELLED: Count.CANCELLED,
    State.EXPIRED: Count.EXPIRED,
}


class PostgresRunning:
    def __init__(self, store: Store, pieces: Pieces) -> None:
        self._store = store
        self._pieces = pieces

    async def peek(self, classes: Sequence[ClassId], after: Instant, until: Instant, limit: int) -> list[Peeked]:
        return rows.peeked(await self._store.fetch(_SQL["peek"], classes, after, until, limit, hot=True))

    async def claim(self, worker_id: WorkerId, run_ids: Sequence[RunId], now: Instant) -> list[Claimed]:
        # One statement is a transaction of its own: nothing to begin, nothing to commit.
        found = await self._store.fetch(_SQL["claim"], run_ids, worker_id, now, hot=True)
        return [rows.claimed(row) for row in found]

    async def held_by(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> dict[RunId, int]:
        found = await self._store.fetch(_SQL["held_by"], run_ids, worker_id, hot=True)
        return {row["run_id"]: row["token"] for row in found}

    async def settle(self, worker_id: WorkerId, settlements: Sequence[Settlement], now: Instant) -> Settled:
        await self._pieces.ensure("history", [settled.ended_at for settled in settlements])
        return await self._store.write(lambda c: _settle(c, worker_id, settlements), hot=True)

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
        await self._pieces.ensure("history", [now])
        answer = await self._store.write(lambda c: _settle(c, worker_id, back, again_counts_as=None), hot=True)
        return frozenset(run.run_id for run in runs) - answer.lost

    async def cancel(self, uid: UserNumber | None, run_id: RunId, now: Instant) -> Cancelled | None:
        await self._pieces.ensure("history", [now])
        while True:
            found = await self._store.fetch(_SQL["find_run"], run_id)
            if not found or (uid is not None and found[0]["uid"] != uid):
                return None
            where = found[-1]
            if State(where["state"]).final:
                return Cancelled(final=State(where["state"]))
            answer = await self._store.write(partial(_cancel, run_id=run_id, where=where, now=now))
            if answer.stopped or answer.told:
                return answer  # else it moved between the two looks: look again

    async def save(
        self, worker_id: WorkerId, run: Claimed, *, progress: bytes | None = None, checkpoint: bytes | None = None
    ) -> bool:
        found = await self._store.fetch(_SQL["save"], run.run_id, worker_id, run.token, progress, checkpoint, hot=True)
        return bool(found)

    async def reap(
        self, limit: int, now: Instant, decide: Callable[[Claimed, WorkerId, Instant], Settlement]
    ) -> Settled:
        await self._pieces.ensure("history", [now])

        async def reap(connection: Connection) -> Settled:
            by_worker: dict[WorkerId, list[Settlement]] = defaultdict(list)
            for row in await connection.fetch(_SQL["orphans"], limit):
                worker_id, claimed_at = row["worker_id"], row["claimed_at"]
                by_worker[worker_id].append(decide(rows.claimed(tuple(row)[:-2]), worker_id, claimed_at))
            cancelled: set[RunId] = set()
            for worker_id, decided in by_worker.items():
                answer = await _settle(
                    connection, worker_id, decided, fence=_SQL["settle_orphans"], again_counts_as=Count.LOST
                )
                cancelled |= answer.cancelled
            return Settled(cancelled=frozenset(cancelled))

        return await self._store.write(reap)


async def _settle(
    connection: Connection,
    worker_id: WorkerId,
    settlements: Sequence[Settlement],
    *,
    fence: str = _SQL["settle"],
    again_counts_as: Count | None = Count.RETRIED,
) -> Settled:
    paused = await _paused_jobs(connection, settlements)
    held = await _take_from_running(connection, fence, worker_id, settlements)
    tally: Counted = Tally()
    touched = lanes.Touched()
    again, ended, dead, cancelled = [], [], [], set()
    for settled in settlements:
        run = settled.run
        row = held.get(run.run_id)
        if row is None:
            continue
        state = settled.state
        if row["cancel_at"] is not None:
            state = State.CANCELLED
            cancelled.add(run.run_id)
        if state is State.WAITING:
            again.append(rows.retried(settled, row["checkpoint"], Held.PAUSED if run.job_id in paused else Held.NO))
        else:
            ended.append(rows.ended(settled, state, worker_id))
        if state is State.DEAD:
            dead.append(rows.ended(settled, state, worker_id, whole=True))
        if (what := _COUNT.get(state, again_counts_as)) is not None:
            tally[run.uid, run.class_id, what] += 1
        if run.lane is not None or run.gate is not None:
            touched.free(run.lane, run.gate)
    await copy(connection, "history", rows.HISTORY, ended)
    await copy(connection, "waiting", rows.WAITING, again)
    await copy(connection, "dead", rows.HISTORY, dead)
    await count(connection, tally)
    await lanes.tend(connection, touched)
    return Settled(
        lost=frozenset(s.run.run_id for s in settlements if s.run.run_id not in held), cancelled=frozenset(cancelled)
    )


async def _paused_jobs(connection: Connection, settlements: Iterable[Settlement]) -> set[JobId]:
    """Jobs that are paused, of runs that will wait again. Locked, so that a pause sees these runs or they see it."""
    jobs = {s.run.job_id for s in settlements if s.state is State.WAITING and not s.run.inline}
    if not jobs:
        return set()
    found = await connection.fetch(_SQL["job_statuses"], sorted(jobs))
    return {row["job_id"] for row in found if row["status"] == rows.STATUS_NUMBER[JobStatus.PAUSED]}


async def _take_from_running(
    connection: Connection, fence: str, worker_id: WorkerId, settlements: Iterable[Settlement]
) -> dict[RunId, Record]:
    """The fence: only what is still held with that token comes back. A batch nearly always has one token."""
    by_token: dict[int, list[RunId]] = defaultdict(list)
    for settled in settlements:
        by_token[settled.run.token].append(settled.run.run_id)
    held: dict[RunId, Record] = {}
    for token, run_ids in sorted(by_token.items()):
        for row in await connection.fetch(fence, run_ids, worker_id, token):
            held[row["run_id"]] = row
    return held


async def _cancel(connection: Connection, run_id: RunId, where: Record, now: Instant) -> Cancelled:
    if where["state"] == State.RUNNING:
        told = await connection.fetch(_SQL["cancel_running"], [run_id], now)
        return Cancelled(told=tuple((row["run_id"], row["worker_id"]) for row in told))
    touched = lanes.Touched()
    touched.free(where["lane"], where["gate"])
    return Cancelled(stopped=await end_waiting(connection, [run_id], touched, State.CANCELLED, now))


async def end_waiting(
    connection: Connection, run_ids: Sequence[RunId], touched: lanes.Touched, state: State, now: Instant
) -> tuple[RunId, ...]:
    """Waiting runs that will never start. Their lanes are locked before their rows: see lanes.py."""
    await lanes.lock(connection, touched)
    gone = await connection.fetch(_SQL["end_waiting"], sorted(run_ids), now, state)
    await count(connection, Tally((row["uid"], row["class_id"], _COUNT[state]) for row in gone))
    await lanes.tend(connection, touched)
    return tuple(row["run_id"] for row in gone)
