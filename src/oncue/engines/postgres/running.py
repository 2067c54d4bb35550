"""The hot path: peek ahead, claim at the due instant, settle in batches."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from asyncpg import Record

from oncue.domain.attempt import handed_back
from oncue.domain.error_groups import failures_of
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import JobStatus
from oncue.domain.lane import Held
from oncue.domain.run import Claimed, Gathered, Holding, Peeked, Settled, Settlement, State
from oncue.engines.error_rows import APPENDED, appended
from oncue.engines.port import Cancelled, Count, FairRuns
from oncue.engines.postgres import lanes, rows
from oncue.engines.postgres.counting import count, count_attempts
from oncue.engines.postgres.inserting import copy
from oncue.engines.postgres.notices import tell
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.store import Connection, Fetch, Store
from oncue.engines.series import LAG_UNDER, RUN_UNDER, minute_of
from oncue.engines.sql import statements
from oncue.engines.stored import STATUS_NUMBER
from oncue.engines.telling import telling

_SQL = statements("oncue.engines.postgres")
_COUNT = {
    State.SUCCEEDED: Count.SUCCEEDED,
    State.DEAD: Count.DEAD,
    State.CANCELLED: Count.CANCELLED,
    State.EXPIRED: Count.EXPIRED,
}
FEW_CLASSES = 200  # peeking into this many classes is as fast as finding out which of them have waiting runs
MOST_STEPS = 1_000  # from one class with waiting runs to the next: a few milliseconds
FAIR_USERS = 1_000  # users that one fair peek checks one by one, with due runs or without
ALIVE = "and exists (select from workers where worker_id = $1 for key share)"


class PostgresRunning:
    def __init__(self, store: Store, pieces: Partitions) -> None:
        self._store = store
        self._pieces = pieces

    async def peek(self, classes: Sequence[ClassId], after: Instant, until: Instant, limit: int) -> list[Peeked]:
        classes = await self._worth_a_look(classes)
        return rows.peeked(await self._store.fetch(_SQL["peek"], classes, after, until, limit, hot=True))

    async def peek_fair(
        self, classes: Sequence[ClassId], after: UserNumber, users: int, each: int, now: Instant
    ) -> FairRuns:
        classes = await self._worth_a_look(classes)
        found = await self._store.fetch(_SQL["peek_fair"], classes, after, users, each, now, FAIR_USERS, hot=True)
        asked = len({row["uid"] for row in found})
        return FairRuns(
            rows.peeked(row for row in found if row["run_id"] is not None),
            found[-1]["uid"] if asked == FAIR_USERS else None,
        )

    async def _worth_a_look(self, classes: Sequence[ClassId]) -> Sequence[ClassId]:
        """Return, of many classes, those with waiting runs; all, if many have them: finding such a class takes longer
        than peeking into a given one.
        """
        if len(classes) <= FEW_CLASSES:
            return classes
        steps = min(len(classes) // 8, MOST_STEPS)
        busy = await self._store.fetch(_SQL["busy_classes"], steps, hot=True)
        if len(busy) == steps:
            return classes
        asked = [*sorted(classes), NEVER]
        return [class_id for (class_id,) in busy if asked[bisect_left(asked, class_id)] == class_id]

    async def claim(
        self, worker_id: WorkerId, run_ids: Sequence[RunId], now: Instant, until: Instant = NEVER
    ) -> list[Claimed]:
        found = await self._store.fetch(_SQL["claim"], run_ids, worker_id, now, until, hot=True)
        return await claimed_runs(found, partial(self._store.fetch, hot=True))

    async def held_by(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        found = await self._store.fetch(_SQL["held_by"], run_ids, worker_id, hot=True)
        return await claimed_runs(found, partial(self._store.fetch, hot=True))

    async def holdings(self, worker_id: WorkerId) -> list[Holding]:
        return [Holding(*row) for row in await self._store.fetch(_SQL["holdings"], worker_id, hot=True)]

    async def settle(self, worker_id: WorkerId, settlements: Sequence[Settlement], now: Instant) -> Settled:
        ends = [settled.ended_at for settled in settlements]
        if not _ends_by_itself(settlements):
            return await self._pieces.write(
                "history", ends, lambda c: _settle(c, worker_id, settlements, now), hot=True
            )
        fetch = partial(self._store.fetch, hot=True)
        ended = await self._pieces.fitting("history", ends, lambda: _end(fetch, worker_id, settlements, ALIVE, now))
        return Settled(_lost(settlements, ended), _cancelled(ended))

    async def gather(
        self,
        worker_id: WorkerId,
        run: Claimed,
        limit: int,
        now: Instant,
        decide: Callable[[Sequence[Claimed]], Gathered],
    ) -> bytes | None:
        async def gather(connection: Connection) -> bytes | None:
            found = await connection.fetch(_SQL["gather"], run.run_id, worker_id, run.token, now, limit)
            if not found:
                return None
            taken = decide(await claimed_runs(found, connection.fetch))
            await _settle(connection, worker_id, taken.others, now)
            fence = (run.run_id, worker_id, run.token)
            await connection.fetch(_SQL["save"], *fence, None, taken.checkpoint, taken.payload)
            return taken.payload

        return await self._pieces.write("history", [now], gather, hot=True)

    async def hand_back(self, worker_id: WorkerId, runs: Sequence[Claimed], now: Instant) -> frozenset[RunId]:
        back = [handed_back(run, now) for run in runs]
        give_back = partial(_settle, worker_id=worker_id, settlements=back, now=now, again_counts_as=None)
        answer = await self._pieces.write("history", [now], give_back, hot=True)
        return frozenset(run.run_id for run in runs) - answer.lost

    async def cancel(self, uid: UserNumber | None, run_id: RunId, now: Instant) -> Cancelled | None:
        while True:
            found = await self._store.fetch(_SQL["find_run"], run_id)
            if not found or (uid is not None and found[0]["uid"] != uid):
                return None
            where = found[-1]
            if State(where["state"]).final:
                return Cancelled(final=State(where["state"]))
            cancel = partial(_cancel, run_id=run_id, where=where, now=now)
            answer = await self._pieces.write("history", [now], cancel)
            if answer.stopped or answer.told:
                return answer  # otherwise the run changed state between the two reads: read again

    async def save(
        self,
        worker_id: WorkerId,
        run: Claimed,
        *,
        progress: bytes | None = None,
        checkpoint: bytes | None = None,
        payload: bytes | None = None,
    ) -> bool:
        given = (run.run_id, worker_id, run.token, progress, checkpoint, payload)
        return bool(await self._store.fetch(_SQL["save"], *given, hot=True))

    async def recover_runs(
        self, limit: int, now: Instant, decide: Callable[[Claimed, WorkerId, Instant], Settlement]
    ) -> Settled:
        async def recover_runs(connection: Connection) -> Settled:
            found = await _take_orphans(connection, limit)
            runs = await claimed_runs([tuple(row)[:-1] for row in found], connection.fetch)
            by_worker: dict[WorkerId, list[Settlement]] = defaultdict(list)
            for run, row in zip(runs, found, strict=True):
                by_worker[row["worker_id"]].append(decide(run, row["worker_id"], row["claimed_at"]))
            cancelled: set[RunId] = set()
            told: list[Settlement] = []
            touched = lanes.TouchedLanes(now)
            for worker_id, decided in by_worker.items():
                answer = await _write(connection, worker_id, decided, touched, alive="", again_counts_as=Count.LOST)
                cancelled |= answer.cancelled
                told += telling(decided, answer.lost | answer.cancelled)
            inserted = await tell(connection, told, touched)
            await lanes.tend(connection, touched)
            return Settled(cancelled=frozenset(cancelled), notices=inserted.notices, dropped=inserted.dropped)

        return await self._pieces.write("history", [now], recover_runs)


async def claimed_runs(found: Sequence[Iterable[Any]], fetch: Fetch) -> list[Claimed]:
    """Return runs as their worker gets them: those of recurring jobs with the definition they were planned under."""
    runs = [rows.claimed(row) for row in found]
    apart = {(run.job_id, run.job_version) for run in runs if not run.inline}
    if not apart:
        return runs
    job_ids, versions = zip(*apart, strict=True)
    by_version = {(row["job_id"], row["version"]): row for row in await fetch(_SQL["definitions"], job_ids, versions)}
    return [run if run.inline else _with_definition(run, by_version.get((run.job_id, run.job_version))) for run in runs]


def _with_definition(run: Claimed, row: Record | None) -> Claimed:
    if row is None:
        return run  # it cannot be started; its worker finds out, and the other runs start
    return msgspec.structs.replace(run, spec=row["spec"], payload=row["payload"])


def _ends_by_itself(settlements: Sequence[Settlement]) -> bool:
    """Return whether one statement suffices: outcomes are alike, and concern only history and counters."""
    first = settlements[0] if settlements else None
    if first is None or first.state in (State.WAITING, State.DEAD):
        return False
    alike = (first.state, first.run.token, None, None, None)
    return all((s.state, s.run.token, s.run.lane, s.run.gate, s.notices) == alike for s in settlements)


async def _settle(
    connection: Connection,
    worker_id: WorkerId,
    settlements: Sequence[Settlement],
    now: Instant,
    again_counts_as: Count | None = Count.RETRIED,
) -> Settled:
    touched = lanes.TouchedLanes(now)
    settled = await _write(connection, worker_id, settlements, touched, alive=ALIVE, again_counts_as=again_counts_as)
    told = telling(settlements, settled.lost | settled.cancelled)
    inserted = await tell(connection, told, touched)
    await lanes.tend(connection, touched)
    return Settled(settled.lost, settled.cancelled, inserted.notices, inserted.dropped) if told else settled


async def _write(
    connection: Connection,
    worker_id: WorkerId,
    settlements: Sequence[Settlement],
    touched: lanes.TouchedLanes,
    *,
    alive: str,
    again_counts_as: Count | None,
) -> Settled:
    """Write first the retries, then the ends: also those of retries that were cancelled meanwhile.

    A run that was returned to the queue counts as nothing, and so keeps the start that its rate granted. The caller
    tends the lanes once, after all that the transaction settles; otherwise it would lock them in no order.
    """
    now = touched.now
    again = [settled for settled in settlements if settled.state is State.WAITING]
    rate = Held.NO if again_counts_as is None else Held.RATE
    back = await _try_again(connection, worker_id, again, alive, rate, touched) if again else set()
    left = [settled for settled in settlements if settled.run.run_id not in back] if back else settlements
    ended = await _end(connection.fetch, worker_id, left, alive, now)
    lost, cancelled = _lost(left, ended), _cancelled(ended)
    dead = []
    for settled in settlements:
        run = settled.run
        if run.run_id in lost:
            continue
        if run.lane is not None or run.gate is not None:
            touched.free(run.lane, run.gate)
        if settled.state is State.DEAD and run.run_id not in cancelled:
            dead.append(rows.dead(settled, worker_id))
    await copy(connection, "dead", rows.DEAD, dead)
    if again or dead:
        gone = lost | cancelled
        failures = failures_of(settled for settled in settlements if settled.run.run_id not in gone)
        await copy(connection, "error_counts", APPENDED, list(map(appended, failures)))
    if again_counts_as is not None:
        attempts = [settled for settled in again if settled.run.run_id in back]
        if again_counts_as is Count.LOST:  # when it began is not known
            await count(connection, Tally((s.run.uid, s.run.class_id, Count.LOST) for s in attempts), now)
        else:
            await count_attempts(connection, attempts, again_counts_as, now)
    return Settled(lost, cancelled)


async def _end(
    fetch: Fetch, worker_id: WorkerId, settlements: Sequence[Settlement], alive: str, now: Instant
) -> dict[RunId, bool]:
    """Move runs that were still held to history and count them; return them, True: as cancelled.

    A retry comes here only if it is cancelled. Attempts of workers that were lost are not measured.
    """
    counting = (minute_of(now), LAG_UNDER, RUN_UNDER) if alive else (minute_of(now), None, None)
    ended: dict[RunId, bool] = {}
    statement = _SQL["settle_final"].format(alive=alive)
    for (token, state), group in _alike(settlements):
        what = _COUNT.get(state, Count.CANCELLED)
        ended.update(map(tuple, await fetch(statement, worker_id, token, state, *rows.final(group), what, *counting)))
    return ended


def _lost(settlements: Sequence[Settlement], ended: Mapping[RunId, bool]) -> frozenset[RunId]:
    if len(ended) == len(settlements):
        return frozenset()
    return frozenset(settled.run.run_id for settled in settlements) - ended.keys()


def _cancelled(ended: Mapping[RunId, bool]) -> frozenset[RunId]:
    return frozenset(run_id for run_id, was_cancelled in ended.items() if was_cancelled)


async def _try_again(
    connection: Connection,
    worker_id: WorkerId,
    settlements: Sequence[Settlement],
    alive: str,
    rate: Held,
    touched: lanes.TouchedLanes,
) -> set[RunId]:
    """Make runs that were still held wait again; return them."""
    paused = await _paused_jobs(connection, settlements)
    back: set[RunId] = set()
    statement = _SQL["settle_again"].format(alive=alive)
    for (token, _), group in _alike(settlements):
        ended_at = [settled.ended_at for settled in group]
        given = (*rows.again(group, paused), rate.value, ended_at)
        for row in await connection.fetch(statement, worker_id, token, *given):
            back.add(row["run_id"])
            touched.wait_for_rate(row["meter"], row["held"], row["due"])
    return back


async def _take_orphans(connection: Connection, limit: int) -> list[Record]:
    """Lock orphaned runs after their definitions, in the order of a cancel."""
    seen = await connection.fetch(_SQL["orphans"], limit)
    if not seen:
        return []
    await connection.fetch(_SQL["job_statuses"], sorted({row["job_id"] for row in seen}))
    return await connection.fetch(_SQL["take_orphans"], [row["run_id"] for row in seen])


def _alike(settlements: Iterable[Settlement]) -> Iterable[tuple[tuple[int, State], list[Settlement]]]:
    """Group by token and state: nearly always one group, and a scalar is free where an array costs by the element.

    Each group is sorted by run, as the statements require.
    """
    groups: dict[tuple[int, State], list[Settlement]] = defaultdict(list)
    for settled in sorted(settlements, key=lambda settled: settled.run.run_id):
        groups[settled.run.token, settled.state].append(settled)
    return groups.items()


async def _paused_jobs(connection: Connection, settlements: Iterable[Settlement]) -> set[JobId]:
    """Return and lock the paused jobs of runs that will wait again, so that a pause sees these runs or they see it."""
    jobs = {settled.run.job_id for settled in settlements if not settled.run.inline}
    if not jobs:
        return set()
    found = await connection.fetch(_SQL["job_statuses"], sorted(jobs))
    return {row["job_id"] for row in found if row["status"] == STATUS_NUMBER[JobStatus.PAUSED]}


async def _cancel(connection: Connection, run_id: RunId, where: Record, now: Instant) -> Cancelled:
    if where["state"] == State.RUNNING:
        told = await connection.fetch(_SQL["cancel_running"], [run_id], now)
        return Cancelled(told=tuple((row["run_id"], row["worker_id"]) for row in told))
    touched = lanes.TouchedLanes(now)
    touched.free(where["lane"], where["gate"])
    return Cancelled(stopped=await end_waiting(connection, [run_id], touched, State.CANCELLED, now))


async def end_waiting(
    connection: Connection,
    run_ids: Sequence[RunId],
    touched: lanes.TouchedLanes,
    state: State,
    now: Instant,
    decided: Sequence[Settlement] = (),
) -> tuple[RunId, ...]:
    """End waiting runs that will never start. Locks their lanes before their rows: see lanes.py.

    A run that an edit has moved to another lane since it was read leaves that lane. `decided`: what is told of them.
    """
    await lanes.lock(connection, touched, leaving=len(run_ids))
    gone = await connection.fetch(_SQL["end_waiting"], sorted(run_ids), now, state)
    await count(connection, Tally((row["uid"], row["class_id"], _COUNT[state]) for row in gone), now)
    for row in gone:
        touched.free(row["lane"], row["gate"])
    ended = tuple(row["run_id"] for row in gone)
    await tell(connection, [one for one in telling(decided) if one.run.run_id in ended], touched)
    await lanes.tend(connection, touched)
    return ended
