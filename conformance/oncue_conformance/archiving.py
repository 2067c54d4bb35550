"""What the archive reads and marks: pieces that are old enough, each row of them once, in an order that stays."""

from __future__ import annotations

from oncue.domain.archive import IN_USE, TURN, Piece, Table
from oncue.domain.instants import DAY, MINUTE, SECOND, Instant
from oncue.domain.ledger import Entry
from oncue.domain.policy import CatchUp
from oncue.domain.run import RunView, State
from oncue.engines.port import EVERYBODY, ArchiveRow, AuditEntry
from oncue_conformance.store import Store, everything, ids

ALL = tuple(Table)


async def pieces(store: Store, table: Table, before: Instant | None = None) -> list[Piece]:
    """Mark one piece after the other, as the archive does; return them."""
    found: list[Piece] = []
    while True:
        piece = await store.archiving.next_piece({table: store.now if before is None else before})
        if piece is None or (found and piece == found[-1]):
            return found
        found.append(piece)
        assert await store.archiving.mark(piece, len(await rows(store, piece)))


async def rows(store: Store, piece: Piece, limit: int = 2) -> list[ArchiveRow]:
    return await everything(lambda after: store.archiving.rows(piece, limit, after))


async def runs_of(store: Store, piece: Piece) -> list[RunView]:
    return [row.of for row in await rows(store, piece) if isinstance(row.of, RunView)]


async def test_there_is_no_piece_that_is_too_young(store: Store) -> None:
    await store.end(await store.one_shot(), State.SUCCEEDED)
    await store.audit.record([AuditEntry(store.now, store.uid, None, "a.b")])
    store.advance(DAY // 2)

    assert await store.archiving.next_piece(dict.fromkeys(ALL, Instant(store.now - DAY))) is None
    assert await store.archiving.next_piece({}) is None


async def test_pieces_come_oldest_first_until_they_are_marked(store: Store) -> None:
    runs = []
    for _ in range(3):
        runs.append(await store.one_shot(payload=b"7"))
        await store.end(runs[-1], State.SUCCEEDED)
        store.advance(2 * DAY)

    found = await pieces(store, Table.HISTORY)
    held = [run.run_id for piece in found for run in await runs_of(store, piece)]
    assert held == runs
    assert [piece.until_at for piece in found] == sorted(piece.until_at for piece in found)
    assert await store.archiving.next_piece({Table.HISTORY: store.now}) is None


async def test_every_run_of_a_piece_is_read_once_with_its_payload(store: Store) -> None:
    for uid in (store.stranger, store.uid):
        for n in range(3):
            await store.end(await store.one_shot(uid=uid, payload=b"%d" % n), State.SUCCEEDED)
    job_id = await store.recurring(every=MINUTE, payload=b'"old"')
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    [run_id] = await store.claimable()
    await store.end(run_id, State.DEAD)
    await store.edit(job_id, payload=b'"new"')
    store.advance(2 * DAY)

    piece = await store.archiving.next_piece({Table.HISTORY: store.now})
    assert piece is not None
    found = await rows(store, piece)

    views = [row.of for row in found if isinstance(row.of, RunView)]
    assert len({view.run_id for view in views}) == len(found) == 7
    assert [row.uid for row in found] == sorted(row.uid for row in found)  # a user's rows are together
    assert all(row.at == view.ended_at and row.uid == view.uid for row, view in zip(found, views, strict=True))
    dead = next(view for view in views if view.run_id == run_id)
    assert (dead.state, dead.payload, dead.error_type is None) == (State.DEAD, b'"old"', False)
    assert {view.payload for view in views if view.run_id != run_id} == {b"0", b"1", b"2"}
    assert found == await rows(store, piece, 100)


async def test_what_became_no_run_is_read_with_its_user(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, catch_up=CatchUp.SKIP)
    for _ in range(3):
        store.advance(2 * MINUTE + 30 * SECOND)
        await store.plan_all()
    told = await store.ledger(job_id)
    store.advance(2 * DAY)

    found = [row for piece in await pieces(store, Table.LEDGER) for row in await rows(store, piece)]

    entries = [row.of for row in found if isinstance(row.of, Entry)]
    assert sorted(entries, key=lambda one: one.first) == sorted(told, key=lambda one: one.first)
    assert {row.uid for row in found} == {store.uid}


async def test_the_audit_log_is_read_whole(store: Store) -> None:
    entries = [AuditEntry(store.at(n), store.uid if n % 2 else None, None, f"a.{n}", detail=b"{}") for n in range(5)]
    await store.audit.record(entries)
    store.advance(2 * DAY)

    found = [row for piece in await pieces(store, Table.AUDIT) for row in await rows(store, piece)]

    assert [row.of for row in found] == entries
    assert {row.uid for row in found} == {store.uid, EVERYBODY}


async def test_a_piece_that_has_more_rows_than_were_read_is_not_marked(store: Store) -> None:
    """What came after it was read would be dropped unarchived. What was purged since is not missed."""
    for table in ALL:
        await store.end(await store.one_shot(), State.SUCCEEDED)
        await store.audit.record([AuditEntry(store.now, store.uid, None, "a.b")])
        await store.recurring(every=MINUTE, catch_up=CatchUp.SKIP)
        store.advance(3 * MINUTE + 30 * SECOND)
        await store.plan_all()
        store.advance(2 * DAY)
        piece = await store.archiving.next_piece({table: store.now})
        assert piece is not None
        n = len(await rows(store, piece))

        assert await store.archiving.count(piece) == n
        assert not await store.archiving.mark(piece, n - 1)
        assert await store.archiving.next_piece({table: store.now}) == piece
        assert await store.archiving.mark(piece, n + 1)
        assert await store.archiving.mark(piece, n)  # a repeat
        assert await store.archiving.next_piece({table: store.now}) != piece


async def test_a_piece_that_is_gone_has_no_rows_and_no_mark(store: Store) -> None:
    await store.end(await store.one_shot(), State.SUCCEEDED)
    store.advance(2 * DAY)
    piece = await store.archiving.next_piece({Table.HISTORY: store.now})
    assert piece is not None
    store.advance(40 * DAY)
    await store.maintenance.maintain(store.now, DAY)

    assert await rows(store, piece) == []
    assert not await store.archiving.mark(piece, 1)
    assert await store.archiving.count(piece) == 0
    assert await store.archiving.next_piece({Table.HISTORY: store.now}) is None


async def test_users_are_found_by_name_and_by_number(store: Store) -> None:
    assert await store.accounts.find("ada") == store.uid
    assert await store.accounts.find("nobody") is None
    numbers = [store.uid, store.stranger, type(store.uid)(999)]
    assert await store.accounts.names(numbers) == {store.uid: "ada", store.stranger: "bob"}
    assert await store.accounts.names([]) == {}
    assert ids(await store.runs()) == []


async def test_while_any_process_archives_the_others_drop_nothing_that_is_not_archived(store: Store) -> None:
    """A scheduler without the setting must not drop what another one has not come to yet."""
    run_id = await store.one_shot()
    await store.end(run_id, State.SUCCEEDED)
    store.advance(40 * DAY)
    assert await store.maintenance.take_turn(TURN, store.now, MINUTE) == b""

    await store.maintenance.maintain(store.now, DAY)
    assert await store.state(run_id) is State.SUCCEEDED
    store.advance(IN_USE + 2 * MINUTE)
    await store.maintenance.maintain(store.now, DAY)

    assert await store.history.run(None, run_id) is None
