"""The archive: before old history is dropped, its rows go to object storage, and are read back.

Any scheduler takes the next step: see `Maintenance.take_turn`. Each step ends with the position that the next one
starts from, so a process that is killed at any moment costs one step, which another process repeats: files have names
that follow from the position. If a file is not found as it was written, its whole piece is written anew under other
names, and nothing is dropped meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.archive import (
    TURN,
    ArchivedFile,
    Piece,
    Progress,
    Table,
    Writing,
    encode_manifest,
    file_key,
    manifest_key,
    manifest_of,
    read_progress,
)
from oncue.domain.errors import ObjectLost, StorageRefused, StorageUnavailable
from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import DAY, MILLISECOND, SECOND, Duration, Instant
from oncue.domain.placement import ClassKey
from oncue.domain.reference import Reference
from oncue.domain.run import RunView
from oncue.engines.port import ArchiveRow, Engine, Page
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import ARCHIVE_ERRORS, ARCHIVED_ROWS
from oncue.services.archive_large import LargeValues, how_many
from oncue.services.archive_lines import Names, line
from oncue.settings import Settings
from oncue.storage.compression import compress, decompress
from oncue.storage.port import Storage

EVERY = Duration(30 * SECOND)  # a turn; a process that has not finished a step by then may meet another one at it
BUSY_FOR = Duration(20 * SECOND)  # then the turn ends after the current step
GIVE_WAY = Duration(10 * SECOND)  # to those who forget a user, who look more often than that
LOOK_INTERVAL = Duration(5 * SECOND)  # how often this process tries to take a turn
PAGE = 200  # rows read at once
MOST_RAW = 32 * 1024 * 1024  # bytes of lines; then a step ends with the page it has read
MOST_LARGE = 128 * 1024 * 1024  # bytes of large values; then a step ends, too
LARGEST_FILE = 64 * 1024 * 1024  # bytes of lines, unless one line is larger
CHECKED_AT_ONCE = 20  # files
DELETED_AT_ONCE = 1_000
SHORTEST_PAUSE = Duration(MILLISECOND)


class Archiving:
    name = "archiving"

    def __init__(
        self,
        engine: Engine,
        storage: Storage,
        objects: Storage,
        clock: Clock,
        settings: Settings,
        numbers: Numbers = SILENT,
    ) -> None:
        """`storage` is the archive's; `objects` has the large values of runs."""
        self._engine = engine
        self._storage = storage
        self._objects = objects
        self._clock = clock
        self._keep = {
            Table.HISTORY: settings.retention,
            Table.LEDGER: settings.retention,
            Table.AUDIT: settings.keep_audit,
        }
        self._numbers = numbers
        self._classes: dict[ClassId, ClassKey] = {}

    async def run_once(self) -> Duration:
        position = await self._take_turn()
        if position is not None:
            try:
                await self._steps(position)
            except (StorageUnavailable, StorageRefused) as away:
                self._numbers.add(ARCHIVE_ERRORS)
                log.error(
                    "The archive failed; history is not dropped until it works", kind="archive_failed", why=str(away)
                )
        return LOOK_INTERVAL

    async def _take_turn(self) -> bytes | None:
        """Take a turn that is due; while users are to be forgotten, only one that nobody took for that.

        Both loops would look at the same moment, and this one first: it set the time of the next turn.
        """
        wait = GIVE_WAY if await self._engine.forgetting.pending() else 0
        now = Instant(self._clock.now() - wait)
        return await self._engine.maintenance.take_turn(TURN, now, Duration(EVERY + wait))

    async def _steps(self, position: bytes) -> None:
        """Take steps until there is nothing to do, the turn has lasted long enough, or another process has it."""
        began = self._clock.monotonic()
        while self._clock.monotonic() - began < BUSY_FOR:
            progress = read_progress(position)
            after = await self._step(progress)
            if after is None:
                return
            encoded = msgspec.json.encode(after)
            if not await self._engine.maintenance.finish_turn(TURN, position, encoded):
                return
            self._tell(progress, after)
            if after.number > progress.number and progress.writing is not None:
                return  # it was given up: there is no hurry to try again
            position = encoded

    async def _step(self, progress: Progress) -> Progress | None:
        """Take the next step; return the progress with it. None: there is nothing to do."""
        writing = progress.writing
        if progress.to_delete:
            some, rest = progress.to_delete[:DELETED_AT_ONCE], progress.to_delete[DELETED_AT_ONCE:]
            await self._storage.delete(some)
            return replace(progress, to_delete=rest)
        if writing is None:
            return await self._begin(progress)
        if writing.listed:
            await self._engine.archiving.mark(writing.piece, writing.rows)
            return replace(progress, writing=None)
        try:
            if not writing.read:
                return replace(progress, writing=await self._write(writing))
            if writing.checked < len(writing.files):
                return replace(progress, writing=await self._check(writing))
            return await self._list(progress, writing)
        except ObjectLost as lost:
            self._numbers.add(ARCHIVE_ERRORS)
            log.error(
                "An archived file has changed; its partition is archived again", kind="archive_failed", why=str(lost)
            )
            return written_anew(progress, writing)

    async def _begin(self, progress: Progress) -> Progress | None:
        now = self._clock.now()
        before = {table: Instant(now - keep) for table, keep in self._keep.items()}
        piece = await self._engine.archiving.next_piece(before)
        if piece is None:
            return None
        number = progress.number + 1
        return replace(progress, number=number, writing=Writing(number, piece))

    # ------------------------------------------------------------------------------------------------------- the steps

    async def _write(self, writing: Writing) -> Writing:
        """Read rows up to `MOST_RAW`, and put files for each user and day."""
        lines: dict[tuple[UserNumber, int], list[bytes]] = defaultdict(list)
        raw, after, times = 0, writing.after, [at for at in (writing.first, writing.last) if at is not None]
        large = LargeValues(self._objects, self._storage)
        while raw < MOST_RAW and large.size < MOST_LARGE:
            began = self._clock.monotonic()
            found = await self._page(writing.piece, after, large)
            shown = await self._shown(found.items)
            for row, text in zip(found.items, shown, strict=True):
                lines[row.uid, row.at // DAY].append(text)
                times = [min([*times, row.at]), max([*times, row.at])]
            raw += sum(map(len, shown))
            after = found.next
            if after is None:
                break
            # as long as this took, others have the store and the processor
            await self._clock.sleep(max(Duration(self._clock.monotonic() - began), SHORTEST_PAUSE))
        files = list(writing.files)
        for (user, day), all_lines in sorted(lines.items()):
            for some in _apart(all_lines):
                files.append(await self._put(writing, user, Instant(day * DAY), len(files), some))
        first, last = (times[0], times[-1]) if times else (None, None)
        return replace(writing, after=after, read=after is None, files=tuple(files), first=first, last=last)

    async def _page(self, piece: Piece, after: str | None, large: LargeValues) -> Page[ArchiveRow]:
        """Read rows, and copy their large values: not all that a page may have at once."""
        found = await self._engine.archiving.rows(piece, PAGE, after)
        if (n := how_many(found.items, MOST_LARGE)) < len(found.items):
            found = await self._engine.archiving.rows(piece, n, after)
        return replace(found, items=tuple([await large.copied(row) for row in found.items]))

    async def _shown(self, rows: Sequence[ArchiveRow]) -> list[bytes]:
        """Return rows as lines. Another thread makes them, so that the loop stays free for what is due."""
        if any(row.of.class_id not in self._classes for row in rows if isinstance(row.of, RunView)):
            self._classes = await self._engine.jobs.classes()
        names = Names(await self._engine.accounts.names(sorted({row.uid for row in rows})), self._classes)
        return await asyncio.to_thread(lambda: [line(row, names) for row in rows])

    async def _put(
        self, writing: Writing, user: UserNumber, day: Instant, n: int, lines: Sequence[bytes]
    ) -> ArchivedFile:
        raw = b"".join(lines)
        content = await asyncio.to_thread(compress, raw)
        reference = Reference.to(file_key(writing, user, day, n), content)
        await self._storage.put(reference.key, content)
        return ArchivedFile(reference.key, user, len(lines), len(raw), reference.size, reference.sha256)

    async def _check(self, writing: Writing) -> Writing:
        """Read files back: their bytes, and their lines."""
        some = writing.files[writing.checked : writing.checked + CHECKED_AT_ONCE]
        for file in some:
            await check_file(self._storage, file)
        return replace(writing, checked=writing.checked + len(some))

    async def _list(self, progress: Progress, writing: Writing) -> Progress:
        """Put the manifest, which becomes the head of the chain. An empty piece has none."""
        if not writing.files:
            return replace(progress, writing=replace(writing, listed=True))
        content = encode_manifest(manifest_of(progress, writing, self._engine.schema))
        reference = Reference.to(manifest_key(writing.name), content)
        await self._storage.put(reference.key, content)
        await self._storage.get(reference)
        return replace(progress, head=reference, writing=replace(writing, listed=True), skipped=())

    # --------------------------------------------------------------------------------------------------------- telling

    def _tell(self, before: Progress, after: Progress) -> None:
        done = before.writing
        if done is None or not done.listed or not done.files:
            return
        self._numbers.add(ARCHIVED_ROWS, n=done.rows)
        log.info(
            "Archived a partition of history",
            kind="piece_archived",
            piece=done.name,
            rows=done.rows,
            files=len(done.files),
            bytes=sum(file.size for file in done.files),
            manifest=None if after.head is None else after.head.key,
            sha256=None if after.head is None else after.head.sha256,
        )


async def check_file(storage: Storage, file: ArchivedFile) -> bytes:
    """Return the lines of a file. ObjectLost: it is missing, or is not what was written."""
    content = await storage.get(file.reference)
    raw = await asyncio.to_thread(decompress, content)
    lines = raw.count(b"\n")
    if (len(raw), lines) != (file.raw, file.rows):
        raise ObjectLost(f"the file {file.key} has {lines} lines; {file.rows} were written")
    return raw


def _apart(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split lines into files that are not too large."""
    some: list[bytes] = []
    size = 0
    for text in lines:
        if some and size + len(text) > LARGEST_FILE:
            yield some
            some, size = [], 0
        some.append(text)
        size += len(text)
    yield some


def written_anew(progress: Progress, writing: Writing) -> Progress:
    """Give up what was written of a piece, and write it under another number."""
    number = progress.number + 1
    return replace(progress, number=number, writing=Writing(number, writing.piece), to_delete=keys_of(writing))


def keys_of(writing: Writing) -> tuple[str, ...]:
    return (*(file.key for file in writing.files), manifest_key(writing.name))
