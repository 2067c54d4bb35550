"""Users, their keys, and the audit log."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from msgspec.structs import replace

from oncue.domain.errors import Invalid
from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import HOUR, SECOND
from oncue.engines.port import AuditEntry, Key, Revoked, Role
from oncue.testing.conformance.store import Store, everything


def new_key(store: Store, user: UserNumber, user_id: str = "ada", role: Role = Role.MEMBER) -> Key:
    return Key(KeyId(store.new_id()), store.chance.randbytes(32), user, user_id, role, store.now, store.at(HOUR))


async def test_a_user_has_one_number(store: Store) -> None:
    other = await store.second()
    names = ["ada", "bob", "eve", "Ada", "äda", "ada "]

    answers = await asyncio.gather(*((store, other)[i % 2].accounts.user(names[i % 6], store.now) for i in range(24)))

    numbers = dict(zip(names, answers, strict=False))
    assert [numbers[names[i % 6]] for i in range(24)] == answers
    assert len(set(answers)) == 6
    assert (numbers["ada"], numbers["bob"]) == (store.uid, store.stranger)


async def test_a_key_is_found_by_its_hash(store: Store) -> None:
    mine, theirs = new_key(store, store.uid, role=Role.ADMIN), new_key(store, store.stranger, "bob")
    forever = replace(new_key(store, store.uid), expires_at=None)
    for key in (mine, theirs, forever, mine):  # a repeat changes nothing
        await store.accounts.add_key(key)

    assert await store.accounts.key(mine.key_hash) == mine
    assert await store.accounts.key(theirs.key_hash) == theirs
    assert await store.accounts.key(forever.key_hash) == forever
    assert await store.accounts.key(b"?" * 32) is None
    assert sorted(await store.accounts.keys(), key=lambda key: key.key_id) == sorted(
        [mine, theirs, forever], key=lambda key: key.key_id
    )


async def test_a_revoked_key_is_known_as_such(store: Store) -> None:
    key = new_key(store, store.uid)
    await store.accounts.add_key(key)
    revoked = replace(key, revoked_at=store.now)

    assert await store.accounts.revoke(key.key_id, store.now) is Revoked.DONE
    assert await store.accounts.revoke(key.key_id, store.at(HOUR)) is Revoked.DONE  # keeps the first time
    assert await store.accounts.revoke(KeyId(store.new_id()), store.now) is Revoked.UNKNOWN

    assert await store.accounts.key(key.key_hash) == revoked
    assert await store.accounts.keys() == [revoked]


async def test_the_last_key_of_an_administrator_that_works_cannot_be_revoked(store: Store) -> None:
    """Keys of other users do not count, nor revoked or expired ones."""
    last, second = [replace(new_key(store, store.uid, role=Role.ADMIN), expires_at=None) for _ in range(2)]
    expired, member = new_key(store, store.uid, role=Role.ADMIN), new_key(store, store.stranger, "bob")
    for key in (last, second, expired, member):
        await store.accounts.add_key(key)
    now = store.at(HOUR)

    assert await store.accounts.revoke(second.key_id, now) is Revoked.DONE
    assert await store.accounts.revoke(last.key_id, now) is Revoked.LAST_ADMIN
    assert await store.accounts.revoke(second.key_id, now) is Revoked.DONE
    assert await store.accounts.revoke(expired.key_id, now) is Revoked.DONE
    assert await store.accounts.revoke(member.key_id, now) is Revoked.DONE
    assert await store.accounts.revoke(last.key_id, now) is Revoked.LAST_ADMIN
    assert await store.accounts.key(last.key_hash) == last


async def test_of_many_keys_of_administrators_that_are_revoked_at_once_one_is_left(store: Store) -> None:
    other = await store.second()
    keys = [new_key(store, store.uid, role=Role.ADMIN) for _ in range(20)]
    for key in keys:
        await store.accounts.add_key(key)

    told = await asyncio.gather(
        *((store, other)[i % 2].accounts.revoke(key.key_id, store.now) for i, key in enumerate(keys))
    )

    assert (told.count(Revoked.DONE), told.count(Revoked.LAST_ADMIN)) == (19, 1)
    [left] = [key for key in await store.accounts.keys() if key.revoked_at is None]
    assert left == keys[told.index(Revoked.LAST_ADMIN)]


async def test_of_many_first_keys_at_once_one_is_taken(store: Store) -> None:
    other = await store.second()
    keys = [new_key(store, store.uid, role=Role.ADMIN) for _ in range(20)]

    taken = await asyncio.gather(*((store, other)[i % 2].accounts.add_first_key(key) for i, key in enumerate(keys)))

    assert sum(taken) == 1
    assert await store.accounts.keys() == [keys[taken.index(True)]]
    assert not await store.accounts.add_first_key(new_key(store, store.uid))


async def test_a_revoked_key_is_still_the_first(store: Store) -> None:
    """Otherwise revoking all keys would let the next caller create the first key."""
    key = new_key(store, store.uid)
    await store.accounts.add_key(key)
    await store.accounts.revoke(key.key_id, store.now)

    assert not await store.accounts.add_first_key(new_key(store, store.stranger, "bob"))


async def test_the_audit_log_is_read_newest_first_page_by_page(store: Store) -> None:
    key_id = KeyId(store.new_id())
    audit_entries = [
        AuditEntry(store.at(i * SECOND), store.uid, key_id, "job.create", UUID(int=i + 1), b'{"n": 1}', "127.0.0.1")
        for i in range(5)
    ]
    bare = AuditEntry(store.at(HOUR), None, None, "key.refused")
    theirs = AuditEntry(store.at(2 * HOUR), store.stranger, None, "job.cancel")
    await store.audit.record(audit_entries)
    await store.audit.record([bare, theirs])
    await store.audit.record([])

    everybody = await everything(lambda after: store.audit.entries(None, 2, after))
    mine = await everything(lambda after: store.audit.entries(store.uid, 2, after))

    assert everybody == [theirs, bare, *audit_entries[::-1]]
    assert mine == audit_entries[::-1]
    with pytest.raises(Invalid):
        await store.audit.entries(after="nonsense")


async def test_deeds_of_one_instant_are_listed_once_each(store: Store) -> None:
    audit_entries = [AuditEntry(store.now, store.uid, None, f"deed {i}") for i in range(9)]
    await store.audit.record(audit_entries)

    found = await everything(lambda after: store.audit.entries(store.uid, 2, after))

    assert sorted(audit_entry.action for audit_entry in found) == [audit_entry.action for audit_entry in audit_entries]
