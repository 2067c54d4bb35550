"""Definitions of a newer oncue: an engine keeps what this version cannot decode, and the other rows stay usable."""

from __future__ import annotations

from oncue.domain import change
from oncue.domain.ids import JobId
from oncue.domain.instants import MINUTE, SECOND
from oncue.domain.job import JobStatus, decode_spec, encode_spec, understand_spec
from oncue.domain.policy import CatchUp
from oncue.domain.schedule import Schedule
from oncue.engines.port import JobQuery
from oncue.testing.conformance.store import Store, job_of, only

LATER = (("later", b'{"a":1.50}'),)


async def kept(store: Store, job_id: JobId) -> bool:
    return (await store.snapshot(job_id)).job.spec.unknown == LATER


async def test_new_fields_of_a_recurring_job_survive_whatever_is_done_to_it(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, unknown=LATER)

    assert await store.edit(job_id, max_retries=9)
    assert await kept(store, job_id)
    assert await store.change(job_id, lambda snap: change.pause(snap, store.now))
    assert (await store.snapshot(job_id)).job.status is JobStatus.PAUSED
    assert await store.change(job_id, lambda snap: change.resume(snap, CatchUp.LAST, store.now))
    assert await kept(store, job_id)
    assert await store.edit(job_id, schedule=Schedule(at=store.now))  # runs once from now on
    assert await kept(store, job_id)

    run = only(await store.claim_due(await store.worker()))
    assert decode_spec(run.spec).unknown == LATER


async def test_new_fields_of_a_one_shot_survive_an_edit_and_reach_its_worker(store: Store) -> None:
    run_id = await store.one_shot(MINUTE, unknown=LATER, tags=("a",), name="n")

    assert await store.edit(job_of(run_id), max_retries=9, tags=("b",))
    store.advance(MINUTE)

    assert await kept(store, job_of(run_id))
    run = only(await store.claim_due(await store.worker()))
    assert run.spec == encode_spec((await store.snapshot(job_of(run_id))).job.spec)
    assert decode_spec(run.spec).max_retries == 9
    for query in (JobQuery(tag="b"), JobQuery(name="n")):
        assert only((await store.lists.jobs(query)).items).job.spec.unknown == LATER


async def test_a_job_that_is_not_understood_is_listed_beside_the_others(store: Store) -> None:
    """Catches a list that fails as a whole because of one row."""
    new = (("schedule", b'{"moon":"full"}'), ("retry", b'{"shape":"flat"}'))
    jobs = [await store.recurring(every=MINUTE), await store.recurring(every=MINUTE, unknown=new[1:])]
    jobs.append(job_of(await store.one_shot(MINUTE, unknown=new[1:])))

    found = (await store.lists.jobs(JobQuery())).items

    assert {row.job.job_id for row in found} == set(jobs)
    assert (await store.snapshot(jobs[1])).job.spec.not_understood == ("retry",)


async def test_what_cannot_be_read_is_left_to_those_who_can_until_it_is_late(store: Store) -> None:
    """Catches a scheduler that puts off, or plans otherwise, what a newer one would plan on time."""
    newer, plain = await store.recurring(every=MINUTE, unknown=LATER), await store.recurring(every=MINUTE)
    before = (await store.snapshot(newer)).cursor
    assert before is not None
    store.advance(MINUTE)

    assert (await store.plan()).put_off == 0
    assert len((await store.snapshot(plain)).waiting) == 1
    assert (await store.snapshot(newer)).cursor == before
    store.advance(5 * SECOND)
    assert (await store.plan()).put_off == 1

    after = await store.snapshot(newer)
    assert after.cursor is not None
    assert (after.cursor.next_at, after.cursor.floor, after.waiting) == (store.at(MINUTE), before.floor, ())
    assert understand_spec(encode_spec((await store.snapshot(plain)).job.spec))
