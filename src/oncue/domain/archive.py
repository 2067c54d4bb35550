"""The archive of old history: pieces of tables, the files they become, and the chain of manifests that lists the files.

A piece is what is dropped as a whole: all rows of one table in a time range. It becomes files of JSON lines, one user
and day each, and a manifest with the name, size and SHA-256 of each file, and those of the manifest before it. So the
newest manifest, which the database knows, vouches for every byte of the archive.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, HOUR, Instant, moment, rfc3339
from oncue.domain.reference import Reference

TURN = "archive"
IN_USE = HOUR  # an archive with a turn in this time is in use, by whichever scheduler
FORMAT = 1  # of manifests and lines
PREFIX = "archive/v1"
LARGE = f"{PREFIX}/large"
NOBODY = UserNumber(0)  # whose rows belong to no user


class Table(StrEnum):
    HISTORY = "history"
    LEDGER = "ledger"
    AUDIT = "audit"


class Piece(msgspec.Struct, frozen=True):
    """All rows of a table in [from_at, until_at). `name` is the engine's own."""

    table: Table
    name: str
    from_at: Instant
    until_at: Instant


class ArchivedFile(msgspec.Struct, frozen=True):
    """One file of JSON lines, compressed. `size` and `sha256` are those of the compressed bytes."""

    key: str
    user: UserNumber
    rows: int
    raw: int  # bytes before compression
    size: int
    sha256: str

    @property
    def reference(self) -> Reference:
        return Reference(self.key, self.size, self.sha256)


class Skipped(msgspec.Struct, frozen=True):
    """A piece that somebody let be dropped without an archive."""

    piece: str
    table: Table
    from_time: str
    until_time: str
    rows: int
    skip_time: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What one piece has become. `before` is the manifest before it: together they are a chain."""

    format: int = FORMAT
    number: int
    piece: str
    table: Table
    from_time: str
    until_time: str
    first: str | None  # the times of its first and its last row
    last: str | None
    rows: int
    schema: int  # of the database it was read from
    files: tuple[ArchivedFile, ...]
    before: Reference | None = None
    skipped: tuple[Skipped, ...] = ()  # since the manifest before
    purged: tuple[UserNumber, ...] = ()  # users whose files were removed because they were forgotten


class Writing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece on its way into the archive."""

    number: int
    piece: Piece
    after: str | None = None  # where reading continues
    read: bool = False  # all rows are in files
    files: tuple[ArchivedFile, ...] = ()
    checked: int = 0  # of the files, read back
    first: Instant | None = None
    last: Instant | None = None
    listed: bool = False  # its manifest is the head of the chain: what is left is to mark it

    @property
    def name(self) -> str:
        return piece_name(self.piece, self.number)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the archive has come, stored as the position of its turn: whoever takes the next one continues there.

    Numbers only rise, and a file's name has the number: whatever bears the number of an attempt that was given up may
    be deleted.
    """

    number: int = 0  # the last one that was used
    head: Reference | None = None  # the newest manifest
    writing: Writing | None = None
    skipped: tuple[Skipped, ...] = ()  # until the next manifest has them
    to_delete: tuple[str, ...] = ()  # files of an attempt that was given up, or of users who were forgotten


def read_progress(position: bytes) -> Progress:
    """Decode a position. One that cannot be read is an error: a new chain would hide the old one."""
    return msgspec.json.decode(position, type=Progress) if position else Progress()


def short_name(piece: Piece) -> str:
    """Return the name of a piece for people."""
    return f"{piece.table}-{moment(piece.from_at):%Y%m%dT%H%M%SZ}"


def piece_name(piece: Piece, number: int) -> str:
    return f"{short_name(piece)}-{number}"


def file_key(writing: Writing, user: UserNumber, at: Instant, n: int) -> str:
    day = rfc3339(at)[:10]
    return f"{PREFIX}/{writing.piece.table}/dt={day}/user={user}/part-{writing.name}-{n}.jsonl.zst"


def folders_of(piece: Piece) -> Iterator[str]:
    """Yield the folders that have the files of a piece, one for each of its days."""
    for day in range(piece.from_at // DAY, -(-piece.until_at // DAY)):
        yield f"{PREFIX}/{piece.table}/dt={rfc3339(Instant(day * DAY))[:10]}"


def large_folder(user: UserNumber) -> str:
    return f"{LARGE}/user={user}"


def large_key(user: UserNumber, at: Instant, sha256: str) -> str:
    """Where a payload or result is that was in object storage: once a day, however many runs had it."""
    return f"{large_folder(user)}/dt={rfc3339(at)[:10]}/{sha256}"


def manifest_key(piece: str, forgotten: UserNumber | None = None) -> str:
    """Each user is forgotten once, so the manifests that are rewritten for it have names that no others have."""
    return f"{PREFIX}/manifest/{piece}{'' if forgotten is None else f'-without-{forgotten}'}.json"


def manifest_of(progress: Progress, writing: Writing, schema: int) -> Manifest:
    return Manifest(
        number=writing.number,
        piece=writing.name,
        table=writing.piece.table,
        from_time=rfc3339(writing.piece.from_at),
        until_time=rfc3339(writing.piece.until_at),
        first=None if writing.first is None else rfc3339(writing.first),
        last=None if writing.last is None else rfc3339(writing.last),
        rows=writing.rows,
        schema=schema,
        files=writing.files,
        before=progress.head,
        skipped=progress.skipped,
    )


def without_user(manifest: Manifest, uid: UserNumber, before: Reference | None) -> Manifest:
    """Return the manifest without the files of a user, in a chain that has been rewritten up to `before`."""
    files = tuple(file for file in manifest.files if file.user != uid)
    purged = manifest.purged if len(files) == len(manifest.files) else tuple(sorted({*manifest.purged, uid}))
    rows = sum(file.rows for file in files)
    return msgspec.structs.replace(manifest, files=files, rows=rows, purged=purged, before=before)


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode_manifest(content: bytes) -> Manifest:
    return msgspec.json.decode(content, type=Manifest)
