"""What the archive needs of the database: pieces that are old enough to be dropped, their rows, and a mark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from oncue.domain.archive import Piece, Table
from oncue.domain.instants import Instant
from oncue.engines.values import ArchiveRow, Page


class Archiving(Protocol):
    """With `Settings.archive`, or if any process had a turn of the archive in the last hour (`archive.IN_USE`),
    `Maintenance.maintain` drops only what was marked here, and only what was read.

    A row that comes late, into the time range of a piece that is marked, is not dropped unarchived: its piece loses the
    mark, and is to be archived once more.
    """

    async def next_piece(self, before: Mapping[Table, Instant]) -> Piece | None:
        """Return the oldest piece of one of these tables that ended before the instant and is not marked."""
        ...

    async def rows(self, piece: Piece, limit: int, after: str | None = None) -> Page[ArchiveRow]:
        """Return rows of a piece, in an order that stays: those of a user together where an index has it so.

        Runs come with their payload. A piece that is gone has no rows.
        """
        ...

    async def count(self, piece: Piece) -> int:
        """Return how many rows a piece has. A piece that is gone has none."""
        ...

    async def mark(self, piece: Piece, rows: int) -> bool:
        """Mark a piece as archived if it has no more than this many rows: some may have been purged meanwhile.

        False: it has more, or it is gone. Then nothing was marked. A repeat changes nothing.
        """
        ...
