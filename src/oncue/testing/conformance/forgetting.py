"""Forgetting a user: what the database does of it, in bites, and repeated."""

from __future__ import annotations

from oncue.domain.ids import NOTICES, KeyId, RunId
from oncue.domain.instants import SECOND
from oncue.domain.keys import number_name
from oncue.domain.notices import trial_notice
from oncue.domain.notify import Entry, Event, NotifyDefault, Webhook
from oncue.domain.reference import Kind
from oncue.engines.port import AuditEntry, Created, Forgotten, IdempotencyKey, Key, Revoked, Role, StoredObject
from oncue.testing.conformance.store import Store, everything, only


async def add_key(store: Store, user_id: str, role: Role = Role.MEMBER) -> Key:
    uid = await store.accounts.user(user_id, store.now)
    key = Key(KeyId(store.new_id()), store.new_id().bytes, uid, user_id, role, store.now)
    await store.accounts.add_key(key)
    return key


async def test_a_user_who_is_to_be_forgotten_has_neither_key_nor_name(store: Store) -> None:
    key, other = await add_key(store, "ada"), await add_key(store, "bob", Role.ADMIN)

    assert await store.forgetting.begin("ada", store.now) == store.uid

    found = await store.accounts.key(key.key_hash)
    assert found is not None
    assert (found.revoked_at, found.user_id) == (store.now, number_name(store.uid))
    assert await store.accounts.find("ada") is None
    kept = await store.accounts.key(other.key_hash)
    assert kept is not None
    assert kept.revoked_at is None
    assert only(await store.forgetting.pending()) == Forgotten(store.uid, "ada", store.now)
    began = store.now
    store.advance(SECOND)
    assert await store.forgetting.begin("ada", store.now) == store.uid  # a repeat
    assert only(await store.forgetting.pending()).asked_at == began
    assert await store.accounts.user("ada", store.now) != store.uid  # a namesake is another user


async def test_who_is_unknown_or_has_the_last_admin_key_is_not_forgotten(store: Store) -> None:
    await add_key(store, "ada", Role.ADMIN)
    await add_key(store, "bob")

    assert await store.forgetting.begin("eve", store.now) is Revoked.UNKNOWN
    assert await store.forgetting.begin("ada", store.now) is Revoked.LAST_ADMIN
    assert await store.forgetting.pending() == []
    assert await store.accounts.find("ada") == store.uid
    await add_key(store, "bob", Role.ADMIN)
    assert await store.forgetting.begin("ada", store.now) == store.uid


async def test_the_objects_of_who_is_forgotten_are_looked_at_in_bites(store: Store) -> None:
    """Catches one statement for all of them: one user may have millions."""
    some = [StoredObject(f"v1/payload/1/{n}", store.uid, store.new_id(), Kind.PAYLOAD, 1) for n in range(5)]
    await store.objects.add(some, store.now)
    await store.forgetting.begin("ada", store.now)

    for looked_at in (2, 4, 5):
        assert await store.forgetting.erase(store.uid, 2) == 2
        assert len((await store.objects.look(store.now)).unused) == looked_at


async def test_what_is_left_of_a_user_is_erased_in_bites_and_of_nobody_else(store: Store) -> None:
    keys = [IdempotencyKey(store.new_id().bytes, b"body") for _ in range(5)]
    for uid in (store.uid, store.stranger):
        for key in keys:
            await store.idempotency.reserve(uid, key, store.new_id())
    one = StoredObject("v1/payload/1/x", store.uid, store.new_id(), Kind.PAYLOAD, 1)
    await store.objects.add([one], store.now)
    await store.forgetting.begin("ada", store.now)

    assert await store.forgetting.erase(store.uid, 3) > 0
    assert await store.forgetting.erase(store.uid, 3) > 0
    assert await store.forgetting.erase(store.uid, 3) == 1, "its object is still there"
    assert (await store.objects.look(store.now)).unused == (one.key,)
    await store.objects.forget([one.key])
    assert await store.forgetting.erase(store.uid, 3) == 0
    again = [(await store.idempotency.reserve(store.stranger, key, store.new_id())).outcome for key in keys]
    assert set(again) == {Created.REPEATED}
    again = [(await store.idempotency.reserve(store.uid, key, store.new_id())).outcome for key in keys]
    assert set(again) == {Created.NEW}


async def test_of_a_user_no_notice_and_no_wish_to_be_told_is_left(store: Store) -> None:
    entry, told = Entry((Event.FAILED,), webhook=Webhook("https://example.org/hook")), []
    for uid in (store.uid, store.stranger):
        await store.notices.put_default(uid, NotifyDefault((entry,)), store.now)
        await store.notices.rotate(uid, b"url", store.now)
        await store.notices.target_failed(uid, "target", "shown", 5, store.now)
        notices = [trial_notice(uid, entry, RunId(store.new_id()), store.now) for _ in range(3)]
        await store.notices.add(notices, store.now)
        for notice in notices:
            await store.history.append_log(notice.run_id, 0, b"what the receiver said", store.now)
            told.append((notice.run_id, uid))
            await store.running.cancel(None, notice.run_id, store.now)
    await store.forgetting.begin("ada", store.now)

    while await store.forgetting.erase(store.uid, 2):
        pass

    for uid, left in ((store.uid, False), (store.stranger, True)):
        assert bool((await store.notices.default(uid)).entries) is left
        assert bool(await store.notices.targets(uid)) is left
        assert bool((await store.notices.generation(uid, b"url")).number) is left
        assert len(await store.runs(uid=uid, job_id=NOTICES)) == 3 * left
        logs = [await store.history.read_log(run_id) for run_id, of in told if of == uid]
        assert [len(log) for log in logs] == [left] * 3


async def test_the_audit_log_keeps_what_was_done_and_a_number(store: Store) -> None:
    about = b'{"user_id":"ada","role":"member"}'
    entries = [
        AuditEntry(store.at(1), store.uid, None, "job.create", store.new_id(), None, "10.0.0.1"),
        AuditEntry(store.at(2), store.stranger, None, "key.create", None, about, "10.0.0.2"),
        AuditEntry(store.at(3), store.stranger, None, "queue.pause", None, b'{"queue":"ada"}', "10.0.0.2"),
        AuditEntry(store.at(4), store.uid, None, "job.edit", None, b'{"a":1}', "10.0.0.1"),
        AuditEntry(store.at(5), store.stranger, None, "bulk.start", None, b'{"filter":{"user_id":"ada"}}', "10.0.0.2"),
    ]
    await store.audit.record(entries)
    await store.forgetting.begin("ada", store.now)

    steps, forgotten = 0, await store.forgetting.redact(only(await store.forgetting.pending()), 1)
    while forgotten is not None:
        assert only(await store.forgetting.pending()) == forgotten, "where it goes on is stored"
        steps, forgotten = steps + 1, await store.forgetting.redact(forgotten, 1)

    found = (await everything(lambda after: store.audit.entries(None, 10, after)))[::-1]
    assert steps == len(entries)
    assert [one.action for one in found] == [one.action for one in entries]
    assert [one.address for one in found] == [None, "10.0.0.2", "10.0.0.2", None, "10.0.0.2"]
    name = number_name(store.uid).encode()
    number, filtered = b'{"user_id":"%s","role":"member"}' % name, b'{"filter":{"user_id":"%s"}}' % name
    assert [one.detail for one in found] == [None, number, b'{"queue":"ada"}', b'{"a":1}', filtered]
    assert [one.uid for one in found] == [one.uid for one in entries]


async def test_at_the_end_nothing_but_a_number_is_left(store: Store) -> None:
    key = await add_key(store, "ada")
    await store.forgetting.begin("ada", store.now)

    for _ in range(2):
        await store.forgetting.finish(store.uid)

    assert await store.forgetting.pending() == []
    assert await store.accounts.key(key.key_hash) is None
    assert await store.accounts.names([store.uid]) == {store.uid: number_name(store.uid)}
