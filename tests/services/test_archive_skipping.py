"""Skipping a piece: dropped without an archive, by somebody's decision, and told wherever one would look."""

import json

import pytest
from tests.services.archive_site import Death, Killed, Site

from oncue.domain.archive import Piece, Table, short_name
from oncue.domain.errors import Conflict, NotFound, StorageUnavailable
from oncue.domain.instants import rfc3339
from oncue.services.archive_reading import chain, verify
from oncue.services.archive_skipping import ACTION, find, skip
from oncue.services.archiving import EVERY


async def oldest(site: Site) -> str:
    piece = await site.store.archiving.next_piece({Table.HISTORY: site.store.now})
    assert piece is not None
    return short_name(piece)


async def skipped(site: Site, name: str) -> int:
    piece, rows = await find(site.store.engine, name, site.store.now)
    return (await skip(site.store.engine, piece, rows, site.store.now)).rows


async def away(*_: object) -> None:
    raise StorageUnavailable("storage is unavailable")


async def test_it_is_dropped_while_the_archive_is_away_and_the_next_manifest_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, name = await site.some_history(recurring=False), await oldest(site)
    with monkeypatch.context() as broken:
        broken.setattr(site.storage, "put", away)
        await site.archive()
        assert await skipped(site, name) == 6
        await site.archive()
        await site.drop()
        left = await site.in_store()
        assert len(left) == 6
        assert {*left} < {*runs}
    [noted] = (await site.progress()).skipped
    assert (noted.piece, noted.rows, noted.skip_time) == (name, 6, rfc3339(site.store.now - 2 * EVERY))
    [deed] = [one for one in (await site.store.audit.entries()).items if one.action == ACTION]
    assert json.loads(deed.detail or b"") == {"piece": name, "rows": 6}

    await site.archive_and_drop()

    assert await site.runs() == left
    links = [manifest async for _, manifest in chain(site.storage, (await site.progress()).head)]
    assert [one for manifest in links for one in manifest.skipped] == [noted]
    assert (await site.progress()).skipped == ()
    assert (await verify(site.storage, (await site.progress()).head)).wrong == ()


async def test_what_was_written_of_it_is_deleted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.some_history(recurring=False)
    name = await oldest(site)
    with monkeypatch.context() as broken:
        broken.setattr(site.storage, "get", away)
        await site.archive()
    assert list(site.folder.rglob("*.zst"))
    await skipped(site, name)
    await site.archive_and_drop()

    assert len(await site.runs()) == 6  # and what is there is what the manifests say
    assert await site.in_store() == []


async def test_a_piece_that_is_unknown_archived_or_not_next_is_refused(site: Site) -> None:
    await site.some_history(recurring=False)
    name = await oldest(site)
    with pytest.raises(Conflict, match="No scheduler has archived"):
        await skipped(site, name)
    await site.archive()
    for wrong in ("x", name, "history-20200101T000000Z"):
        with pytest.raises(NotFound, match="unknown, archived already"):
            await skipped(site, wrong)
    assert (await site.progress()).skipped == ()


async def test_a_piece_whose_manifest_is_written_is_archived(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.some_history(recurring=False)
    name = await oldest(site)

    mark = site.store.engine.archiving.mark

    async def killed(piece: Piece, rows: int) -> bool:
        if piece.table is Table.HISTORY:
            raise Killed
        return await mark(piece, rows)

    with monkeypatch.context() as deadly:
        deadly.setattr(site.store.engine.archiving, "mark", killed)
        with pytest.raises(Killed):
            await site.process().run_once()
    with pytest.raises(Conflict, match="archived already"):
        await skipped(site, name)


async def test_rows_that_came_meanwhile_are_not_lost_unasked(site: Site) -> None:
    await site.some_history(recurring=False)
    await site.store.maintenance.take_turn("archive", site.store.now, EVERY)
    piece, rows = await find(site.store.engine, await oldest(site), site.store.now)

    with pytest.raises(Conflict, match="more rows by now"):
        await skip(site.store.engine, piece, rows - 1, site.store.now)
    assert await oldest(site) == short_name(piece)


async def test_one_who_is_killed_repeats_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.some_history(recurring=False)
    await site.store.maintenance.take_turn("archive", site.store.now, EVERY)
    name, death, killed, last = await oldest(site), Death(site, "after", monkeypatch), True, 0
    while killed and await oldest(site) == name:
        last, killed = last + 1, False
        death.after(last)
        try:
            await skipped(site, name)
        except Killed:
            killed = True
        death.after(0)

    assert last > 2
    assert [one.piece for one in (await site.progress()).skipped] == [name]
    assert await oldest(site) != name
