"""Reading a job, and whose it is: another user's looks exactly like one that does not exist.

Definitions of a newer oncue: an engine keeps what this version cannot decode, and the other rows stay usable.

The diagnosis of a run: what blocks it, how many are before it, and the state of its worker.
"""

from __future__ import annotations

from typing import Any

import pytest

from oncue.domain import change
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.job import JobStatus, decode_spec, encode_spec, understand_spec
from oncue.domain.lane import Held
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State
from oncue.domain.schedule import Schedule
from oncue.engines.port import JobQuery, RunDiagnosis, RunQuery
from oncue_conformance.store import LEASE, Store, ids, job_of, meanwhile, only


async def test_what_does_not_exist_is_none(store: Store) -> None:
    nothing = store.new_id()

    assert await store.jobs.read(None, JobId(nothing)) is None
    assert await store.jobs.cancel(None, JobId(nothing), store.now) is None
    assert await store.running.cancel(None, RunId(nothing), store.now) is None
    assert await store.history.run(None, RunId(nothing)) is None
    assert (await store.lists.ledger(None, JobId(nothing))).items == ()
    assert await store.log(RunId(nothing)) == b""


@pytest.mark.parametrize("state", ["waiting", "running", "succeeded", "dead"])
async def test_another_users_run_looks_like_none(store: Store, state: str) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    if state != "waiting":
        [run] = await store.claim_due(worker)
    if state == "succeeded":
        await store.succeed(worker, run)
    elif state == "dead":
        await store.fail(worker, run, retry=False)
    before = await store.run(run_id)

    assert await store.jobs.read(store.stranger, job_of(run_id)) is None
    assert await store.history.run(store.stranger, run_id) is None
    assert await store.jobs.cancel(store.stranger, job_of(run_id), store.now) is None
    assert await store.running.cancel(store.stranger, run_id, store.now) is None
    assert await store.history.discard(store.stranger, [run_id]) == frozenset()
    assert (await store.lists.dead_letters(store.stranger)).items == ()
    assert (await store.lists.runs(RunQuery(uid=store.stranger))).items == ()
    assert (await store.lists.runs(RunQuery(uid=store.stranger, job_id=job_of(run_id)))).items == ()

    assert await store.run(run_id) == before  # and nothing was done to it
    assert await store.fleet.cancel_requests(worker) == ()
    assert await store.history.run(store.uid, run_id) == before
    assert await store.jobs.read(store.uid, job_of(run_id)) is not None


async def test_another_users_recurring_job_looks_like_none(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    store.advance(3 * MINUTE)
    await store.plan()
    before = await store.snapshot(job_id)
    assert await store.ledger(job_id) != []

    assert await store.jobs.read(store.stranger, job_id) is None
    assert await store.jobs.cancel(store.stranger, job_id, store.now) is None
    assert (await store.lists.ledger(store.stranger, job_id)).items == ()

    assert await store.snapshot(job_id) == before
    assert await store.jobs.read(store.uid, job_id) == before


async def test_a_snapshot_tells_waiting_from_going(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    worker = await store.worker()
    store.advance(MINUTE)
    await store.plan()
    [failing] = await store.claim_due(worker)
    await store.fail(worker, failing)
    store.advance(MINUTE)
    await store.plan(ahead=MINUTE)
    second, third = sorted(run.run_id for run in (await store.snapshot(job_id)).waiting if run.scheduled)
    await store.claim_one(worker, second)

    snap = await store.snapshot(job_id)

    assert set(snap.going) == {failing.run_id, second}
    assert {run.run_id: run.scheduled for run in snap.waiting} == {failing.run_id: False, third: True}
    assert not snap.started  # said of one-shots only


async def test_what_was_handed_back_counts_as_untried(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.hand_back(worker, await store.claim_one(worker, run_id))

    snap = await store.snapshot(job_of(run_id))

    assert ([run.scheduled for run in snap.waiting], snap.going, snap.started) == ([True], (), False)


async def test_a_one_shot_has_started_once_it_runs_or_was_tried(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()

    run = await store.claim_one(worker, run_id)
    running = await store.snapshot(job_of(run_id))
    await store.fail(worker, run)
    retrying = await store.snapshot(job_of(run_id))

    assert (running.started, running.going, running.job.status) == (True, (run_id,), JobStatus.ACTIVE)
    assert (retrying.started, retrying.going, retrying.job.status) == (True, (run_id,), JobStatus.ACTIVE)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (State.SUCCEEDED, JobStatus.FINISHED),
        (State.DEAD, JobStatus.FINISHED),
        (State.EXPIRED, JobStatus.FINISHED),
        (State.CANCELLED, JobStatus.CANCELLED),
    ],
)
async def test_a_one_shot_is_over_when_its_run_is(store: Store, end: State, status: JobStatus) -> None:
    run_id = await store.one_shot(payload=b"[1]", name="mine", start_within=SECOND)
    before = (await store.snapshot(job_of(run_id))).job
    await store.end(run_id, end)

    snap = await store.snapshot(job_of(run_id))

    assert await store.state(run_id) is end
    assert (snap.job.status, snap.started, snap.waiting, snap.going) == (status, True, (), ())
    assert (snap.job.spec, snap.job.payload, snap.job.uid, snap.job.version) == (
        before.spec,
        before.payload,
        before.uid,
        before.version,
    )


async def test_a_snapshot_is_from_one_moment(store: Store) -> None:
    """Read while planners write: the cursor never counts runs that are not there, nor misses any that are."""
    other = await store.second()
    job_id = await store.recurring(every=SECOND)
    async with meanwhile(plan_step_by_step(other, 40)) as [planning]:
        while not planning.done():
            snap = await store.snapshot(job_id)
            assert snap.cursor is not None
            assert snap.cursor.planned == len(snap.waiting)
        await planning

    assert len((await store.snapshot(job_id)).waiting) == 40
    assert len(ids(await store.runs(job_id=job_id))) == 40


async def plan_step_by_step(store: Store, n: int) -> None:
    for i in range(1, n + 1):
        await store.plan(ahead=i * SECOND)


# ----------------------------------------------------------------------------------------- definitions of a newer oncue

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


# ----------------------------------------------------------------------------------------------- the diagnosis of a run

LANES: list[dict[str, Any]] = [{"group": "g"}, {"gate": ("c", 1)}]


async def standing(store: Store, run_id: RunId) -> RunDiagnosis:
    found = await store.history.standing(None, run_id)
    assert found is not None
    return found


async def test_a_standing_has_the_run_as_it_is_read(store: Store) -> None:
    await store.recurring(every=MINUTE, payload=b"[1]", max_retries=7)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    [planned] = await store.claimable()
    ended = await store.one_shot()
    await store.end(ended, State.DEAD)

    for run_id in (planned, ended):
        assert (await standing(store, run_id)).run == await store.run(run_id)
    assert await standing(store, ended) == RunDiagnosis(await store.run(ended))


async def test_another_users_run_stands_nowhere(store: Store) -> None:
    run_id = await store.one_shot()

    assert await store.history.standing(store.stranger, run_id) is None
    assert await store.history.standing(store.uid, RunId(store.new_id())) is None
    assert await store.history.standing(store.uid, run_id) is not None


@pytest.mark.parametrize("lane", LANES)
async def test_whoever_is_let_in_holds_the_others(store: Store, lane: dict[str, Any]) -> None:
    """Admitted and waiting, then running, then between two attempts: no difference to those behind it."""
    first, second, third = await store.one_shots(3, due=-MINUTE, apart=1, **lane)
    await store.one_shot(-HOUR)  # of no lane
    worker = await store.worker()
    bit = Held.LANE if "group" in lane else Held.GATE

    async def check() -> None:
        for place, run_id in enumerate([second, third]):
            found = await standing(store, run_id)
            assert (found.run.held, found.holder, found.place) == (bit, first, place)

    await check()
    claimed = await store.claim_one(worker, first)
    await check()
    await store.fail(worker, claimed)
    await check()


@pytest.mark.parametrize("lane", LANES)
async def test_the_one_that_runs_is_in_the_way_whoever_is_first_in_line(store: Store, lane: dict[str, Any]) -> None:
    worker = await store.worker()
    running = await store.claim_one(worker, await store.one_shot(-SECOND, **lane))
    earlier = await store.one_shot(-MINUTE, **lane)
    later = await store.one_shot(**lane)

    assert [((at := await standing(store, run_id)).holder, at.place) for run_id in (earlier, later)] == [
        (running.run_id, 0),
        (running.run_id, 1),
    ]


@pytest.mark.parametrize("lane", LANES)
async def test_who_is_paused_stands_in_nobodys_way(store: Store, lane: dict[str, Any]) -> None:
    first, second, third, fourth, last = await store.one_shots(5, due=-MINUTE, apart=1, **lane)
    await store.pause(job_of(first))
    await store.pause(job_of(third))

    found = {run_id: await standing(store, run_id) for run_id in (fourth, last)}

    assert [(at.holder, at.place) for at in found.values()] == [(second, 0), (second, 1)]


async def test_a_wide_gate_has_several_holders(store: Store) -> None:
    runs = await store.one_shots(5, due=-MINUTE, apart=1, gate=("c", 3))

    found = await standing(store, runs[4])

    assert (found.holder in runs[:3], found.place) == (True, 1)


async def test_who_waits_for_its_group_is_not_yet_in_line_for_its_gate(store: Store) -> None:
    inside = await store.one_shot(-9 * SECOND, gate=("c", 1))
    head = await store.one_shot(-8 * SECOND, group="g", gate=("c", 1))
    behind = await store.one_shot(-7 * SECOND, group="g", gate=("c", 1))
    last = await store.one_shot(-6 * SECOND, gate=("c", 1))

    found = {run_id: await standing(store, run_id) for run_id in (head, behind, last)}

    assert [(at.holder, at.place) for at in found.values()] == [(inside, 0), (head, 0), (inside, 1)]
    assert found[behind].run.held & Held.LANE


async def test_a_run_that_nothing_holds_has_a_place_among_those_of_its_class(store: Store) -> None:
    runs = await store.one_shots(5, due=-MINUTE, apart=1)
    await store.one_shots(3, due=-HOUR, task="other")
    await store.claim_one(await store.worker(), runs[0])
    await store.one_shots(3, due=-HOUR, group="g")  # two of these are held

    found = [await standing(store, run_id) for run_id in runs[1:]]

    assert [(at.place, at.holder) for at in found] == [(1, None), (2, None), (3, None), (4, None)]


async def test_equal_instants_stand_in_order_of_their_ids(store: Store) -> None:
    runs = sorted(await store.one_shots(4, due=-SECOND))

    assert [(await standing(store, run_id)).place for run_id in runs] == [0, 1, 2, 3]


async def test_a_running_run_stands_as_its_worker_does(store: Store) -> None:
    worker = await store.worker()
    other = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    store.advance(SECOND)
    await store.beat(worker)
    beaten_at = store.now
    store.advance(SECOND)
    await store.beat(other)

    assert await standing(store, run.run_id) == RunDiagnosis(
        await store.run(run.run_id), beat_at=beaten_at, lease=LEASE
    )
    await store.fleet.leave(worker)
    assert await standing(store, run.run_id) == RunDiagnosis(await store.run(run.run_id))
