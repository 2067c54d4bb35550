"""The first admin key: one, whoever starts at once, and none lost by a crash."""

import asyncio
import os
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest

from oncue.domain.errors import OncueError
from oncue.domain.keys import key_hash, well_formed
from oncue.engines.port import Key, Role
from oncue.services.first_key import FILE, first_key
from oncue_conformance.store import Store


async def test_an_empty_store_gets_one_and_keeps_it_in_a_file_for_its_owner(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "data"

    text = await first_key(store.engine, store.clock, folder)

    assert text is not None
    assert well_formed(text)
    assert [(file.name, file.read_text().strip()) for file in folder.iterdir()] == [(FILE, text)]
    assert S_IMODE((folder / FILE).stat().st_mode) == 0o600
    stored = await store.accounts.key(key_hash(text))
    assert stored is not None
    assert (stored.role, stored.user_id) == (Role.ADMIN, "admin")


async def test_the_file_is_its_owners_alone_before_anything_is_in_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, seen = os.fdopen, []

    def looked_at(descriptor: int, *how: Any) -> Any:
        found = os.fstat(descriptor)
        seen.append((S_IMODE(found.st_mode), found.st_size))
        return opened(descriptor, *how)

    monkeypatch.setattr(os, "fdopen", looked_at)
    before = os.umask(0)
    try:
        await first_key(store.engine, store.clock, tmp_path)
    finally:
        os.umask(before)

    assert seen == [(0o600, 0)]


async def test_a_store_that_has_keys_gets_none(store: Store, tmp_path: Path) -> None:
    await first_key(store.engine, store.clock, tmp_path / "one")

    assert await first_key(store.engine, store.clock, tmp_path / "other") is None
    assert not (tmp_path / "other" / FILE).exists()


async def test_of_many_that_start_together_one_makes_it(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "data"

    made = await asyncio.gather(*(first_key(store.engine, store.clock, folder) for _ in range(8)))

    [text] = [key for key in made if key is not None]
    assert [file.read_text().strip() for file in folder.iterdir()] == [text]
    assert len(await store.accounts.keys()) == 1


@pytest.mark.parametrize("applied", [False, True])
async def test_a_crash_while_making_it_loses_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    add = store.accounts.add_first_key

    async def crash(key: Key) -> Any:
        if applied:
            await add(key)
        raise KeyboardInterrupt

    monkeypatch.setattr(store.accounts, "add_first_key", crash)
    with pytest.raises(KeyboardInterrupt):
        await first_key(store.engine, store.clock, tmp_path)
    monkeypatch.setattr(store.accounts, "add_first_key", add)

    text = await first_key(store.engine, store.clock, tmp_path)

    assert text is not None
    assert (tmp_path / FILE).read_text().strip() == text
    assert await store.accounts.key(key_hash(text)) is not None


async def test_who_comes_second_completes_what_the_first_has_not(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find no keys. The first is stopped when its key counts and is not where it belongs yet."""
    add, rivals = store.engine.accounts.add_first_key, list[str | None]()

    async def overtaken(key: Key) -> bool:
        monkeypatch.setattr(store.engine.accounts, "add_first_key", add)
        added = await add(key)
        monkeypatch.setattr(store.engine.accounts, "keys", none_yet)
        rivals.append(await first_key(store.engine, store.clock, tmp_path))
        return added

    async def none_yet() -> list[Key]:
        return []

    monkeypatch.setattr(store.engine.accounts, "add_first_key", overtaken)

    mine = await first_key(store.engine, store.clock, tmp_path)

    [rival] = rivals
    assert mine is None, "it is told once"
    assert rival is not None
    assert kept_in(tmp_path) == {FILE: rival}


def kept_in(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text().strip() for file in folder.glob(f"{FILE}*")}


async def test_a_place_that_cannot_be_written_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()

    with pytest.raises(OncueError, match=rf"cannot write the admin key to .*/{FILE} \(Is a directory\)"):
        await first_key(store.engine, store.clock, tmp_path)

    (tmp_path / FILE).rmdir()
    assert await first_key(store.engine, store.clock, tmp_path) == (tmp_path / FILE).read_text().strip()
