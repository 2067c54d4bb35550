"""Objects in storage: an object goes when nothing refers to it, and never before, whatever happens to its owner."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec.structs import replace

from oncue.domain import change
from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, MINUTE, Duration
from oncue.domain.policy import Overlap
from oncue.domain.quota import Quota
from oncue.domain.reference import Kind, Reference
from oncue.domain.run import State
from oncue.engines.port import SELDOM, UNUSED_FOR, Created, KnownObject, StoredObject
from oncue_conformance.dead_letters import requeued
from oncue_conformance.store import Store, job_of, only

LARGE = 5_000_000


def reference(store: Store) -> Reference:
    return Reference(f"v1/payload/1/2026-11-17/{store.new_id().hex}", LARGE, "00" * 32)


async def put(store: Store, owner: UUID, kind: Kind, to: Reference) -> None:
    """What a process does before it stores a reference."""
    await store.objects.add([StoredObject(to.key, store.uid, owner, kind, to.size)], store.now)


async def unused(store: Store) -> list[str]:
    return sorted((await store.objects.look(store.now)).unused)


async def is_kept(store: Store) -> bool:
    """Whether the only object is kept by a look that comes late enough to look at it."""
    store.advance(SELDOM)
    looked = await store.objects.look(store.now)
    assert looked.seen == 1
    return not looked.unused


async def one_shot(store: Store, **how: Any) -> tuple[RunId, Reference]:
    to = reference(store)
    new = await store.new_one_shot(payload=to.encoded(), **how)
    await put(store, new.job.job_id, Kind.PAYLOAD, to)
    await store.create(new)
    return RunId(new.job.job_id), to


async def test_an_object_that_nothing_refers_to_goes_after_a_day(store: Store) -> None:
    """Its process was killed before the reference was stored."""
    to, owner = reference(store), store.new_id()
    await put(store, owner, Kind.PAYLOAD, to)
    await put(store, owner, Kind.PAYLOAD, to)
    store.advance(UNUSED_FOR - 1)
    assert (await store.objects.look(store.now)).seen == 0

    store.advance(1)
    assert await unused(store) == [to.key]
    assert await unused(store) == [to.key]  # whoever was told of it was killed: the next one is told, too

    await store.objects.forget([to.key])
    await store.objects.forget([to.key])
    assert (await store.objects.look(store.now)).seen == 0


async def test_a_look_is_bounded_and_begins_with_the_oldest(store: Store) -> None:
    keys = []
    for _ in range(5):
        to = reference(store)
        keys.append(to.key)
        await put(store, store.new_id(), Kind.RESULT, to)
        store.advance(1)
    store.advance(UNUSED_FOR)

    looked = await store.objects.look(store.now, 2)

    assert (looked.seen, sorted(looked.unused)) == (2, sorted(keys[:2]))


async def test_what_is_referred_to_is_looked_at_again_later_and_later(store: Store) -> None:
    await one_shot(store)
    looked = []
    for day in range(1, 40):
        store.advance(DAY)
        looked += [day] * (await store.objects.look(store.now)).seen
    assert looked == [1, 2, 4, 8, 15, 22, 29, 36]


async def test_the_payload_of_a_one_shot_is_kept_in_every_state(store: Store) -> None:
    run_id, _ = await one_shot(store, max_retries=9)
    assert await is_kept(store)  # waiting
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    assert await is_kept(store)  # running
    await store.fail(worker, run)
    assert await is_kept(store)  # waiting again
    await store.end(run_id, State.SUCCEEDED)
    assert await is_kept(store)  # in history
    store.advance(31 * DAY)
    await store.maintenance.maintain(store.now, Duration(30 * DAY))
    assert not await is_kept(store)


async def test_the_payload_of_a_dead_letter_is_kept_and_goes_over_to_its_requeued_run(store: Store) -> None:
    run_id, to = await one_shot(store)
    await store.end(run_id, State.DEAD)
    store.advance(31 * DAY)
    await store.maintenance.maintain(store.now, Duration(30 * DAY))
    assert await is_kept(store)  # history is gone, the letter is not

    again = await requeued(store, run_id)
    assert await store.history.requeue([again], store.now)
    assert await is_kept(store)
    assert (await store.run(again.run_id)).payload == to.encoded()
    await store.end(again.run_id, State.DEAD)
    assert await is_kept(store)
    assert await store.history.discard(None, [again.run_id])
    store.advance(31 * DAY)
    await store.maintenance.maintain(store.now, Duration(30 * DAY))
    assert not await is_kept(store)


async def test_a_payload_that_an_edit_replaced_is_kept_for_the_runs_that_have_it(store: Store) -> None:
    old, new = reference(store), reference(store)
    created = await store.new_recurring(every=MINUTE, payload=old.encoded(), overlap=Overlap.ALLOW)
    job_id = created.job.job_id
    await put(store, job_id, Kind.PAYLOAD, old)
    await store.create(created)
    run_id = RunId(store.new_id())
    assert await store.change(job_id, lambda snap: change.run_now(snap, run_id, store.now))
    worker = await store.worker()
    run = only(await store.claim(worker, run_id))
    await put(store, job_id, Kind.PAYLOAD, new)
    assert await store.edit(job_id, payload=new.encoded())

    store.advance(UNUSED_FOR)
    assert await unused(store) == []
    await store.succeed(worker, run)
    assert await store.pause(job_id)
    for _ in range(8):
        store.advance(SELDOM)
        await store.maintenance.maintain(store.now, Duration(30 * DAY))
    assert await unused(store) == [old.key]


async def test_a_result_is_kept_as_long_as_its_run(store: Store) -> None:
    worker = await store.worker()
    run_id, to = await store.one_shot(), reference(store)
    run = await store.claim_one(worker, run_id)
    await put(store, run_id, Kind.RESULT, to)
    assert await is_kept(store)  # its run goes on, and may still refer to it
    await store.succeed(worker, run, result=to.encoded())
    assert await is_kept(store)
    store.advance(31 * DAY)
    await store.maintenance.maintain(store.now, Duration(30 * DAY))
    assert not await is_kept(store)


async def test_the_result_of_an_attempt_that_was_lost_goes(store: Store) -> None:
    worker = await store.worker()
    run_id, lost = await store.one_shot(), reference(store)
    await store.claim_one(worker, run_id)
    await put(store, run_id, Kind.RESULT, lost)
    await store.lose(worker)
    await store.recover_runs()
    await store.end(run_id, State.SUCCEEDED)
    assert not await is_kept(store)


async def test_a_part_of_a_log_is_kept_as_long_as_the_log(store: Store) -> None:
    run_id, to = await store.one_shot(), reference(store)
    await store.end(run_id, State.SUCCEEDED)
    await put(store, run_id, Kind.LOG, to)
    assert await store.history.append_log(run_id, 7, to.encoded(), store.now)
    assert await is_kept(store)
    store.advance(31 * DAY)
    await store.maintenance.maintain(store.now, Duration(30 * DAY))
    assert not await is_kept(store)


async def test_after_a_purge_the_time_of_its_objects_comes_at_once(store: Store) -> None:
    run_id, payload = await one_shot(store)
    worker, result = await store.worker(), reference(store)
    run = await store.claim_one(worker, run_id)
    await put(store, run_id, Kind.RESULT, result)
    await store.succeed(worker, run, result=result.encoded())
    assert (await store.objects.look(store.now)).seen == 0

    assert await store.jobs.purge(job_of(run_id), 100)

    assert await unused(store) == sorted([payload.key, result.key])


async def test_a_result_is_attached_to_the_attempt_that_had_it_and_to_no_other(store: Store) -> None:
    worker = await store.worker()
    run_id, lost, found = await store.one_shot(), Reference("", LARGE, "00" * 32), reference(store)
    run = await store.claim_one(worker, run_id)

    async def attach(token: int) -> bool:
        return await store.objects.attach(run_id, token, lost.encoded(), found.encoded())

    assert not await attach(run.token)  # it has not ended
    await store.succeed(worker, run, result=lost.encoded())
    assert not await attach(run.token + 1)
    assert await attach(run.token)
    assert not await attach(run.token)
    assert (await store.run(run_id)).result == found.encoded()


async def test_a_quota_counts_the_bytes_of_the_object(store: Store) -> None:
    quota = Quota(payload=2 * LARGE)
    outcomes = list[tuple[Created, Any]]()
    for _ in range(3):
        new = await store.new_one_shot(payload=reference(store).encoded())
        [answer] = await store.jobs.create([replace(new, quota=quota)], store.now)
        outcomes.append((answer.outcome, answer.used))
    assert outcomes[:2] == [(Created.NEW, None)] * 2
    assert outcomes[2][0] is Created.OVER_QUOTA
    assert outcomes[2][1].payload == 2 * LARGE


async def test_objects_are_walked_in_pages_and_known_by_key(store: Store) -> None:
    made = {}
    for number in range(5):
        to = reference(store)
        made[to.key] = (to.size, store.now, store.now + UNUSED_FOR)
        await put(store, store.new_id(), Kind.RESULT, to)
        store.advance(number)

    found: list[KnownObject] = []
    after = ""
    while page := await store.objects.walk(after, 2):
        found += page
        assert len(page) <= 2
        assert len(found) <= len(made)  # so that a page that repeats its last key ends
        after = page[-1].key

    assert {one.key: (one.size, one.made_at, one.gone_at) for one in found} == made
    assert len(found) == len(made)
    assert await store.objects.known([*made, "v1/result/1/2026-11-17/none"]) == made.keys()
    assert await store.objects.known([]) == frozenset()
