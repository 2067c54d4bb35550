"""Reading the archive: its chain of manifests, from the newest to the first, and its files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from oncue.domain.archive import PREFIX, TURN, ArchivedFile, Manifest, Progress, Table, decode_manifest, read_progress
from oncue.domain.errors import ObjectLost
from oncue.domain.ids import UserNumber
from oncue.domain.reference import Reference
from oncue.engines.port import Engine
from oncue.services.archive_large import large_in
from oncue.services.archiving import check_file
from oncue.storage.port import Storage

Link = tuple[Reference, Manifest]

# What DuckDB cannot tell from the lines: a column is text, unless it says otherwise here.
_TYPES = {"attempt_number": "INTEGER", "lag_ms": "BIGINT", "count": "BIGINT"}
_TIMES = ("scheduled_for", "start_time", "end_time", "at", "until")
_VALUES = ("payload", "result", "objects", "attempts", "detail")
COLUMNS = {
    Table.HISTORY: (
        "run_id job_id user_id task status scheduled_for start_time end_time attempt_number executor_id error_type"
        " error_message lag_ms payload result objects attempts"
    ).split(),
    Table.LEDGER: "job_id user_id at scheduled_for until count outcome reason run_id".split(),
    Table.AUDIT: "at user_id key_id action object_id detail address".split(),
}


class Verified(msgspec.Struct, frozen=True):
    """What a walk through the whole archive found. `wrong` names each file that is not as it was written."""

    pieces: int
    files: int
    rows: int
    large: int  # values beside the files
    bytes: int  # of all of them
    wrong: tuple[str, ...]


async def progress_of(engine: Engine) -> Progress:
    """Return how far the archive has come, as the database knows it."""
    turn = (await engine.history.gauges(await engine.now())).turns.get(TURN)
    return Progress() if turn is None else read_progress(turn.position)


async def chain(storage: Storage, head: Reference | None) -> AsyncIterator[Link]:
    """Yield manifests, newest first. ObjectLost: the next one is missing, or is not the one that was written."""
    while head is not None:
        manifest = decode_manifest(await storage.get(head))
        yield head, manifest
        head = manifest.before


async def files_of(storage: Storage, head: Reference | None, user: UserNumber | None) -> AsyncIterator[ArchivedFile]:
    """Yield the files of a user, or of all, oldest first. Only the manifests that name some are kept in memory."""
    found = [tuple(_wanted(manifest, user)) async for _, manifest in chain(storage, head)]
    for files in reversed(found):
        for file in files:
            yield file


async def verify(storage: Storage, head: Reference | None) -> Verified:
    """Read every manifest and every file, and compare them with what was written."""
    pieces = files = rows = large = size = 0
    wrong: list[str] = []
    at = head
    try:
        async for _, manifest in chain(storage, head):
            pieces += 1
            at = manifest.before
            for file in manifest.files:
                files, rows, size = files + 1, rows + file.rows, size + file.size
                values: list[Reference] = []
                try:
                    values = list(large_in(await check_file(storage, file)))
                except ObjectLost as lost:
                    wrong.append(f"{file.key}: {lost}")
                large, size = large + len(values), size + sum(one.size for one in values)
                wrong += await _lost(storage, values)
    except ObjectLost as lost:
        name = "" if at is None else at.key
        wrong.append(f"{name}: {lost}; what is older cannot be checked")
    return Verified(pieces, files, rows, large, size, tuple(wrong))


async def _lost(storage: Storage, values: Sequence[Reference]) -> list[str]:
    wrong = []
    for one in values:
        try:
            await storage.get(one)
        except ObjectLost as lost:
            wrong.append(f"{one.key}: {lost}")
    return wrong


def sql_of(url: str, table: Table) -> str:
    """Return what DuckDB needs to read a table of the archive."""
    columns = ", ".join(f"'{name}': '{_type(name)}'" for name in COLUMNS[table])
    where = f"{url.removeprefix('file://').rstrip('/')}/{PREFIX}/{table}/dt=*/user=*/*.jsonl.zst".replace("'", "''")
    return (
        f"select * from read_json('{where}', format = 'newline_delimited', compression = 'zstd',\n"
        f"  hive_partitioning = true, columns = {{{columns}}})"
    )


def _type(name: str) -> str:
    if name in _TIMES:
        return "TIMESTAMPTZ"
    return "JSON" if name in _VALUES else _TYPES.get(name, "VARCHAR")


def _wanted(manifest: Manifest, user: UserNumber | None) -> list[ArchivedFile]:
    return [file for file in manifest.files if user is None or file.user == user]
