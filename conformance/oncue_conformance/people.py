"""Users, their keys, and the audit log.

Sessions of browsers, the last use of keys, the list of users, and what the audit log is filtered by.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from msgspec.structs import replace

from oncue.domain.errors import Invalid
from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import DAY, HOUR, SECOND, Duration
from oncue.engines.port import (
    AUDIT_LOOKED_AT,
    JOBS_COUNTED,
    AuditEntry,
    AuditFilter,
    Key,
    Quota,
    Revoked,
    Role,
    Session,
)
from oncue_conformance.store import Store, everything


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


# ------------------------------------------------------------------------------------------- sessions, last uses, lists

FOREVER = Duration(365 * DAY)


def new_session(store: Store, key: Key, *, lasts: int = HOUR) -> Session:
    return Session(store.chance.randbytes(32), key.key_id, store.now, store.at(lasts))


async def stored_key(store: Store, uid: UserNumber | None = None, **how: object) -> Key:
    key = replace(new_key(store, uid or store.uid), **how)
    await store.accounts.add_key(key)
    return key


async def test_a_session_is_found_with_its_key_until_it_ends(store: Store) -> None:
    key = await stored_key(store, note="laptop – Größe 7 👩‍💻")
    session, other = new_session(store, key), new_session(store, key)
    for one in (session, session, other):  # a repeat changes nothing
        await store.sessions.open(one, most=10)

    assert await store.sessions.find(session.session_hash) == (session, key)
    assert await store.sessions.find(b"?" * 32) is None
    assert await store.accounts.revoke(key.key_id, store.now) is Revoked.DONE
    assert await store.sessions.find(session.session_hash) == (session, replace(key, revoked_at=store.now))

    for _ in range(2):
        await store.sessions.end(session.session_hash)
    assert await store.sessions.find(session.session_hash) is None
    assert await store.sessions.find(other.session_hash) is not None


async def test_beyond_the_most_sessions_of_a_key_those_end_that_would_expire_first(store: Store) -> None:
    one, another = await stored_key(store), await stored_key(store)
    second = await store.second()
    sessions = [new_session(store, one, lasts=HOUR + n * SECOND) for n in range(12)]
    theirs = new_session(store, another, lasts=SECOND)
    await store.sessions.open(theirs, most=5)

    await asyncio.gather(*((store, second)[n % 2].sessions.open(session, most=5) for n, session in enumerate(sessions)))

    left = [session for session in sessions if await store.sessions.find(session.session_hash)]
    assert left == sessions[7:]
    assert await store.sessions.find(theirs.session_hash) is not None


async def test_the_last_use_only_rises_and_expired_sessions_are_removed(store: Store) -> None:
    key, unused = await stored_key(store), await stored_key(store)
    session, short = new_session(store, key), new_session(store, key)
    for one in (session, short):
        await store.sessions.open(one, most=10)

    await store.sessions.used({key.key_id: 20_000}, {session.session_hash: store.at(2 * HOUR)})
    await store.sessions.used(
        {key.key_id: 19_999, KeyId(store.new_id()): 1}, {session.session_hash: store.at(HOUR), b"?" * 32: store.now}
    )

    extended = replace(session, expires_at=store.at(2 * HOUR))
    assert await store.sessions.find(session.session_hash) == (extended, replace(key, last_used_on=20_000))
    assert await store.accounts.key(unused.key_hash) == unused
    store.advance(HOUR)
    await store.maintenance.maintain(store.now, FOREVER)
    assert await store.sessions.find(short.session_hash) is not None, "it ends at this instant"
    store.advance(1)
    await store.maintenance.maintain(store.now, FOREVER)
    assert await store.sessions.find(short.session_hash) is None
    assert await store.sessions.find(session.session_hash) is not None


async def test_users_are_listed_with_their_valid_keys_and_open_jobs(store: Store) -> None:
    uids = [store.uid, store.stranger, *[await store.accounts.user(name, store.now) for name in ("eve", "zoë")]]
    await stored_key(store, expires_at=None)
    await stored_key(store, role=Role.ADMIN)  # for an hour
    await store.accounts.revoke((await stored_key(store)).key_id, store.now)
    quota = Quota(jobs=JOBS_COUNTED, payload=1_000)
    await store.create(replace(await store.new_one_shot(payload=b"x" * 7, uid=store.stranger), quota=quota))
    await store.one_shots(2)
    await store.recurring()
    worker = await store.worker()
    await store.claim_due(worker, 1)

    found = await everything(lambda after: store.accounts.users(store.now, 1, after))
    later = (await store.accounts.users(store.at(HOUR))).items

    assert [(one.uid, one.user_id) for one in found] == list(zip(uids, ("ada", "bob", "eve", "zoë"), strict=True))
    assert [one.keys for one in found] == [2, 0, 0, 0]
    assert [one.keys for one in later] == [1, 0, 0, 0]
    assert [one.open_jobs for one in found] == [3, 1, 0, 0], "waiting, running and recurring ones"
    assert [one.payload_bound for one in found] == [None, 7, None, None]


async def test_entries_of_an_object_and_of_a_window_are_found_page_by_page(store: Store) -> None:
    mine, other = UUID(int=1), UUID(int=2)
    entries = [
        AuditEntry(store.at(n * SECOND), (store.uid, store.stranger)[n % 2], None, f"job.{n % 3}", (mine, other)[n % 2])
        for n in range(12)
    ]
    shared = AuditEntry(store.at(12 * SECOND), store.stranger, None, "job.0", mine)
    await store.audit.record([*entries, shared, AuditEntry(store.at(13 * SECOND), store.uid, None, "job.0")])

    async def found(uid: UserNumber | None, **only: object) -> list[AuditEntry]:
        chosen = AuditFilter(**only)  # type: ignore[arg-type]  # the fields of a filter, of any type
        return (await everything(lambda after: store.audit.entries(uid, 2, after, chosen)))[::-1]

    assert await found(None, object_id=mine) == [*entries[::2], shared]
    assert await found(store.uid, object_id=mine) == entries[::2]
    assert await found(store.uid, object_id=other) == []
    assert await found(None, since=store.at(3 * SECOND), until=store.at(6 * SECOND)) == entries[3:6]
    assert await found(store.uid, since=store.at(3 * SECOND), until=store.at(7 * SECOND)) == [entries[4], entries[6]]
    assert await found(None, action="job.1") == entries[1::3]
    assert await found(store.stranger, action="job.1", until=store.at(7 * SECOND)) == [entries[1]]
    assert await found(None, object_id=mine, action="job.0", since=store.at(SECOND)) == [entries[6], shared]


async def test_a_page_that_skips_entries_reads_a_bounded_number(store: Store) -> None:
    first = AuditEntry(store.now, store.uid, None, "rare")
    many = [AuditEntry(store.at(n + 1), store.uid, None, "usual") for n in range(AUDIT_LOOKED_AT)]
    await store.audit.record([first, *many])
    rare = AuditFilter(action="rare")

    page = await store.audit.entries(store.uid, 10, None, rare)

    assert (page.items, page.next is not None) == ((), True)
    assert (await store.audit.entries(store.uid, 10, page.next, rare)).items == (first,)


async def test_entries_that_are_years_apart_are_in_one_list(store: Store) -> None:
    """However an engine looks: at the newest first, or at all."""
    about = UUID(int=1)
    ages = (0, 3 * DAY, 40 * DAY, 3_000 * DAY)
    entries = [AuditEntry(store.at(-age), store.uid, None, "job.edit", about) for age in ages]
    await store.audit.record(entries)

    for only in (AuditFilter(), AuditFilter(object_id=about), AuditFilter(action="job.edit")):
        assert (await store.audit.entries(store.uid, 10, None, only)).items == tuple(entries)
        whole = await store.audit.entries(None, len(ages), None, only)
        assert (whole.items, whole.next) == (tuple(entries), None), "nothing follows the last entry"
