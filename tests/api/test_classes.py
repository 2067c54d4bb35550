"""Queues, labels and sizes are anybody's to name: what of that stays, and how much one user may make."""

import asyncio

import pytest
from tests.api.conftest import Desk
from tests.api.test_quotas import limited, told

from oncue.domain.instants import DAY, HOUR, Duration
from oncue.domain.placement import ClassKey
from oncue.settings import Settings

MOST = Settings().quota_classes


def named(queue: str) -> dict[str, str]:
    return {"task": "mark", "queue": queue, "schedule": "every 1h"}


async def test_a_member_with_a_quota_of_one_job_leaves_one_class(desk: Desk) -> None:
    async with limited(desk, max_jobs_per_user=1) as one:
        answers = [await one.call("POST", "/v1/jobs", named(f"q{n}")) for n in range(150)]
        answers += await asyncio.gather(*(one.call("POST", "/v1/jobs", named(f"r{n}")) for n in range(40)))
        batch = await one.call("POST", "/v1/jobs/batch", {"jobs": [named(f"b{n}") for n in range(10)]})

    assert [answer.status_code for answer in answers] == [201] + [422] * 189
    assert batch.status_code == 422
    assert list((await desk.store.jobs.classes()).values()) == [ClassKey("mark", queue="q0")]


@pytest.mark.parametrize(
    "wrong", [{"task": "no such task"}, {"task": "command"}, {"priority": "highest"}, {"payload": 1}]
)
async def test_a_job_that_is_wrong_leaves_no_class(desk: Desk, wrong: dict[str, object]) -> None:
    assert (await desk.call("POST", "/v1/jobs", named("q") | wrong)).status_code in (403, 422)
    assert await desk.store.jobs.classes() == {}


async def test_one_class_too_many_is_refused_with_the_field_that_makes_it(desk: Desk) -> None:
    jobs = [named(f"q{n}") for n in range(MOST + 1)]
    batch = await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs})
    assert told(batch)[2] == [(f"jobs.{MOST}.queue", "quota_exceeded")]
    assert await desk.nothing_stored()
    assert await desk.store.jobs.classes() == {}

    assert (await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs[:MOST]})).status_code == 201
    status, detail, errors = told(await desk.call("POST", "/v1/jobs", named("one more")))

    assert (status, errors) == (422, [("queue", "quota_exceeded")])
    assert f"already use {MOST} combinations" in detail
    labelled = await desk.call("POST", "/v1/jobs", {"task": "mark", "labels": ["gpu"]})
    assert told(labelled)[2] == [("labels", "quota_exceeded")]
    put = await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark", "queue": "one more"})
    assert told(put)[2] == [("queue", "quota_exceeded")]
    assert len(await desk.store.jobs.classes()) == MOST

    await desk.create(queue="q7")
    await desk.create(queue="one more", key="bob")
    await desk.create(queue="one more")


async def test_an_edit_makes_no_class_too_many_either(desk: Desk) -> None:
    jobs = [named(f"q{n}") for n in range(MOST)]
    made = (await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs})).json()["job_ids"][0]

    refused = await desk.call("PATCH", f"/v1/jobs/{made}", {"queue": "another"})
    moved = await desk.call("PATCH", f"/v1/jobs/{made}", {"queue": "q1", "name": "moved"})

    assert told(refused)[2] == [("queue", "quota_exceeded")]
    assert (moved.status_code, moved.json()["queue"], moved.json()["version"]) == (200, "q1", 2)


async def test_neighbours_do_not_notice_that_somebody_is_refused_a_class(desk: Desk) -> None:
    await desk.call("POST", "/v1/jobs/batch", {"jobs": [named(f"q{n}") for n in range(MOST)]})
    bodies = [named("q1"), named("one more"), named("q2")] * 5

    answers = await asyncio.gather(*(desk.call("POST", "/v1/jobs", body) for body in bodies))

    assert [answer.status_code for answer in answers] == [201, 422, 201] * 5


async def test_a_class_in_use_is_asked_for_often_enough_to_stay_and_no_more_often(desk: Desk) -> None:
    """The API keeps its number in mind, and says every hour that it does."""
    asked: list[int] = []
    create = desk.store.jobs.create

    async def watched(new, now, *, whole=False):  # type: ignore[no-untyped-def] # as the verb it stands for
        asked.append(sum(not one.class_id for one in new))
        return await create(new, now, whole=whole)

    desk.app.api.engine.jobs.create = watched
    for _ in range(3):
        for _ in range(4):
            await desk.create()
        desk.store.advance(HOUR)
    assert asked == [1, 0, 0, 0] * 3


async def test_a_job_made_when_its_class_has_gone_has_one(desk: Desk) -> None:
    await desk.create(queue="q")
    await desk.create(queue="newest", schedule="every 1h")
    await desk.store.claim_due(worker := await desk.store.worker())
    await desk.store.succeed(
        worker, *await desk.store.running.held_by(worker, [r.run_id for r in await desk.store.runs()])
    )
    for _ in range(8):
        desk.store.advance(DAY)
        await desk.store.maintenance.roll_up()
        await desk.store.maintenance.maintain(desk.store.now, Duration(2 * DAY))
    assert "q" not in {key.queue for key in (await desk.store.jobs.classes()).values()}

    job = await desk.create(queue="q")

    assert [str(run_id) for run_id in await desk.store.claimable()] == [job["job_id"]]
    sums = {one["queue"]: one for one in (await desk.get("/stats"))["queues"]}
    assert sums[""]["succeeded"] == 1
    assert sums["q"]["open"] == 1
    assert "" not in {one["name"] for one in (await desk.get("/queues"))["queues"]}
