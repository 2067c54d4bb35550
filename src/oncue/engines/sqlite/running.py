"""The hot path: peek ahead, claim at the due instant, settle in batches."""

from __future__ import annotations

from array import array
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import Any
from uuid import UUID

import apsw
import msgspec

from oncue.domain.attempt import handed_back
from oncue.domain.error_groups import failures_of
from oncue.domain.ids import ClassId, RunId, UserNumber, WorkerId
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import JobStatus
from oncue.domain.lane import Held
from oncue.domain.run import Claimed, Gathered, Holding, Peeked, Settled, Settlement, State
from oncue.engines.error_rows import APPENDED, appended
from oncue.engines.port import Cancelled, Count, FairRuns
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.classes import worth_a_look
from oncue.engines.sqlite.counting import Counted, append, count, measured
from oncue.engines.sqlite.inserting import delete_many, insert_many
from oncue.engines.sqlite.lanes import tend
from oncue.engines.sqlite.notices import tell
from oncue.engines.sqlite.partitions import Partitions, find_ended
from oncue.engines.sqlite.store import Connection, Store, fetch, first
from oncue.engines.stored import STATUS_NUMBER
from oncue.engines.telling import NOTHING_TOLD, telling
from oncue.engines.touched import TouchedLanes

_SQL = statements("oncue.engines.sqlite")
_COUNT = {
    State.SUCCEEDED: Count.SUCCEEDED,
    State.DEAD: Count.DEAD,
    State.CANCELLED: Count.CANCELLED,
    State.EXPIRED: Count.EXPIRED,
}
LATE_READ_AT_ONCE = 2_000  # late runs of a class: up to this many are read in a few milliseconds
FEW_CLASSES = 20  # peeking into this many classes is as fast as finding out which of them have waiting runs
FAIR_USERS = 1_000  # users that one fair peek checks one by one, with due runs or without
LONG_AGO = Instant(0)
_TOKEN = rows.HISTORY.index("token")


class SqliteRunning:
    def __init__(self, store: Store, pieces: Partitions) -> None:
        self._store = store
        self._pieces = pieces

    async def peek(self, classes: Sequence[ClassId], after: Instant, until: Instant, limit: int) -> list[Peeked]:
        def peek(db: Connection) -> list[rows.Row]:
            some = classes if len(classes) <= FEW_CLASSES else worth_a_look(db, classes, after, until)
            by_class = [fetch(db, _SQL["peek"], (class_id, after, until, limit)) for class_id in some]
            return by_class[0] if len(by_class) == 1 else list(merge(*by_class, key=lambda row: (row[1], row[0])))

        return rows.peeked(await self._store.read(peek, hot=True))

    async def peek_fair(
        self, classes: Sequence[ClassId], after: UserNumber, users: int, each: int, now: Instant
    ) -> FairRuns:
        if not classes:
            return FairRuns([])
        look = partial(_peek_fair, classes, after, users, each, now)
        found, reached = await self._store.read(look, hot=True)
        return FairRuns(rows.peeked(found), reached)

    async def claim(
        self, worker_id: WorkerId, run_ids: Sequence[RunId], now: Instant, until: Instant = NEVER
    ) -> list[Claimed]:
        asked = {run_id.bytes: run_id for run_id in run_ids}
        found = await self._store.write(lambda db: _claim(db, worker_id.bytes, list(asked), now, until))
        return rows.claimed(found, asked)

    async def held_by(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        asked = {run_id.bytes: run_id for run_id in run_ids}
        if not asked:
            return []
        given = (rows.blobs(asked), worker_id.bytes)
        found = await self._store.read(lambda db: fetch(db, _SQL["held_by"], given), hot=True)
        return rows.claimed(found, asked)

    async def holdings(self, worker_id: WorkerId) -> list[Holding]:
        found = await self._store.read(lambda db: fetch(db, _SQL["holdings"], (worker_id.bytes,)), hot=True)
        return [Holding(RunId(UUID(bytes=run_id)), token, claimed_at) for run_id, token, claimed_at in found]

    async def settle(self, worker_id: WorkerId, settlements: Sequence[Settlement], now: Instant) -> Settled:
        return await self._settle(_Outcome(worker_id.bytes, settlements, now))

    async def gather(
        self,
        worker_id: WorkerId,
        run: Claimed,
        limit: int,
        now: Instant,
        decide: Callable[[Sequence[Claimed]], Gathered],
    ) -> bytes | None:
        def gather(db: Connection) -> bytes | None:
            if not _may_claim(db, worker_id.bytes, NEVER):
                return None
            given = (run.run_id.bytes, worker_id.bytes, run.token, now, limit)
            free = [run_id for (run_id,) in fetch(db, _SQL["gather"], given)]
            found = _claim(db, worker_id.bytes, free, now, NEVER)
            if not found:
                return None
            taken = decide(rows.claimed(found, {row[0]: RunId(UUID(bytes=row[0])) for row in found}))
            self._write(db, _Outcome(worker_id.bytes, taken.others, now))
            _save(db, worker_id, run, None, taken.checkpoint, taken.payload)
            return taken.payload

        return await self._store.write(gather)

    async def hand_back(self, worker_id: WorkerId, runs: Sequence[Claimed], now: Instant) -> frozenset[RunId]:
        back = [handed_back(run, now) for run in runs]
        answer = await self._settle(_Outcome(worker_id.bytes, back, now, again_counts_as=None))
        return frozenset(run.run_id for run in runs) - answer.lost

    async def cancel(self, uid: UserNumber | None, run_id: RunId, now: Instant) -> Cancelled | None:
        return await self._store.write(partial(_cancel, self._pieces, uid, run_id, now))

    async def save(
        self,
        worker_id: WorkerId,
        run: Claimed,
        *,
        progress: bytes | None = None,
        checkpoint: bytes | None = None,
        payload: bytes | None = None,
    ) -> bool:
        return await self._store.write(lambda db: _save(db, worker_id, run, progress, checkpoint, payload))

    async def recover_runs(
        self, limit: int, now: Instant, decide: Callable[[Claimed, WorkerId, Instant], Settlement]
    ) -> Settled:
        def recover_runs(db: Connection) -> Settled:
            by_worker: dict[bytes, list[Settlement]] = defaultdict(list)
            found = fetch(db, _SQL["orphans"], (limit,))
            known = {row[0]: RunId(UUID(bytes=row[0])) for row in found}
            for run, (*_, claimed_at, _, worker_id) in zip(
                rows.claimed([r[:-1] for r in found], known), found, strict=True
            ):
                by_worker[worker_id].append(decide(run, WorkerId(UUID(bytes=worker_id)), claimed_at))
            cancelled: set[RunId] = set()
            notices = dropped = 0
            for worker_id, decided in by_worker.items():
                outcome = _Outcome(worker_id, decided, now, again_counts_as=Count.LOST).corrected(db)
                self._write(db, outcome)
                cancelled |= outcome.settled().cancelled
                notices, dropped = notices + outcome.told.notices, dropped + outcome.told.dropped
            return Settled(cancelled=frozenset(cancelled), notices=notices, dropped=dropped)

        return await self._store.write(recover_runs)

    async def _settle(self, expected: _Outcome) -> Settled:
        """Settle as if no other write interfered; otherwise roll back and settle again after reading the runs."""
        try:
            return await self._store.write(lambda db: self._settle_in_turn(db, expected))
        except _InterferedError:
            return await self._store.write(lambda db: self._settle_in_turn(db, expected.corrected(db)))

    def _settle_in_turn(self, db: Connection, outcome: _Outcome) -> Settled:
        if not _is_known(db, outcome.worker_id):
            return outcome.all_lost()
        self._write(db, outcome)
        return outcome.settled()

    def _write(self, db: Connection, outcome: _Outcome) -> None:
        touched = outcome.touched()
        for meter, held, due in db.executemany(_SQL["retry"], outcome.again):
            touched.wait_for_rate(meter, held, due)
        _pass_fence(db, outcome)
        delete_many(db, "runs", [row[0] for row in outcome.ended])
        self._pieces.insert(db, outcome.ended)
        insert_many(db, "dead", rows.DEAD, outcome.dead)
        insert_many(db, "error_counts", APPENDED, outcome.failures)
        count(db, outcome.tally(), outcome.now)
        append(db, outcome.measured, outcome.now)
        if told := telling(outcome.settlements):
            outcome.told = tell(db, told, touched)
        tend(db, touched)


class _Outcome:
    """The result of a batch of settlements, computed before the writer's turn as if no other write interfered."""

    def __init__(
        self,
        worker_id: bytes,
        settlements: Sequence[Settlement],
        now: Instant,
        *,
        again_counts_as: Count | None = Count.RETRIED,
        lost: Collection[bytes] = (),
        cancelled: Collection[bytes] | None = None,
    ) -> None:
        self.worker_id = worker_id
        self.settlements = settlements
        self.now = now
        self.lost = lost
        self.told = NOTHING_TOLD
        self.cancelled = cancelled  # None: not read
        self.again_counts_as = again_counts_as
        waiting, dead = State.WAITING, State.DEAD
        self.ended = rows.ended([settled for settled in settlements if settled.state is not waiting], worker_id)
        rate = Held.NO if again_counts_as is None else Held.RATE  # a run returned to the queue keeps its granted start
        self.again = [_again(settled, rate) for settled in settlements if settled.state is waiting]
        self.dead = rows.dead([settled for settled in settlements if settled.state is dead], worker_id)
        self.failures = list(map(appended, failures_of(settlements))) if self.again or self.dead else []
        # of attempts that were lost it is not known when they began
        self.measured = measured(settlements) if again_counts_as is Count.RETRIED else []

    def by_token(self) -> dict[int, list[bytes]]:
        by_token: dict[int, list[bytes]] = defaultdict(list)
        for row in self.ended:
            by_token[row[_TOKEN]].append(row[0])
        for row in self.again:
            by_token[row[1]].append(row[-1])
        return by_token

    def tally(self) -> Counted:
        by_state = Tally(map(itemgetter(2, 3, 4), self.ended))
        tally: Counted = Tally({(uid, class_id, _COUNT[state]): n for (uid, class_id, state), n in by_state.items()})
        if self.again_counts_as is not None:
            again = (settled.run for settled in self.settlements if settled.state is State.WAITING)
            tally.update((run.uid, run.class_id, self.again_counts_as) for run in again)
        return tally

    def touched(self) -> TouchedLanes:
        touched = TouchedLanes(self.now)
        for settled in self.settlements:
            run = settled.run
            if run.lane is not None or run.gate is not None:
                touched.free(run.lane, run.gate)
        return touched

    def settled(self) -> Settled:
        lost, cancelled = (
            frozenset(RunId(UUID(bytes=run_id)) for run_id in some or ()) for some in (self.lost, self.cancelled)
        )
        return Settled(lost, cancelled, self.told.notices, self.told.dropped)

    def all_lost(self) -> Settled:
        return Settled(lost=frozenset(settled.run.run_id for settled in self.settlements))

    def corrected(self, db: Connection) -> _Outcome:
        """Return the same batch after reading which runs are held with which token, and which have a cancel request."""
        asked = {settled.run.run_id.bytes: settled for settled in self.settlements}
        held = {run_id: rest for run_id, *rest in _fences(db, self.worker_id, list(asked))}
        mine = {run_id: s for run_id, s in asked.items() if run_id in held and held[run_id][0] == s.run.token}
        cancelled = {run_id for run_id in mine if held[run_id][1] is not None}
        for run_id in cancelled:
            mine[run_id] = msgspec.structs.replace(mine[run_id], state=State.CANCELLED)
        return _Outcome(
            self.worker_id,
            list(mine.values()),
            self.now,
            again_counts_as=self.again_counts_as,
            lost=asked.keys() - mine.keys(),
            cancelled=cancelled,
        )


class _InterferedError(Exception):
    """Not all runs were held with their tokens, or a cancel was requested: the writes are rolled back."""


def _pass_fence(db: Connection, outcome: _Outcome) -> None:
    """Delete runs from `running` by their tokens. If one does not match, or has a cancel request, none is deleted."""
    guard = "worker_id = ? and token = ? and " + ("cancel_at is null and " if outcome.cancelled is None else "")
    for token, run_ids in outcome.by_token().items():
        if delete_many(db, "running", run_ids, guard, (outcome.worker_id, token)) != len(run_ids):
            raise _InterferedError


def _again(settled: Settlement, rate: Held) -> tuple[Any, ...]:
    run = settled.run
    return (
        settled.due,
        run.token,
        settled.failures,
        settled.losses,
        settled.attempts,
        Held.PAUSED.value,
        STATUS_NUMBER[JobStatus.PAUSED],
        rate.value,
        run.uid,
        run.class_id,
        settled.ended_at,
        run.run_id.bytes,
    )


def _peek_fair(
    classes: Sequence[ClassId], after: UserNumber, users: int, each: int, now: Instant, db: Connection
) -> tuple[list[rows.Row], UserNumber | None]:
    """Read all late runs while they are few; else a bounded number of each user's own, however many others have."""
    classes = classes if len(classes) <= FEW_CLASSES else worth_a_look(db, classes, LONG_AGO, now)
    late = [fetch(db, _SQL["peek"], (class_id, LONG_AGO, now, LATE_READ_AT_ONCE + 1)) for class_id in classes]
    if any(len(of_class) > LATE_READ_AT_ONCE for of_class in late):
        return _from_user_to_user(db, classes, after, users, each, now)
    by_user: dict[int, list[rows.Row]] = defaultdict(list)
    for row in merge(*late, key=itemgetter(1, 0)):
        by_user[row[3]].append(row)
    turns = sorted(by_user, key=lambda uid: (uid <= after, uid))
    return [row for uid in turns[:users] for row in by_user[uid][:each]], None


def _from_user_to_user(
    db: Connection, classes: Sequence[ClassId], after: UserNumber, users: int, each: int, now: Instant
) -> tuple[list[rows.Row], UserNumber | None]:
    """Go around the users once at most; a user with nothing to offer takes no turn."""
    found: list[rows.Row] = []
    seen: set[int] = set()
    while users and len(seen) < FAIR_USERS:
        [after] = first(db, _SQL["next_user"], (after,)) or first(db, _SQL["next_user"], (0,)) or (0,)
        if after in seen or not after:
            break
        seen.add(after)
        theirs = fetch(db, _SQL["peek_fair"], (after, now, apsw.carray(array("q", classes)), each))
        found += theirs
        users -= bool(theirs)
    return found, after if len(seen) == FAIR_USERS else None


def _may_claim(db: Connection, worker_id: bytes, until: Instant) -> bool:
    return first(db, _SQL["may_claim"], (worker_id, until)) is not None


def _claim(db: Connection, worker_id: bytes, run_ids: list[bytes], now: Instant, until: Instant) -> list[rows.Row]:
    if not run_ids or not _may_claim(db, worker_id, until):
        return []
    found = fetch(db, _SQL["claim"], (rows.blobs(run_ids), now))
    by_token: dict[int, list[bytes]] = defaultdict(list)
    for row in found:
        by_token[row[1]].append(row[0])
    for token, some in by_token.items():
        db.execute(_SQL["hold_for"], (rows.blobs(some), token, worker_id, now))
    return found


def _save(
    db: Connection,
    worker_id: WorkerId,
    run: Claimed,
    progress: bytes | None,
    checkpoint: bytes | None,
    payload: bytes | None,
) -> bool:
    given = (run.run_id.bytes, run.token, worker_id.bytes, progress, checkpoint)
    saved = bool(fetch(db, _SQL["save"], given))
    if saved and payload is not None:
        db.execute("update runs set payload = ? where run_id = ?", (payload, run.run_id.bytes))
    return saved


def _is_known(db: Connection, worker_id: bytes) -> bool:
    """Check the worker: one that was declared dead claims and settles nothing, even if it has not noticed."""
    return first(db, "select 1 from workers where worker_id = ?", (worker_id,)) is not None


def _fences(db: Connection, worker_id: bytes, run_ids: list[bytes]) -> list[tuple[bytes, int, int | None]]:
    """Return the token of each run that the worker holds, and when a cancel was requested."""
    return fetch(db, _SQL["fences"], (rows.blobs(run_ids), worker_id)) if run_ids else []


def _cancel(
    pieces: Partitions, uid: UserNumber | None, run_id: RunId, now: Instant, db: Connection
) -> Cancelled | None:
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


def end_waiting(
    db: Connection, pieces: Partitions, run_ids: list[bytes], state: State, now: Instant
) -> tuple[RunId, ...]:
    """Move waiting runs that will never start to history, and free their positions."""
    if not run_ids:
        return ()
    piece, touched, tally = pieces.ensure(db, now), TouchedLanes(now), Counted()
    for _, uid, class_id, lane, gate in fetch(db, _SQL["members"], (rows.blobs(run_ids),)):
        tally[uid, class_id, _COUNT[state]] += 1
        touched.free(lane, gate)
    db.execute(_SQL["end_waiting"].format(piece=piece), (rows.blobs(run_ids), int(state), now))
    delete_many(db, "runs", run_ids)
    count(db, tally, now)
    tend(db, touched)
    return tuple(RunId(UUID(bytes=run_id)) for run_id in run_ids)
