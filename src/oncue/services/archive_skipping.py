"""Let a piece be dropped that is not archived: a person's decision, for when the disk fills and the archive is away."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from oncue.domain.archive import TURN, Piece, Progress, Skipped, Table, read_progress, short_name
from oncue.domain.errors import Conflict, NotFound
from oncue.domain.instants import Instant, rfc3339
from oncue.engines.port import AuditEntry, Engine
from oncue.services.archiving import keys_of

ACTION = "archive.skip"
TRIES = 10  # a scheduler that archives may store its own progress in between


async def find(engine: Engine, name: str, now: Instant) -> tuple[Piece, int]:
    """Return the piece that is next in its table and has this name, and how many rows it has."""
    found = [await engine.archiving.next_piece({table: now}) for table in Table]
    named = {short_name(piece): piece for piece in found if piece is not None}
    if name not in named:
        nexts = ", ".join(sorted(named)) or "none"
        raise NotFound(f"{name!r} is unknown, archived already, or not the oldest of its table. Next are: {nexts}.")
    return named[name], await engine.archiving.count(named[name])


async def skip(engine: Engine, piece: Piece, rows: int, now: Instant) -> Skipped:
    """Note that a piece is not archived, for the audit log and the next manifest; then mark it, so that it is dropped.

    Who is killed in between has only noted it, and repeats the call.
    """
    times = (rfc3339(piece.from_at), rfc3339(piece.until_at))
    one = Skipped(short_name(piece), piece.table, *times, rows, rfc3339(now))
    detail = msgspec.json.encode({"piece": one.piece, "rows": rows})
    for _ in range(TRIES):
        if await _noted(engine, piece, one, now):
            await engine.audit.record([AuditEntry(now, None, None, ACTION, detail=detail)])
            if not await engine.archiving.mark(piece, rows):
                raise Conflict(f"{one.piece} has more rows by now, or is gone. Check it, and retry.")
            return one
    raise Conflict("A scheduler is archiving at this moment: retry.")


async def _noted(engine: Engine, piece: Piece, one: Skipped, now: Instant) -> bool:
    turn = (await engine.history.gauges(now)).turns.get(TURN)
    if turn is None:
        raise Conflict("No scheduler has archived anything yet: old history is dropped without this.")
    progress = read_progress(turn.position)
    if progress.writing is not None and progress.writing.piece == piece and progress.writing.listed:
        raise Conflict(f"{one.piece} is archived already: it is dropped soon.")
    after = msgspec.json.encode(_with(progress, piece, one))
    return await engine.maintenance.finish_turn(TURN, turn.position, after)


def _with(progress: Progress, piece: Piece, one: Skipped) -> Progress:
    """Return the progress with a skipped piece, and without what is written of it."""
    others = tuple(other for other in progress.skipped if other.piece != one.piece)
    writing, gone = progress.writing, progress.to_delete
    if writing is not None and writing.piece == piece:
        gone, writing = (*gone, *keys_of(writing)), None
    return replace(progress, skipped=(*others, one), writing=writing, to_delete=gone)
