"""Partitions of history: a table for each time range, created when first needed and dropped as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from oncue.domain.ids import created_at
from oncue.domain.instants import Duration, Instant
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.inserting import insert_many
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
FIRST_BITE, USUAL_BITE, LARGEST_BITE = 2, 100, 2_000  # ends of a user read at once: of many users first, of one, later
LAST = b"\xff" * 16
_ENDED_AT = rows.HISTORY.index("ended_at")
_Place = tuple[int, bytes]


class Piece(NamedTuple):
    name: str
    from_at: int
    until_at: int


def pieces(db: Connection, since: int = 0) -> list[Piece]:
    """Return partitions, newest first, without those that ended before `since`."""
    found = db.execute("select name, from_at, until_at from pieces where until_at > ? order by from_at desc", (since,))
    return [Piece(*row) for row in found]


class Partitions:
    """Knows how wide a new partition is. The list is read each time: another process may create or drop some."""

    def __init__(self, width: Duration) -> None:
        self._width = width

    def ensure(self, db: Connection, at: int) -> str:
        """Return the partition for this instant. Adjacent ones may differ in width: the setting may have changed."""
        for (name,) in fetch(db, "select name from pieces where from_at <= ?1 and until_at > ?1", (at,)):
            return str(name)
        start, end = at // self._width * self._width, (at // self._width + 1) * self._width
        for piece in pieces(db):
            if piece.until_at <= at:
                start = max(start, piece.until_at)
            else:
                end = min(end, piece.from_at)
        name = f"history_{start}".replace("-", "_")
        db.execute(_SQL["piece"].format(piece=name))
        db.execute("insert into pieces (name, from_at, until_at) values (?, ?, ?)", (name, start, end))
        return name

    def insert(self, db: Connection, ended: Sequence[tuple[Any, ...]]) -> None:
        for name, some in self._by_piece(db, ended):
            insert_many(db, name, rows.HISTORY, some)

    def _by_piece(
        self, db: Connection, ended: Sequence[tuple[Any, ...]]
    ) -> Iterable[tuple[str, Sequence[tuple[Any, ...]]]]:
        ends = {row[_ENDED_AT] for row in ended}
        if not ends:
            return []
        name = self.ensure(db, max(ends))
        if name == self.ensure(db, min(ends)):
            return [(name, ended)]
        by_piece: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for row in ended:
            by_piece[self.ensure(db, row[_ENDED_AT])].append(row)
        return by_piece.items()


def droppable(db: Connection, cutoff: Instant, *, archived: bool) -> list[Piece]:
    """Return partitions that ended before `cutoff`, newest first; `archived`: only those that are in the archive."""
    which = "until_at <= ? and (archived_rows is not null or not ?)"
    found = fetch(
        db, f"select name, from_at, until_at from pieces where {which} order by from_at desc", (cutoff, archived)
    )
    return [Piece(*row) for row in found]


async def drop_before(store: Store, cutoff: Instant, timeout: Duration, *, archived: bool) -> int:
    """Drop what is droppable, each partition in its own turn of the writer; return how many.

    A partition that has got a row since it was archived stays, to be archived again.
    """

    def drop_oldest(db: Connection) -> bool | None:
        for piece in droppable(db, cutoff, archived=archived)[-1:]:
            if archived and not _is_as_archived(db, piece):
                db.execute("update pieces set archived_rows = null where name = ?", (piece.name,))
                return False
            db.execute(f"drop table {piece.name}")
            db.execute("delete from pieces where name = ?", (piece.name,))
            return True
        return None

    dropped = 0
    while (done := await store.write(drop_oldest, timeout)) is not None:
        dropped += done
    return dropped


def _is_as_archived(db: Connection, piece: Piece) -> bool:
    counted = f"select archived_rows >= (select count(*) from {piece.name}) from pieces where name = ?"
    return first(db, counted, (piece.name,)) == (1,)


def find_ended(db: Connection, run_id: UUID, statement: str) -> tuple[Any, ...] | None:
    """Find an ended run in any partition; `statement` has a placeholder {table}.

    A run nearly always ended at or soon after the time in its id, and never long before: the search begins there.
    """
    made, found = created_at(run_id), pieces(db)
    after = [piece.name for piece in reversed(found) if piece.until_at > made]
    before = [piece.name for piece in found if piece.until_at <= made]
    for table in ("dead", *after, *before):
        row = first(db, statement.format(table=table), (run_id.bytes,))
        if row is not None:
            return row
    return None


def existing(db: Connection, run_ids: Sequence[bytes], since: int = 0) -> set[bytes]:
    """Return which of these are runs in any state, or jobs. `since`: none of them can have ended before."""
    if not run_ids:
        return set()
    asked = (rows.blobs(run_ids),)
    found = fetch(db, _SQL["there"].format(table="jobs", key="job_id"), asked)
    for table in ("runs", "dead", *(piece.name for piece in pieces(db, since))):
        found += fetch(db, _SQL["there"].format(table=table, key="run_id"), asked)
    return {row[0] for row in found}


def newest_ends(
    db: Connection, piece: Piece, users: list[int], statement: str, given: dict[str, Any], ended: int
) -> Iterator[rows.Row]:
    """Merge the ends of users in a partition, newest first; `ended`: their column.

    Of many users one statement finds when a run of each ended last. A user's rows are read when it is their turn.
    """

    def of_user(one: int, bite: int) -> Iterator[tuple[_Place, rows.Row]]:
        at, last = given["at"], given["last"]
        while True:
            found = fetch(db, statement, {**given, "uid": one, "at": at, "last": last, "limit": bite})
            for row in found:
                at, last = row[ended], row[0]
                yield (at, last), row
            if len(found) < bite:
                return
            bite = min(bite * 8, LARGEST_BITE)

    def from_turn(one: int, newest: int) -> Iterator[tuple[_Place, rows.Row | None]]:
        yield (newest, LAST), None
        yield from of_user(one, FIRST_BITE)

    if len(users) == 1:
        return (row for _, row in of_user(users[0], USUAL_BITE))
    asked = {"users": msgspec.json.encode(users).decode(), "at": given["at"], "last": given["last"]}
    newest = fetch(db, _SQL["newest_end_of_each"].format(piece=piece.name), asked)
    walks = [from_turn(uid, at) for uid, at in newest if at is not None]
    return (row for _, row in merge(*walks, key=itemgetter(0), reverse=True) if row is not None)
