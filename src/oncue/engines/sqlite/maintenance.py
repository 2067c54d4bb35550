"""Keeps the database small: creates partitions of history, drops old ones, deletes rows to which nothing refers.

Separate parts, each in bites: no write waits long for its turn, and no part blocks another.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import apsw

from oncue.domain import archive
from oncue.domain.error_groups import KEPT
from oncue.domain.ids import NO_CLASS, UserNumber, uuid7
from oncue.domain.instants import HOUR, Duration, Instant
from oncue.domain.job import JobStatus, decode_spec, definition_of
from oncue.engines.bites import BITE, Walk, all_of, in_bites
from oncue.engines.letters import letters_dropped
from oncue.engines.port import BULKS_STAY, MEMBERS_STAY, ROLLED_UP_AT_ONCE, Count
from oncue.engines.series import HOURS_KEPT, MINUTES_KEPT
from oncue.engines.sql import statements
from oncue.engines.sqlite import idempotency, meters, rows
from oncue.engines.sqlite.classes import let_go
from oncue.engines.sqlite.counting import count, fold
from oncue.engines.sqlite.inserting import write_audit
from oncue.engines.sqlite.partitions import Partitions, drop_before, droppable, existing, pieces
from oncue.engines.sqlite.store import Connection, Store, fetch, first
from oncue.engines.stored import ENDED, STATUSES
from oncue.settings import Settings

_SQL = statements("oncue.engines.sqlite")
_ARCHIVED = {"ledger": "entry_id", "audit": "deed_id"}
_KEYS = _ARCHIVED | {"run_logs": "run_id, number", "series_hours": "uid, class_id, what, at, bucket"}
BEFORE_ALL = -(2**63)
Place = TypeVar("Place")


class SqliteMaintenance:
    def __init__(self, store: Store, pieces: Partitions, settings: Settings) -> None:
        self._store = store
        self._pieces = pieces
        self._settings = settings
        self._dropped = 0
        self._archived = True
        self._keys, self._jobs, self._versions, self._tags, self._lanes, self._quotas, self._meters, self._dead = (
            Walk() for _ in range(8)
        )
        self._classes = Walk()

    async def roll_up(self, limit: int = ROLLED_UP_AT_ONCE) -> int:
        """Fold what was appended for series; the sums are exact as they are written."""
        if await self._store.read(lambda db: first(db, "select 1 from tally limit 1")) is None:
            return 0
        return await self._store.write(lambda db: fold(db, limit))

    async def tended(self, now: Instant, step: Duration) -> Instant:
        [(at,)] = await self._store.write(lambda db: fetch(db, _SQL["tended"], (now, step)))
        return Instant(at)

    async def take_turn(self, name: str, now: Instant, every: Duration) -> bytes | None:
        found = await self._store.write(lambda db: first(db, _SQL["take_turn"], (name, now, every)))
        return None if found is None else bytes(found[0])

    async def finish_turn(self, name: str, taken: bytes, position: bytes) -> bool:
        found = await self._store.write(lambda db: first(db, _SQL["finish_turn"], (name, taken, position)))
        return found is not None

    async def maintain(self, now: Instant, keep: Duration) -> int:
        """Do all parts. A walk over rows that mostly history refers to starts only after a drop."""
        cutoff = Instant(now - keep)
        self._dropped, self._archived = 0, await self._is_archived(now)
        settings = self._settings
        parts = (
            partial(self._make_room, now),
            partial(self._forget_keys, now, cutoff),  # as long as history says how their jobs ended
            partial(self._drop, cutoff),
            partial(self._drop_dead_letters, now),
            partial(self._forget_jobs, cutoff),
            partial(self._walk, self._versions, (b"", 0), partial(_forget_versions, cutoff)),
            partial(self._forget_tags, cutoff),
            partial(self._store.write, lambda db: idempotency.turn(db, now, settings.idempotency_retention)),
            partial(self._forget, "run_logs", cutoff),
            partial(self._forget, "ledger", cutoff),
            partial(self._forget, "audit", Instant(now - settings.keep_audit)),
            partial(self._forget_some, "forget_api_keys", Instant(now - settings.keep_keys)),
            partial(self._forget_some, "forget_sessions", now),
            partial(self._walk, self._lanes, BEFORE_ALL, _forget_lanes),
            partial(self._walk, self._quotas, BEFORE_ALL, _forget_quotas),
            partial(self._walk, self._meters, BEFORE_ALL, partial(meters.forget_empty, now)),
            partial(self._forget_classes, now),
            partial(self._forget_members, now),
            partial(self._store.write, partial(_forget_worker_names, now, cutoff)),
            partial(self._thin_series, now),
            partial(self._drop_errors, now),
            partial(self._drop_bulks, now),
        )
        await all_of(parts)
        return self._dropped

    async def _is_archived(self, now: Instant) -> bool:
        """Whether only what is in the archive may go: this process has it, or another one had a turn lately."""
        used = "select 1 from turns where name = ? and next_at > ?"
        given = (archive.TURN, now - archive.IN_USE)
        return bool(self._settings.archive or await self._store.read(lambda db: first(db, used, given)))

    async def _walk(self, walk: Walk, start: Place, bite: Callable[[Place, Connection], Place | None]) -> None:
        await walk.go(start, lambda after: self._store.write(partial(bite, after)))

    async def _make_room(self, now: Instant) -> None:
        def make_room(db: Connection) -> None:
            for step in range(3):
                self._pieces.ensure(db, now + step * self._settings.partition_span)

        await self._store.write(make_room)

    async def _drop(self, cutoff: Instant) -> None:
        timeout = self._settings.history_timeout
        self._dropped = await drop_before(self._store, cutoff, timeout, archived=self._archived)

    async def _forget_some(self, statement: str, before: Instant) -> None:
        def forget(db: Connection) -> int:
            db.execute(_SQL[statement], (before, BITE))
            return db.changes()

        await in_bites(lambda: self._store.write(forget))

    async def _forget(self, table: str, before: Instant) -> None:
        """Delete old rows; with an archive, of the tables that it has, only those that are in it."""
        statement = "forget_archived" if self._archived and table in _ARCHIVED else "forget"

        def forget(db: Connection) -> int:
            db.execute(_SQL[statement].format(table=table, key=_KEYS[table]), (before, BITE))
            return db.changes()

        await in_bites(lambda: self._store.write(forget))

    async def _drop_dead_letters(self, now: Instant) -> None:
        """Discard dead letters that are too old; and the oldest of each user who has too many."""
        before = Instant(now - self._settings.keep_dead_letters)
        await in_bites(lambda: self._store.write(partial(_drop_old, before, now)))
        await self._dead.go(0, partial(self._drop_too_many, now))

    async def _drop_errors(self, now: Instant) -> None:
        await self._drop_before("drop_errors", Instant(now - KEPT))

    async def _drop_bulks(self, now: Instant) -> None:
        await self._drop_before("drop_bulks", Instant(now - BULKS_STAY))

    async def _drop_before(self, statement: str, before: Instant) -> None:
        await in_bites(lambda: self._store.write(lambda db: len(fetch(db, _SQL[statement], (before, BITE)))))

    async def _drop_too_many(self, now: Instant, after: int) -> int | None:
        most = self._settings.most_dead_letters
        found = await self._store.read(lambda db: first(db, _SQL["too_many_dead"], (after, most)))
        if found is None:
            return None
        if found[2] is not None:
            await in_bites(lambda: self._store.write(partial(_drop_rest, found, now)))
        return int(found[0])

    async def _forget_keys(self, now: Instant, cutoff: Instant) -> None:
        def goes(db: Connection) -> list[str]:
            return [piece.name for piece in droppable(db, cutoff, archived=self._archived)]

        known = _oldest(Instant(now - self._settings.keep_job_keys))
        dropping = await self._store.read(goes)
        if cutoff > 0 and (dropping or self._keys.unfinished):

            def forget(after: tuple[int, str], db: Connection) -> tuple[int, str] | None:
                return _forget_keys(_oldest(cutoff), goes(db), known, after, db)

            await self._walk(self._keys, (0, ""), forget)

    async def _forget_jobs(self, cutoff: Instant) -> None:
        if cutoff > 0 and (self._dropped or self._jobs.unfinished):
            await self._walk(self._jobs, b"", partial(_forget_jobs, cutoff))

    async def _forget_tags(self, cutoff: Instant) -> None:
        if cutoff > 0 and (self._dropped or self._tags.unfinished):
            await self._walk(self._tags, (0, "", b""), partial(_forget_tags, _oldest(cutoff)))

    async def _thin_series(self, now: Instant) -> None:
        by_hour, gone = Instant(now - MINUTES_KEPT), Instant(now - HOURS_KEPT)
        await in_bites(lambda: self._store.write(partial(_thin, Instant(by_hour - by_hour % HOUR))))
        await self._forget("series_hours", gone)

    async def _forget_classes(self, now: Instant) -> None:
        await self._classes.go(NO_CLASS, lambda after: self._store.write(partial(let_go, after=after, now=now)))

    async def _forget_members(self, now: Instant) -> None:
        old = (now - MEMBERS_STAY,)
        await self._store.write(lambda db: fetch(db, "delete from members where beat_at < ?", old))


def _oldest(cutoff: Instant) -> bytes:
    """Return the smallest id that could have been generated at that instant."""
    return uuid7(max(cutoff, Instant(0)), bytes(10)).bytes


def _drop_old(before: Instant, now: Instant, db: Connection) -> int:
    gone = _discarded(db, fetch(db, _SQL["drop_dead"], (before, BITE)))
    write_audit(db, [letters_dropped(uid, n, "too old", now) for uid, n in sorted(gone.items())])
    return gone.total()


def _discarded(db: Connection, letters: Sequence[rows.Row]) -> Counter[UserNumber]:
    """Count dead letters that retention took; return how many of each user."""
    count(db, Counter((uid, class_id, Count.DISCARDED) for uid, class_id in letters), None)
    return Counter(uid for uid, _ in letters)


def _thin(before: Instant, db: Connection) -> int:
    """Turn minutes into hours: whole instants, as many as make a bite."""
    found = fetch(db, "select at from series where at < ? order by at limit ?", (before, BITE))
    if found:
        until = found[-1][0] + 1
        db.execute(_SQL["thin_series"], (until,))
        db.execute("delete from series where at < ?", (until,))
    return len(found)


def _drop_rest(newest: rows.Row, now: Instant, db: Connection) -> int:
    gone = _discarded(db, fetch(db, _SQL["drop_dead_of_user"], (*newest, BITE))).total()
    write_audit(db, [letters_dropped(newest[0], gone, "too many", now)] if gone else [])
    return gone


def _forget_keys(
    oldest: bytes, goes: Sequence[str], known: bytes, after: tuple[int, str], db: Connection
) -> tuple[int, str] | None:
    """Delete stable keys. Putting a cancelled job again creates it again and needs no key; a job that was put and has
    finished must not run twice, as long as it is remembered at all.
    """
    some = "select uid, key, job_id, definition from job_keys where (uid, key) > (?, ?) order by uid, key limit ?"
    found = fetch(db, some, (*after, BITE))
    old = [row for row in found if row[2] < oldest]
    job_ids = [job_id for _, _, job_id, _ in old]
    states = {
        run_id: state
        for piece in (goes if old else ())
        for run_id, state in fetch(db, _SQL["states"].format(piece=piece), (rows.blobs(job_ids),))
    }
    there = existing(db, job_ids)
    gone = [
        (uid, key)
        for uid, key, job_id, definition in old
        if (job_id in states and (states[job_id] == 4 or definition is None))
        or (job_id not in there and (definition is None or job_id < known))
    ]
    db.executemany("delete from job_keys where uid = ? and key = ?", gone)
    return (found[-1][0], found[-1][1]) if found else None


def _forget_jobs(cutoff: Instant, after: bytes, db: Connection) -> bytes | None:
    """Delete jobs without runs. Versions and tags are deleted separately; so is a key, unless it must be remembered."""
    some = "select job_id, uid, status, updated_at from jobs where job_id > ? order by job_id limit ?"
    found = fetch(db, some, (after, BITE))
    for job_id, uid, status, updated_at in found:
        if STATUSES[status] in ENDED and updated_at < cutoff and not _has_history(db, job_id):
            _forget_job(db, job_id, uid, STATUSES[status])
    return found[-1][0] if found else None


def _has_history(db: Connection, job_id: bytes) -> bool:
    ended = _SQL["ended_runs_of_job"]
    return any(first(db, ended.format(table=piece.name, whose=""), (job_id, 1)) for piece in pieces(db))


def _forget_job(db: Connection, job_id: bytes, uid: int, status: JobStatus) -> None:
    [(stored, payload)] = fetch(db, "select spec, payload from jobs where job_id = ?", (job_id,))
    db.execute(_SQL["forget_job"], (job_id,))
    if not db.changes():
        return
    for table in ("agenda", "streaks"):
        db.execute(f"delete from {table} where job_id = ?", (job_id,))
    try:
        spec = decode_spec(stored)
    except ValueError:
        return
    if status is JobStatus.CANCELLED:
        db.execute("delete from job_keys where uid = ? and key = ? and job_id = ?", (uid, spec.key, job_id))
    else:
        db.execute(_SQL["redefine_key"], (definition_of(spec, payload), uid, spec.key, job_id))


def _forget_worker_names(now: Instant, cutoff: Instant, db: Connection) -> None:
    """Workers that are registered stay, also those that an older process registered."""
    for worker_id, name in fetch(db, "select worker_id, name from workers"):
        fetch(db, _SQL["name_worker"], (worker_id, name, now))
    fetch(db, _SQL["forget_worker_names"], (cutoff, BITE))


def _forget_versions(cutoff: Instant, after: tuple[bytes, int], db: Connection) -> tuple[bytes, int] | None:
    some = "select job_id, version from job_versions where (job_id, version) > (?, ?) order by job_id, version limit ?"
    found = fetch(db, some, (*after, BITE))
    db.executemany(_SQL["forget_versions"], [(*row, cutoff) for row in found])
    return (found[-1][0], found[-1][1]) if found else None


def _forget_tags(oldest: bytes, after: tuple[int, str, bytes], db: Connection) -> tuple[int, str, bytes] | None:
    some = (
        "select uid, tag, job_id from job_tags where (uid, tag, job_id) > (?, ?, ?) order by uid, tag, job_id limit ?"
    )
    found = fetch(db, some, (*after, BITE))
    old = {job_id for _, _, job_id in found if job_id < oldest}
    gone = old - existing(db, sorted(old))
    tags = [row for row in found if row[2] in gone]
    db.executemany("delete from job_tags where uid = ? and tag = ? and job_id = ?", tags)
    return (found[-1][0], found[-1][1], found[-1][2]) if found else None


def _forget_lanes(after: int, db: Connection) -> int | None:
    found = [
        lane for (lane,) in fetch(db, "select lane from lanes where lane > ? order by lane limit ?", (after, BITE))
    ]
    if not found:
        return None
    db.execute(_SQL["forget_lanes"], (_numbers(found),))
    return int(found[-1])


def _forget_quotas(after: int, db: Connection) -> int | None:
    """Delete bounds: the next call that needs one counts again."""
    found = fetch(db, "select uid from quotas where uid > ? order by uid limit ?", (after, BITE))
    db.executemany("delete from quotas where uid = ?", found)
    return int(found[-1][0]) if found else None


def _numbers(keys: Iterable[int]) -> apsw.CArrayBinding:
    return apsw.carray(array("q", keys))
