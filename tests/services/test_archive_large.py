"""Large values go to the archive as copies beside its files, and with their user."""

from typing import Any

import pytest
from tests.services.archive_site import Death, Killed, Site

from oncue.domain.archive import Table
from oncue.domain.errors import StorageUnavailable
from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY
from oncue.domain.reference import Kind, Reference, object_key
from oncue.domain.run import State
from oncue.engines.port import StoredObject
from oncue.services import archiving
from oncue.services.archive_forgetting import forget_in_archive
from oncue.services.archive_large import large_in
from oncue.services.archive_reading import files_of, verify
from oncue.services.archiving import EVERY

LARGE = b'"' + b"x" * 300_000 + b'"'


async def large_run(site: Site, content: bytes = LARGE, uid: UserNumber | None = None) -> Reference:
    """A run that has ended, with its payload in object storage."""
    store = site.store
    owner, run_id = store.uid if uid is None else uid, store.new_id()
    reference = Reference.to(object_key(Kind.PAYLOAD, owner, store.now, run_id.bytes), content)
    await store.objects.add([StoredObject(reference.key, owner, run_id, Kind.PAYLOAD, len(content))], store.now)
    await site.objects.put(reference.key, content)
    await store.end(await store.one_shot(uid=owner, payload=reference.encoded()), State.SUCCEEDED)
    return reference


def copies(site: Site) -> list[str]:
    return sorted(str(path.relative_to(site.folder)) for path in site.folder.glob("archive/v1/large/*/*/*"))


async def test_a_line_refers_to_a_copy_that_is_there_when_its_run_is_gone(site: Site) -> None:
    references = [await large_run(site), await large_run(site), await large_run(site, LARGE + b" ")]
    site.store.advance(14 * DAY)
    await site.archive_and_drop()
    await site.objects.delete([one.key for one in references])

    assert await site.in_store() == []
    lines = await site.lines(Table.HISTORY)
    told = [line["objects"]["payload"] for line in lines]
    assert sorted(one["sha256"] for one in told) == sorted(one.sha256 for one in references)
    assert sorted({one["key"] for one in told}) == copies(site), "the same value once a day"
    for one in told:
        assert f"/user={site.store.uid}/dt=" in one["key"]
        assert (await site.storage.get(Reference(**one))).strip() == LARGE
    found = await verify(site.storage, (await site.progress()).head)
    assert (found.large, found.wrong) == (2, ())


def test_older_lines_name_values_that_were_not_archived() -> None:
    assert list(large_in(b'{"objects":{"result":{"key":"v1/result/1/2026-08-19/aa","size":1,"sha256":""}}}\n')) == []
    assert list(large_in(b'{"objects":{}}\n{"objects":{"result":{"key":null,"size":1,"sha256":""}}}\n{}\n')) == []


async def test_a_copy_that_changed_is_named(site: Site) -> None:
    await large_run(site)
    site.store.advance(14 * DAY)
    await site.archive_and_drop()
    [key] = copies(site)
    (site.folder / key).write_bytes(LARGE.replace(b"x", b"y", 1))

    [wrong] = (await verify(site.storage, (await site.progress()).head)).wrong

    assert wrong.startswith(key)


async def test_a_copy_that_is_not_as_it_was_written_is_written_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await large_run(site)
    site.store.advance(14 * DAY)
    put = site.storage.put

    async def flip(key: str, content: bytes) -> None:
        await put(key, content.replace(b"x", b"y", 1) if "/large/" in key else content)

    with monkeypatch.context() as broken:
        broken.setattr(site.storage, "put", flip)
        await site.archive()
        await site.drop()
        assert len(await site.in_store()) == 1
    await site.archive_and_drop()

    assert await site.in_store() == []
    assert (await verify(site.storage, (await site.progress()).head)).wrong == ()


async def test_a_value_that_storage_has_lost_keeps_no_history_back(site: Site, logged: list[Any]) -> None:
    reference = await large_run(site)
    site.store.advance(14 * DAY)
    await site.objects.delete([reference.key])
    await site.archive_and_drop()

    [line] = await site.lines(Table.HISTORY)
    assert line["objects"]["payload"] == {"key": None, "size": len(LARGE), "sha256": reference.sha256}
    assert [line["log_level"] for line in logged if line["kind"] == "archive_lost"] == ["error"]
    assert await site.in_store() == []
    assert (await verify(site.storage, (await site.progress()).head)).wrong == ()


async def test_while_storage_is_away_nothing_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await large_run(site)
    site.store.advance(14 * DAY)

    async def away(_: Reference) -> bytes:
        raise StorageUnavailable("storage is unavailable")

    with monkeypatch.context() as broken:
        broken.setattr(site.objects, "get", away)
        await site.archive()
        await site.drop()
        assert len(await site.in_store()) == 1
    await site.archive_and_drop()

    assert await site.in_store() == []
    assert len(copies(site)) == 1


async def test_a_step_copies_only_so_much(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a page of rows with 64 MiB each would take longer than a turn, and be begun again and again."""
    monkeypatch.setattr(archiving, "MOST_LARGE", 2 * len(LARGE))
    for n in range(5):
        await large_run(site, LARGE + b" " * n)
    site.store.advance(14 * DAY)
    copied: list[int] = []
    get, finish = site.objects.get, site.store.engine.maintenance.finish_turn

    async def counting(reference: Reference) -> bytes:
        copied[-1] += reference.size
        return await get(reference)

    async def finished(*given: Any) -> bool:
        copied.append(0)
        return await finish(*given)

    monkeypatch.setattr(site.objects, "get", counting)
    monkeypatch.setattr(site.store.engine.maintenance, "finish_turn", finished)
    await site.archive_and_drop()

    assert max(copied) < 4 * len(LARGE)
    assert len(copies(site)) == 5 == len(await site.lines(Table.HISTORY))


# Each day every third call; on PostgreSQL, where a round makes and drops a dozen tables, every fourth. All by `long`.
@pytest.mark.parametrize(
    ("engine_name", "step"),
    [
        ("sqlite", 3),
        pytest.param("sqlite", 1, marks=pytest.mark.long),
        pytest.param("postgres", 4, marks=pytest.mark.postgres),
        pytest.param("postgres", 1, marks=(pytest.mark.postgres, pytest.mark.long)),
    ],
)
async def test_a_process_may_be_killed_at_any_call(site: Site, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    death, killed, last, rounds = Death(site, "after", monkeypatch), True, 0, 0
    while killed:
        last, rounds, killed = last + step, rounds + 1, False
        await large_run(site, LARGE + b" " * last)
        site.store.advance(14 * DAY)
        death.after(last)
        try:
            await site.process().run_once()
        except Killed:
            killed = True
        death.after(0)
        site.store.advance(EVERY)
        await site.archive_and_drop(2)
        assert await site.in_store() == []

    told = [line["objects"]["payload"]["key"] for line in await site.lines(Table.HISTORY)]
    assert len(told) == rounds > 5
    assert sorted(told) == copies(site)
    assert (await verify(site.storage, (await site.progress()).head)).wrong == ()


async def test_with_its_user_everything_goes_also_what_a_killed_process_has_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = site.store
    await large_run(site)
    await large_run(site, uid=store.stranger)
    store.advance(14 * DAY)
    await site.archive_and_drop()
    late = [await large_run(site), await large_run(site, LARGE + b" ")]
    await store.end(await store.one_shot(uid=store.stranger), State.SUCCEEDED)
    store.advance(14 * DAY)
    finish = store.engine.maintenance.finish_turn

    async def killed(name: str, taken: bytes, position: bytes) -> bool:
        if b'"files"' in position:
            raise Killed
        return await finish(name, taken, position)

    with monkeypatch.context() as deadly:
        deadly.setattr(store.engine.maintenance, "finish_turn", killed)
        with pytest.raises(Killed):
            await site.process().run_once()
    mine = f"/user={store.uid}/"
    left = [path for path in site.folder.rglob("*.zst") if mine in str(path)]
    known = [file.key async for file in files_of(site.storage, (await site.progress()).head, store.uid)]
    assert len(left) == len(known) + 1, "a file that no manifest and no position names"
    assert len(copies(site)) == 2 + len(late)

    store.advance(EVERY)
    while not await forget_in_archive(store.engine, site.storage, store.clock, store.uid):
        store.advance(EVERY)

    assert [path for path in site.folder.rglob("*") if path.is_file() and mine in str(path)] == []
    assert len(copies(site)) == 1
    assert (await verify(site.storage, (await site.progress()).head)).wrong == ()


async def test_what_killed_writers_left_goes_with_the_next_put(site: Site) -> None:
    """A folder's files are written beside their place first; see also tests/storage/test_folder.py."""
    key = "archive/v1/large/user=1/dt=2026-08-19/aa"
    (site.folder / key).parent.mkdir(parents=True)
    for number in (1, 2):
        (site.folder / f"{key}#{number}").write_bytes(b"half")
    await site.storage.put(key, b"1")
    assert [path.name for path in (site.folder / key).parent.iterdir()] == ["aa"]
