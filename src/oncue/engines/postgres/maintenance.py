"""Keeps the database small: creates partitions of history, drops old ones, deletes rows to which nothing refers.

Separate parts, each in bites: none of them takes long at a time, and none blocks another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from asyncpg import Record

from oncue.domain import archive
from oncue.domain.error_groups import KEPT
from oncue.domain.ids import NO_CLASS, UserNumber, uuid7
from oncue.domain.instants import HOUR, Duration, Instant
from oncue.domain.job import JobStatus, decode_spec, definition_of
from oncue.engines.bites import BITE, USERS_AT_ONCE, Walk, all_of, in_bites
from oncue.engines.letters import letters_dropped
from oncue.engines.port import BULKS_STAY, MEMBERS_STAY, ROLLED_UP_AT_ONCE
from oncue.engines.postgres import idempotency, meters
from oncue.engines.postgres.classes import let_go
from oncue.engines.postgres.inserting import write_audit
from oncue.engines.postgres.partitions import TABLES, Partitions
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.series import HOURS_KEPT, MINUTES_KEPT
from oncue.engines.sql import statements
from oncue.engines.stored import ENDED, STATUSES
from oncue.settings import Settings

_SQL = statements("oncue.engines.postgres")
NOBODY = UUID(int=0)
BEFORE_ALL = -(2**63)


class PostgresMaintenance:
    def __init__(self, store: Store, pieces: Partitions, settings: Settings) -> None:
        self._store = store
        self._pieces = pieces
        self._settings = settings
        self._limit = settings.history_timeout
        self._dropped = 0
        self._archived = True
        self._keys, self._jobs, self._versions, self._tags, self._lanes, self._quotas, self._meters, self._dead = (
            Walk() for _ in range(8)
        )
        self._classes = Walk()

    async def roll_up(self, limit: int = ROLLED_UP_AT_ONCE) -> int:
        [(folded,)] = await self._store.fetch(_SQL["roll_up"], limit)
        return int(folded)

    async def tended(self, now: Instant, step: Duration) -> Instant:
        [(at,)] = await self._store.fetch(_SQL["tended"], now, step)
        return Instant(at)

    async def take_turn(self, name: str, now: Instant, every: Duration) -> bytes | None:
        found = await self._store.fetch(_SQL["take_turn"], name, now, every)
        return found[0]["position"] if found else None

    async def finish_turn(self, name: str, taken: bytes, position: bytes) -> bool:
        return bool(await self._store.fetch(_SQL["finish_turn"], name, taken, position))

    async def maintain(self, now: Instant, keep: Duration) -> int:
        """Do all parts. A walk over rows that mostly history refers to starts only after a drop."""
        cutoff = Instant(now - keep)
        self._dropped, self._archived = 0, await self._is_archived(now)
        parts = (
            partial(self._make_room, now),
            partial(self._forget_keys, now, cutoff),  # as long as history says how their jobs ended
            partial(self._drop, now, cutoff),
            partial(self._drop_dead_letters, now),
            partial(self._forget_jobs, cutoff),
            partial(self._forget_versions, cutoff),
            partial(self._forget_tags, cutoff),
            partial(idempotency.turn, self._store, now, self._settings.idempotency_retention, self._limit),
            partial(self._forget_enqueue_keys, now),
            partial(in_bites, partial(self._count_of, "forget_api_keys", now - self._settings.keep_keys, BITE)),
            partial(in_bites, partial(self._count_of, "forget_sessions", now, BITE)),
            self._forget_lanes,
            self._forget_quotas,
            partial(self._forget_meters, now),
            partial(self._forget_classes, now),
            partial(self._forget_members, now),
            partial(self._fetch, "forget_worker_names", now, cutoff, BITE),
            partial(self._thin_series, now),
            partial(self._drop_errors, now),
            partial(self._drop_bulks, now),
        )
        await all_of(parts)
        return self._dropped

    async def _is_archived(self, now: Instant) -> bool:
        """Whether only what is in the archive may go: this process has it, or another one had a turn lately."""
        used = "select 1 from turns where name = $1 and next_at > $2"
        return bool(self._settings.archive or await self._store.fetch(used, archive.TURN, now - archive.IN_USE))

    async def _make_room(self, now: Instant) -> None:
        ahead = [Instant(now + step * self._settings.partition_span) for step in range(3)]
        for table in TABLES:
            await self._pieces.ensure(table, ahead, self._limit)

    async def _drop(self, now: Instant, cutoff: Instant) -> None:
        audit = Instant(now - self._settings.keep_audit)
        self._dropped = await self._pieces.drop_before(
            cutoff, self._limit, apart={"audit": audit}, archived=self._archived
        )

    def _worth_a_look(self, walk: Walk, cutoff: Instant) -> bool:
        return cutoff > 0 and (self._dropped > 0 or walk.unfinished)

    # --------------------------------------------------------------------------------------------------- dead letters

    async def _drop_dead_letters(self, now: Instant) -> None:
        """Discard dead letters that are too old; and the oldest of each user who has too many."""
        before = Instant(now - self._settings.keep_dead_letters)
        await in_bites(lambda: self._pieces.write("audit", [now], partial(_drop_old, before, now)))
        await self._dead.go(UserNumber(0), partial(self._drop_too_many, now))

    async def _drop_errors(self, now: Instant) -> None:
        await in_bites(lambda: self._drop_some("drop_errors", Instant(now - KEPT)))

    async def _drop_bulks(self, now: Instant) -> None:
        await in_bites(lambda: self._drop_some("drop_bulks", Instant(now - BULKS_STAY)))

    async def _drop_some(self, statement: str, before: Instant) -> int:
        return len(await self._fetch(statement, before, BITE))

    async def _drop_too_many(self, now: Instant, after: UserNumber) -> UserNumber | None:
        most = self._settings.most_dead_letters
        found = await self._store.fetch(_SQL["too_many_dead"], after, USERS_AT_ONCE, most)
        for row in found:
            if row["run_id"] is not None:
                drop = partial(_drop_rest, row, now)
                await in_bites(partial(self._pieces.write, "audit", [now], drop))
        return found[-1]["uid"] if found else None

    # -------------------------------------------------------------------------------------- what nothing refers to

    async def _forget_keys(self, now: Instant, cutoff: Instant) -> None:
        pieces = await self._store.fetch(_SQL["history_to_drop"], cutoff, self._archived)
        if cutoff > 0 and (pieces or self._keys.unfinished):
            goes_before = Instant(pieces[0][0] if pieces else BEFORE_ALL)
            known = _oldest(Instant(now - self._settings.keep_job_keys))
            await self._keys.go((0, ""), partial(self._forget_some_keys, _oldest(cutoff), goes_before, known))

    async def _forget_some_keys(
        self, oldest: UUID, goes_before: Instant, known: UUID, after: tuple[int, str]
    ) -> tuple[int, str] | None:
        found = await self._fetch("forget_keys", *after, BITE, oldest, goes_before, known)
        return (found[0]["uid"], found[0]["key"]) if found else None

    async def _forget_enqueue_keys(self, now: Instant) -> None:
        """An id is as old as the call, which may have been long before the commit: hence twice the time."""
        oldest = _oldest(Instant(now - 2 * self._settings.idempotency_retention))
        await in_bites(partial(self._count_of, "forget_enqueue_keys", oldest, BITE))

    async def _forget_jobs(self, cutoff: Instant) -> None:
        if self._worth_a_look(self._jobs, cutoff):
            await self._jobs.go(NOBODY, partial(self._forget_some_jobs, cutoff))

    async def _forget_some_jobs(self, cutoff: Instant, after: UUID) -> UUID | None:
        found = await self._store.fetch(_SQL["some_jobs"], after, BITE)
        ended = [row for row in found if STATUSES[row["status"]] in ENDED and row["updated_at"] < cutoff]
        if ended:
            await self._store.write(partial(_forget_ended, ended, cutoff), timeout=self._limit)
        return found[-1]["job_id"] if found else None

    async def _forget_versions(self, cutoff: Instant) -> None:
        async def some(after: tuple[UUID, int]) -> tuple[UUID, int] | None:
            found = await self._fetch("forget_versions", *after, BITE, cutoff)
            return (found[0]["job_id"], found[0]["version"]) if found else None

        await self._versions.go((NOBODY, 0), some)

    async def _forget_tags(self, cutoff: Instant) -> None:
        async def some(after: tuple[int, str, UUID]) -> tuple[int, str, UUID] | None:
            found = await self._fetch("forget_tags", *after, BITE, _oldest(cutoff))
            return (found[0]["uid"], found[0]["tag"], found[0]["job_id"]) if found else None

        if self._worth_a_look(self._tags, cutoff):
            await self._tags.go((0, "", NOBODY), some)

    async def _forget_lanes(self) -> None:
        await self._lanes.go(BEFORE_ALL, lambda after: self._store.write(partial(_forget_empty_lanes, after)))

    async def _forget_quotas(self) -> None:
        async def some(after: int) -> int | None:
            [(last,)] = await self._fetch("forget_quotas", after, BITE)
            return None if last is None else int(last)

        await self._quotas.go(0, some)

    async def _forget_meters(self, now: Instant) -> None:
        await self._meters.go(BEFORE_ALL, lambda after: self._store.write(partial(meters.forget_empty, now, after)))

    async def _forget_classes(self, now: Instant) -> None:
        await self._classes.go(NO_CLASS, lambda after: self._store.write(partial(let_go, after=after, now=now)))

    async def _forget_members(self, now: Instant) -> None:
        await self._store.fetch("delete from members where beat_at < $1", now - MEMBERS_STAY)

    async def _thin_series(self, now: Instant) -> None:
        by_hour, gone = Instant(now - MINUTES_KEPT), Instant(now - HOURS_KEPT)
        for statement, before in (("thin_series", by_hour - by_hour % HOUR), ("drop_series", gone)):
            await in_bites(partial(self._count_of, statement, before, BITE))

    async def _count_of(self, statement: str, *given: object) -> int:
        return int((await self._fetch(statement, *given))[0][0])

    async def _fetch(self, statement: str, *given: object) -> Sequence[Record]:
        return await self._store.write(lambda c: c.fetch(_SQL[statement], *given), timeout=self._limit)


def _oldest(cutoff: Instant) -> UUID:
    """Return the smallest id that could have been generated at that instant."""
    return uuid7(max(cutoff, Instant(0)), bytes(10))


async def _drop_old(before: Instant, now: Instant, connection: Connection) -> int:
    gone = await connection.fetch(_SQL["drop_dead"], before, BITE)
    await write_audit(connection, [letters_dropped(row["uid"], row["n"], "too old", now) for row in gone])
    return sum(row["n"] for row in gone)


async def _drop_rest(newest: Record, now: Instant, connection: Connection) -> int:
    uid, ended_at, run_id = newest
    gone = len(await connection.fetch(_SQL["drop_dead_of_user"], uid, ended_at, run_id, BITE))
    await write_audit(connection, [letters_dropped(uid, gone, "too many", now)] if gone else [])
    return gone


async def _forget_ended(ended: Sequence[Record], cutoff: Instant, connection: Connection) -> None:
    """Delete ended jobs. Versions and tags are deleted separately, once nothing refers to them. So is a key, unless its
    job must not run again.

    Locks the cursors before the definitions, as planning does.
    """
    job_ids, uids = [row["job_id"] for row in ended], sorted({row["uid"] for row in ended})
    await connection.execute("select from agenda where job_id = any($1::uuid[]) order by job_id for update", job_ids)
    gone = await connection.fetch(_SQL["forget_jobs"], job_ids, cutoff, uids)
    for table in ("agenda", "streaks"):
        forget = f"delete from {table} where job_id = any($1::uuid[])"
        await connection.execute(forget, [row["job_id"] for row in gone])
    for row in gone:
        key, made_of = _key_of(row)
        if key is None:
            continue
        if STATUSES[row["status"]] is JobStatus.CANCELLED:
            await connection.execute(_SQL["give_back_key"], row["uid"], key, row["job_id"])
        else:
            await connection.execute(_SQL["redefine_key"], row["uid"], key, row["job_id"], made_of)


def _key_of(row: Record) -> tuple[str | None, bytes]:
    try:
        spec = decode_spec(row["spec"])
    except ValueError:
        return None, b""
    return spec.key, definition_of(spec, row["payload"])


async def _forget_empty_lanes(after: int, connection: Connection) -> int | None:
    """Lock empty lanes, then check them again: another transaction may have added a member in between."""
    found = await connection.fetch(_SQL["empty_lanes"], after, BITE)
    empty = [row["lane"] for row in found if row["empty"]]
    if empty:
        locked = await connection.fetch(_SQL["lock_empty_lanes"], empty)
        await connection.execute(_SQL["forget_empty_lanes"], [row["lane"] for row in locked])
    return found[-1]["lane"] if found else None
