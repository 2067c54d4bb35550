"""Forgetting a user: of whoever was forgotten nothing is left but a number, wherever a process was killed."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from tests.services.archive_site import Death, Killed, Site

from oncue.domain.archive import TURN, Table
from oncue.domain.ids import KeyId, RunId
from oncue.domain.instants import HOUR, SECOND
from oncue.domain.keys import number_name
from oncue.domain.notices import trial_notice
from oncue.domain.notify import Entry, Event, Webhook
from oncue.domain.reference import Kind, Reference, object_key
from oncue.domain.run import State
from oncue.engines.port import AuditEntry, JobQuery, Key, Role, StoredObject
from oncue.services.archive_reading import chain, verify
from oncue.services.archiving import EVERY, GIVE_WAY
from oncue.services.finishing import Finishing
from oncue.services.forgetting import STILL_TRUSTED, Forgetting
from oncue.services.storage_cleaning import StorageCleaning
from oncue.storage.compression import decompress

SECRET = b"only ada knows"
NAME = "ada-lovelace"
TOLD = Entry((Event.FAILED,), webhook=Webhook(f"https://example.org/{NAME}"))


class Life:
    """A user with something of everything, and another one who has the same."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.store = site.store

    async def begin(self) -> None:
        store = self.store
        store.uid = await store.accounts.user(NAME, store.now)
        for uid, role in ((store.uid, Role.MEMBER), (store.stranger, Role.ADMIN)):
            name = (await store.accounts.names([uid]))[uid]
            await store.accounts.add_key(Key(KeyId(store.new_id()), store.new_id().bytes, uid, name, role, store.now))
        for _ in range(2):
            await self._one_day()
            await self.site.archive_and_drop()
        await self._one_day(old=False)
        waits = trial_notice(store.uid, TOLD, RunId(store.new_id()), store.now)
        await store.notices.add([waits], store.now)

    async def _one_day(self, *, old: bool = True) -> None:
        store = self.store
        for uid in (store.uid, store.stranger):
            words = SECRET if uid == store.uid else b"bob's"
            for state in (State.SUCCEEDED, State.DEAD):
                run_id = await store.one_shot(uid=uid, payload=b'"%s"' % words, key=f"{uid} {state} {store.now}")
                await store.end(run_id, state)
            content = words * 10
            key = object_key(Kind.PAYLOAD, uid, store.now, store.new_id().bytes)
            await store.objects.add([StoredObject(key, uid, store.new_id(), Kind.PAYLOAD, 1)], store.now)
            await self.site.storage.put(key, content)
            reference = Reference.to(key, content)
            assert await self.site.storage.get(reference) == content
            detail = b'{"user_id":"%s"}' % NAME.encode()
            await store.audit.record([AuditEntry(store.now, uid, None, "key.create", None, detail, f"10.0.0.{uid}")])
            await store.recurring(every=HOUR, uid=uid, payload=b'"%s"' % words, name=f"{uid}", tags=(f"tag {uid}",))
        store.advance(2 * 24 * HOUR if not old else 14 * 24 * HOUR)
        await store.plan_all()

    async def forget(self, rounds: int = 12) -> None:
        for _ in range(rounds):
            await self.pass_once()
            self.store.advance(EVERY)

    async def pass_once(self) -> None:
        engine, clock, storage = self.store.engine, self.store.clock, self.site.storage
        await Forgetting(engine, storage, clock).run_once()
        await Finishing(engine, clock).run_once()
        await StorageCleaning(engine, storage, clock).run_once()
        await self.site.process().run_once()

    async def traces(self) -> list[str]:
        """Where anything of the user is still found: in the archive, in storage, or in the database."""
        found = []
        for path in sorted(self.site.folder.rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                content = decompress(content) if path.suffix == ".zst" else content
                if SECRET in content or NAME.encode() in content or f"/user={self.store.uid}/" in str(path):
                    found.append(str(path))
        return found + (await database_traces(self.store.engine) if self.store.engine.name == "sqlite" else [])


async def database_traces(engine: Any) -> list[str]:
    """Tables of SQLite in which a row has the secret or the name."""

    def look(db: Any) -> list[str]:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'").fetchall()]
        return [table for table in tables if any(map(_tells, db.execute(f"select * from {table}").fetchall()))]

    found: list[str] = await engine._store.read(look)
    return found


def _tells(row: tuple[Any, ...]) -> bool:
    cells = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in row]
    return any(word in cell for cell in cells for word in (SECRET, NAME.encode()))


async def test_nothing_of_a_user_is_left_and_all_of_the_others(site: Site) -> None:
    life = Life(site)
    await life.begin()
    store, uid = site.store, site.store.uid
    assert {"jobs", "audit", "users", "dead"} <= set(await life.traces()) or store.engine.name != "sqlite"
    assert any("/user=" in where for where in await life.traces())
    before = [line for line in await site.lines(Table.HISTORY) if line["user_id"] == "bob"]
    bobs = len((await store.lists.jobs(JobQuery(uid=store.stranger))).items)

    assert await store.forgetting.begin(NAME, store.now) == uid
    await life.forget()

    assert await store.forgetting.pending() == []
    assert await life.traces() == []
    assert (await store.lists.jobs(JobQuery(uid=uid))).items == ()
    assert (await store.lists.dead_letters(uid)).items == ()
    assert await store.runs(uid=uid) == []
    assert [line for line in await site.lines(Table.HISTORY) if line["user_id"] == "bob"] == before
    assert len((await store.lists.jobs(JobQuery(uid=store.stranger))).items) == bobs > 0
    head = (await site.progress()).head
    assert (await verify(site.storage, head)).wrong == ()
    links = [link async for link in chain(site.storage, head)]
    assert {uid for _, manifest in links for uid in manifest.purged} == {uid}
    there = {str(path.relative_to(site.folder)) for path in site.folder.glob("archive/v1/manifest/*")}
    assert {reference.key for reference, _ in links} == there
    entries = (await store.audit.entries(uid)).items
    assert {(one.action, one.address, one.detail) for one in entries} == {
        ("key.create", None, b'{"user_id":"%s"}' % number_name(uid).encode())
    }


async def test_a_user_is_not_forgotten_before_the_last_api_has_noticed(site: Site) -> None:
    store = site.store
    await store.forgetting.begin("ada", store.now)
    forgetting = Forgetting(store.engine, None, store.clock)
    for _ in range(10):
        await forgetting.run_once()
    assert len(await store.forgetting.pending()) == 1

    late = await store.one_shot(payload=b'"%s"' % SECRET)  # with a key that was revoked a moment ago
    store.advance(STILL_TRUSTED)
    for _ in range(5):
        await forgetting.run_once()

    assert await store.history.run(None, late) is None
    assert await store.forgetting.pending() == []


async def test_the_archive_gives_way_to_who_forgets_a_user(site: Site) -> None:
    """Both need its turn, and the archive's loop would come first each time: see `Archiving._take_turn`."""
    store = site.store
    await site.turn()
    await store.forgetting.begin("ada", store.now)
    take_turn = store.maintenance.take_turn

    await site.process().run_once()
    taken = await take_turn(TURN, store.now, EVERY)
    assert taken is not None, "it is left to the other"
    store.advance(EVERY + GIVE_WAY)
    await site.process().run_once()

    assert await take_turn(TURN, store.now, EVERY) is None, "nobody came for it"
    store.advance(EVERY - SECOND)
    assert await take_turn(TURN, store.now, EVERY) is None
    store.advance(SECOND)
    assert await take_turn(TURN, store.now, EVERY) is not None


async def test_without_the_archive_a_user_who_is_in_it_stays_noted(site: Site, logged: list[Any]) -> None:
    await Life(site).begin()
    store = site.store
    await store.forgetting.begin(NAME, store.now)

    for _ in range(8):
        await Forgetting(store.engine, None, store.clock).run_once()
        await StorageCleaning(store.engine, site.storage, store.clock).run_once()
        store.advance(EVERY * 3)

    assert len(await store.forgetting.pending()) == 1
    assert {line["kind"] for line in logged if line["log_level"] == "error"} == {"archive_failed"}


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.long), "after"])
async def test_it_goes_on_wherever_a_process_was_killed(
    site: Site, moment: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In turn at the first call, the second, …: each process does one call more than the one before."""
    life = Life(site)
    await life.begin()
    bobs = [line for line in await site.lines(Table.HISTORY) if line["user_id"] == "bob"]
    await site.store.forgetting.begin(NAME, site.store.now)
    death = Death(site, moment, monkeypatch)
    for last in range(1, 60):
        death.after(last)
        with contextlib.suppress(Killed):
            await life.pass_once()
        death.after(0)
        site.store.advance(EVERY)
        if not await site.store.forgetting.pending():
            break
    await life.forget(3)

    assert last > 10
    assert await site.store.forgetting.pending() == []
    assert await life.traces() == []
    assert [line for line in await site.lines(Table.HISTORY) if line["user_id"] == "bob"] == bobs
    assert (await verify(site.storage, (await site.progress()).head)).wrong == ()
