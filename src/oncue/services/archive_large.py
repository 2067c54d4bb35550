"""Large values in the archive: payloads and results that are in object storage are copied beside its files.

A line names the copy, with its size and SHA-256. So the manifest, which vouches for the lines, vouches for the copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from oncue.domain.archive import LARGE, large_key
from oncue.domain.errors import ObjectLost
from oncue.domain.reference import Reference, read_reference
from oncue.domain.run import RunView
from oncue.engines.port import ArchiveRow
from oncue.log import log
from oncue.storage.port import Storage

VALUES = ("payload", "result")
LOST = ""  # the key of a value that storage has lost before it was archived


class _Large(msgspec.Struct, frozen=True):
    key: str | None
    size: int
    sha256: str


class _Line(msgspec.Struct, frozen=True):
    objects: dict[str, _Large] = {}


_decode = msgspec.json.Decoder(_Line).decode


class LargeValues:
    """Copies the large values of rows. Of each, one at a time is in memory."""

    def __init__(self, storage: Storage, archive: Storage) -> None:
        self._storage = storage
        self._archive = archive
        self._copied: dict[str, Reference] = {}
        self.size = 0  # bytes that were copied

    async def copied(self, row: ArchiveRow) -> ArchiveRow:
        """Return a row that refers to copies in the archive, which were read back."""
        if not isinstance(row.of, RunView):
            return row
        values = {name: found for name in VALUES if (found := read_reference(getattr(row.of, name))) is not None}
        copies = {name: (await self._copy(row, one)).encoded() for name, one in values.items()}
        return replace(row, of=replace(row.of, **copies)) if copies else row

    async def _copy(self, row: ArchiveRow, one: Reference) -> Reference:
        copy = replace(one, key=large_key(row.uid, row.at, one.sha256))
        if copy.key not in self._copied:
            self._copied[copy.key] = copy if await self._is_copied(one, copy) else replace(copy, key=LOST)
        return self._copied[copy.key]

    async def _is_copied(self, one: Reference, copy: Reference) -> bool:
        try:
            content = await self._storage.get(one)
        except ObjectLost as lost:
            log.error("A large value is lost; its run is archived without it", kind="archive_lost", why=str(lost))
            return False
        await self._archive.put(copy.key, content)
        self.size += len(content)
        del content
        try:
            await self._archive.get(copy)
        except ObjectLost:
            await self._archive.delete([copy.key])  # a repeat would find it there
            raise
        return True


def how_many(rows: Sequence[ArchiveRow], most: int) -> int:
    """Return how many of these rows have large values of at most so many bytes together; one row, whatever it has."""
    size = 0
    for n, row in enumerate(rows):
        if isinstance(row.of, RunView):
            found = (read_reference(getattr(row.of, name)) for name in VALUES)
            size += sum(one.size for one in found if one is not None)
        if n and size > most:
            return n
    return len(rows)


def large_in(lines: bytes) -> Iterator[Reference]:
    """Yield the large values that lines refer to, each once."""
    seen: set[str] = set()
    for line in lines.splitlines():
        if b'"objects":{"' not in line:
            continue
        for one in _decode(line).objects.values():
            # older lines have the key of the value itself, which was not archived
            if one.key is not None and one.key.startswith(LARGE) and one.key not in seen:
                seen.add(one.key)
                yield Reference(one.key, one.size, one.sha256)
