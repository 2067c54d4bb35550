"""Object storage compared with the database: what is missing, changed or unknown, and what only looks like it."""

import os
from pathlib import Path

import pytest

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, HOUR, SECOND, Instant
from oncue.domain.reference import Kind, Reference, object_key
from oncue.engines.port import SELDOM, StoredObject
from oncue.services import storage_check
from oncue.services.storage_check import Checked, Wrong, check_storage
from oncue.settings import Settings
from oncue.storage.objects import ObjectStorage
from oncue.storage.open import open_storage
from oncue_conformance.store import Store

CONTENT = b"12345"


class Shelf:
    """Storage in a folder, and a run with a large payload that something refers to, looked at once."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder / "objects"
        self.storage = open_storage(Settings(data_dir=str(folder)), store.clock)

    async def put(self, *, referred: bool = True, known: bool = True) -> str:
        key = object_key(Kind.PAYLOAD, UserNumber(1), self.store.now, self.store.new_id().bytes)
        to = Reference.to(key, CONTENT)
        new = await self.store.new_one_shot(payload=to.encoded())
        if known:
            await self.store.objects.add(
                [StoredObject(key, self.store.uid, new.job.job_id, Kind.PAYLOAD, to.size)], self.store.now
            )
        await self.storage.put(key, CONTENT)
        if referred:
            await self.store.create(new)
        return key

    def written(self, key: str, at: Instant) -> None:
        os.utime(self.folder / key, (at / SECOND, at / SECOND))

    async def check(self) -> Checked:
        async def now() -> Instant:
            return self.store.now

        return await check_storage(self.store.engine, self.storage, now)

    async def wrong(self) -> list[tuple[Wrong, str]]:
        return sorted((one.wrong, one.key) for one in (await self.check()).findings)


@pytest.fixture
def shelf(store: Store, tmp_path: Path) -> Shelf:
    return Shelf(store, tmp_path)


async def test_what_is_as_it_should_be_is_counted(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_check, "PAGE", 2)
    monkeypatch.setattr("oncue.storage.objects.PAGE", 2)
    for _ in range(5):
        await shelf.put()
    assert await shelf.check() == Checked(known=5, stored=5, bytes=25)


async def test_an_object_that_is_referred_to_is_missing_once_it_was_looked_at(shelf: Shelf) -> None:
    key = await shelf.put()
    (shelf.folder / key).unlink()
    assert await shelf.wrong() == []  # it may not have been put yet

    shelf.store.advance(DAY + 1)
    assert await shelf.wrong() == []  # perhaps nothing refers to it
    assert not (await shelf.store.objects.look(shelf.store.now)).unused
    assert await shelf.wrong() == [(Wrong.MISSING, key)]

    shelf.store.advance(SELDOM)
    assert await shelf.wrong() == []  # the next look decides


async def test_an_object_with_another_size(shelf: Shelf) -> None:
    key = await shelf.put()
    (shelf.folder / key).write_bytes(CONTENT[:3])
    [found] = (await shelf.check()).findings
    assert (found.wrong, found.key, found.size, found.expected) == (Wrong.OTHER_SIZE, key, 3, 5)


async def test_an_object_that_nobody_knows_is_told_of_after_a_day(shelf: Shelf) -> None:
    key = await shelf.put(known=False, referred=False)
    shelf.written(key, Instant(shelf.store.now - 23 * HOUR))
    assert await shelf.wrong() == []

    shelf.written(key, Instant(shelf.store.now - 25 * HOUR))
    assert await shelf.wrong() == [(Wrong.UNKNOWN, key)]


async def test_an_object_that_was_deleted_since_it_was_listed_is_not_unknown(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await shelf.put(known=False, referred=False)
    shelf.written(key, Instant(shelf.store.now - 2 * DAY))
    size = ObjectStorage.size

    async def deleted_first(self: ObjectStorage, key: str) -> int | None:
        (shelf.folder / key).unlink()
        return await size(self, key)

    monkeypatch.setattr(ObjectStorage, "size", deleted_first)
    assert await shelf.wrong() == []


async def test_what_a_killed_writer_left_is_told_of_unless_it_goes_with_its_object(shelf: Shelf) -> None:
    known, unknown = f"{await shelf.put()}#1", "v1/log/1/2026-11-17/aa#2"
    for key in (known, unknown):
        (shelf.folder / key).parent.mkdir(parents=True, exist_ok=True)
        (shelf.folder / key).write_bytes(b"half")
        shelf.written(key, Instant(shelf.store.now - 2 * DAY))
    assert await shelf.wrong() == [(Wrong.UNFINISHED, unknown)]


async def test_few_are_named_and_all_are_counted(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_check, "MOST_NAMED", 2)
    for _ in range(3):
        shelf.written(await shelf.put(known=False, referred=False), Instant(shelf.store.now - 2 * DAY))
    found = await shelf.check()
    assert (len(found.findings), found.wrong) == (2, {Wrong.UNKNOWN: 3})
