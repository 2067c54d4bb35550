"""Idempotency keys on every call that makes something: asked for again, it is the same thing and the same answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import httpx2
import pytest
from tests.api.conftest import Desk
from tests.api.test_audit import audit_entries

from oncue.api.application import Application
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import created_at
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, Duration, rfc3339
from oncue.engines.port import RunQuery
from oncue.settings import Settings

ONCE = {"Idempotency-Key": "order-17"}


class Request(NamedTuple):
    """One that makes something, and one with the same path that asks for something else."""

    path: str
    body: Any
    other: Any = None
    status: int = 202
    again: int = 202
    key: str = "ada"


async def a_job(desk: Desk) -> Request:
    return Request("/v1/jobs", {"task": "mark"}, {"task": "mark", "name": "other"}, 201, 200)


async def a_batch(desk: Desk) -> Request:
    jobs = [{"task": "mark", "name": f"n{i}"} for i in range(5)] + [{"task": "mark", "schedule": "every 1h"}]
    return Request("/v1/jobs/batch", {"jobs": jobs}, {"jobs": jobs[1:]}, 201, 200)


async def run_now(desk: Desk) -> Request:
    job = await desk.create(schedule="every 1d", overlap="allow")
    return Request(f"/v1/jobs/{job['job_id']}/runNow", None)


async def backfill(desk: Desk) -> Request:
    job = await desk.create(schedule="0 * * * *", overlap="allow")
    body = {"from": rfc3339(desk.store.at(-3 * HOUR)), "to": rfc3339(desk.store.now)}
    other = body | {"from": rfc3339(desk.store.at(-2 * HOUR))}
    return Request(f"/v1/jobs/{job['job_id']}/backfill", body, other)


async def retry(desk: Desk) -> Request:
    return Request(f"/v1/runs/{await desk.dead()}/retry", None)


async def requeue(desk: Desk) -> Request:
    run_ids = [str(await desk.dead()) for _ in range(3)]
    return Request("/v1/dead-letters/requeue", {"run_ids": run_ids}, {"run_ids": run_ids[1:]})


async def requeue_all(desk: Desk) -> Request:
    for _ in range(3):
        await desk.dead()
    return Request("/v1/dead-letters/requeue", {"filter": {}}, {"filter": {"task": "mark"}})


async def a_key(desk: Desk) -> Request:
    body = {"user_id": "eve", "role": "member"}
    return Request("/v1/keys", body, body | {"role": "viewer"}, 201, 409, "root")


Prepare = Callable[[Desk], Awaitable[Request]]
RUNS = [run_now, backfill, retry, requeue, requeue_all]
JOBS = [a_job, a_batch]
ALL = [*JOBS, *RUNS, a_key]


async def send(desk: Desk, request: Request, **how: Any) -> httpx2.Response:
    given = {"headers": ONCE, "key": request.key, "body": request.body} | how
    return await desk.call("POST", request.path, **given)


async def everything(desk: Desk) -> tuple[Any, ...]:
    """What there is to be made: jobs, runs, dead letters and keys."""
    runs = await desk.store.lists.runs(RunQuery(limit=1_000))
    letters = await desk.store.lists.dead_letters(None, 1_000)
    return (
        {row.job.job_id for row in await desk.jobs()},
        {run.run_id for run in runs.items},
        {run.run_id for run in letters.items},
        {key.key_id for key in await desk.store.accounts.keys()},
    )


def made_by(answer: httpx2.Response) -> Any:
    """What an answer says was made."""
    told = answer.json()
    return told.get("job_id", told)


@pytest.mark.parametrize("prepare", ALL)
async def test_sent_again_it_makes_nothing_and_says_the_same(desk: Desk, prepare: Prepare) -> None:
    request = await prepare(desk)
    before = await everything(desk)

    first = await send(desk, request)
    after, lines = await everything(desk), await audit_entries(desk, "root")
    desk.store.advance(MINUTE)
    again = await send(desk, request)

    assert (first.status_code, again.status_code) == (request.status, request.again), again.text
    assert before != after == await everything(desk)
    assert await audit_entries(desk, "root") == lines  # nothing was done: there is nothing to write down
    if request.again != 409:
        assert made_by(again) == made_by(first)


@pytest.mark.parametrize("prepare", ALL)
async def test_without_a_key_it_is_another_request(desk: Desk, prepare: Prepare) -> None:
    request = await prepare(desk)
    first = await send(desk, request)
    made = await everything(desk)

    plain = await send(desk, request, headers={})

    assert first.status_code == request.status
    if prepare in (a_job, a_batch, run_now, a_key):
        assert (plain.status_code, await everything(desk) != made) == (request.status, True)


@pytest.mark.parametrize("prepare", [one for one in ALL if one not in (run_now, retry)])
async def test_with_another_body_it_is_refused_and_does_nothing(desk: Desk, prepare: Prepare) -> None:
    request = await prepare(desk)
    await send(desk, request)
    before = await everything(desk)

    other = await send(desk, request, body=request.other)

    assert other.status_code == 422
    assert [(error["path"], error["code"]) for error in other.json()["errors"]] == [("Idempotency-Key", "key_reused")]
    assert await everything(desk) == before


@pytest.mark.parametrize("prepare", [*RUNS, a_key])
async def test_another_user_may_have_the_same_key(desk: Desk, prepare: Prepare) -> None:
    """Which does not give them anything of the first one's."""
    request = await prepare(desk)
    first = await send(desk, request)

    theirs = await send(desk, request, key="bob")

    assert first.status_code == request.status
    foreign = {run_now: 404, backfill: 404, retry: 404, requeue: 202, requeue_all: 202, a_key: 403}
    assert theirs.status_code == foreign[prepare], theirs.text
    if theirs.status_code == 202:
        assert theirs.json() == {"count": 0, "run_ids": [], "refused": []}


@pytest.mark.parametrize("bad", ["", "x" * 256, "tab\there", "schl\u00fcssel".encode("latin-1")])
@pytest.mark.parametrize("prepare", ALL)
async def test_a_key_that_is_none_is_refused_alike_everywhere(desk: Desk, prepare: Prepare, bad: str) -> None:
    request = await prepare(desk)
    before = await everything(desk)

    answer = await send(desk, request, headers={"Idempotency-Key": bad})

    assert answer.status_code == 422
    assert [(error["path"], error["code"]) for error in answer.json()["errors"]] == [("Idempotency-Key", "bad_header")]
    assert await everything(desk) == before


async def test_the_same_key_on_another_path_has_nothing_to_do_with_it(desk: Desk) -> None:
    first, second = await run_now(desk), await run_now(desk)

    answers = [await send(desk, first), await send(desk, second)]

    assert answers[0].json() != answers[1].json()
    assert [answer.status_code for answer in answers] == [202, 202]


async def test_a_key_is_good_for_a_day_and_new_after_two(desk: Desk) -> None:
    request = await run_now(desk)
    first = await send(desk, request)

    for outcome in (True, False):
        desk.store.advance(DAY)
        await desk.store.maintenance.maintain(desk.store.now, Duration(30 * DAY))
        assert ((await send(desk, request)).json() == first.json()) is outcome


# ----------------------------------------------------------------------------------- what the first one left behind


@pytest.mark.parametrize("lost", ["answered", "hint"])
@pytest.mark.parametrize("prepare", RUNS)
async def test_who_died_before_answering_made_it_already(
    desk: Desk, prepare: Prepare, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await prepare(desk)

    async def die(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        if lost == "answered":
            patch.setattr(desk.store.engine.idempotency, "answered", die)
        else:
            patch.setattr(desk.store.engine.signals, "send", die)
        assert (await send(desk, request)).status_code == 500
    made = await everything(desk)
    desk.store.advance(MINUTE)

    again = await send(desk, request)

    assert again.status_code == request.again
    assert await everything(desk) == made
    if prepare is not requeue_all:  # whose letters are no letters any more
        assert set(run_ids(again.json())) <= {str(run_id) for run_id in made[1]}
        assert run_ids(again.json())
    assert (await send(desk, request)).json() == again.json()


def run_ids(told: Any) -> list[str]:
    return told["run_ids"] if "run_ids" in told else [told["run_id"]]


@pytest.mark.parametrize("prepare", RUNS)
async def test_who_died_before_making_it_has_only_taken_the_key(
    desk: Desk, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await prepare(desk)
    before = await everything(desk)

    async def die(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(desk.store.engine.jobs, "apply", die)
        patch.setattr(desk.store.engine.history, "requeue", die)
        assert (await send(desk, request)).status_code == 500
    assert await everything(desk) == before

    again = await send(desk, request)

    assert again.status_code == request.status
    assert await everything(desk) != before
    assert (await send(desk, request)).json() == again.json()


@pytest.mark.parametrize("prepare", RUNS)
async def test_a_store_that_goes_away_after_it_was_made_does_not_take_the_answer_along(
    desk: Desk, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await prepare(desk)

    async def away(*_: Any) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(desk.store.engine.idempotency, "answered", away)

    assert (await send(desk, request)).status_code == request.status


@pytest.mark.parametrize("kept", [True, False])
async def test_run_now_is_the_same_run_though_the_job_is_cancelled_or_may_not_overlap(
    desk: Desk, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for again it finds its own run going."""
    if not kept:
        monkeypatch.setattr(desk.store.engine.idempotency, "answered", nothing)
    job = await desk.create(schedule="every 1d", overlap="skip")
    request = Request(f"/v1/jobs/{job['job_id']}/runNow", None)
    first = await send(desk, request)
    worker = await desk.store.worker()
    [run] = await desk.store.claim_due(worker)

    going = await send(desk, request)
    assert (await send(desk, request, headers={"Idempotency-Key": "another"})).status_code == 409
    await desk.store.succeed(worker, run)
    await desk.call("DELETE", f"/v1/jobs/{job['job_id']}")
    cancelled = await send(desk, request)

    assert [(one.status_code, one.json()) for one in (first, going, cancelled)] == [
        (202, {"run_id": str(run.run_id)})
    ] * 3
    assert (await send(desk, request, headers={"Idempotency-Key": "yet another"})).status_code == 409


async def nothing(*_: Any) -> None: ...


@pytest.mark.parametrize("kept", [True, False])
async def test_a_retry_is_the_same_run_though_that_has_ended(
    desk: Desk, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kept:
        monkeypatch.setattr(desk.store.engine.idempotency, "answered", nothing)
    request = await retry(desk)
    first = await send(desk, request)
    worker = await desk.store.worker()
    await desk.store.succeed(worker, *await desk.store.claim_due(worker))

    again = await send(desk, request)

    assert (again.status_code, again.json()) == (202, first.json())
    assert (await send(desk, request, headers={"Idempotency-Key": "another"})).status_code == 409


async def test_a_requeue_that_was_cut_off_half_way_makes_the_rest_and_tells_of_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, real = await requeue(desk), desk.store.engine.history.requeue

    async def half(runs: Any, now: Any) -> Any:
        await real(runs[:2], now)
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(desk.store.engine.history, "requeue", half)
        assert (await send(desk, request)).status_code == 500
    again = await send(desk, request)

    told = again.json()
    assert (again.status_code, told["count"]) == (202, 3)
    assert sorted(told["run_ids"]) == sorted(str(run_id) for run_id in await desk.store.claimable())


async def test_a_requeue_does_not_tell_of_runs_that_others_made(desk: Desk) -> None:
    request = await requeue(desk)
    await send(desk, request, headers={})

    assert (await send(desk, request)).json() == {"count": 0, "run_ids": [], "refused": []}


# ----------------------------------------------------------------------------------------------------- what was refused


@pytest.mark.parametrize("prepare", [run_now, backfill, retry])
async def test_what_was_refused_may_be_asked_for_again_with_the_same_key(desk: Desk, prepare: Prepare) -> None:
    """Not there, or not in a state for it: once it is, the key does."""
    job = await desk.create(schedule="0 * * * *", overlap="skip")
    worker = await desk.store.worker()
    if prepare is run_now:
        request = Request(f"/v1/jobs/{job['job_id']}/runNow", None)
        assert (await send(desk, request, headers={})).status_code == 202
        [run] = await desk.store.claim_due(worker)
        assert (await send(desk, request)).status_code == 409
        await desk.store.succeed(worker, run)
    elif prepare is retry:
        live = await desk.create()
        request = Request(f"/v1/runs/{live['job_id']}/retry", None)
        assert (await send(desk, request)).status_code == 409
        [run] = await desk.store.claim_due(worker)
        await desk.store.fail(worker, run, retry=False)
    else:
        request = Request(f"/v1/jobs/{job['job_id']}/backfill", (await backfill(desk)).body)
        too_long = {"from": rfc3339(desk.store.at(-3000 * DAY)), "to": rfc3339(desk.store.now)}
        assert (await send(desk, request, body=too_long)).status_code == 422

    assert (await send(desk, request)).status_code == 202


@pytest.mark.parametrize("path", ["/v1/jobs/{}/runNow", "/v1/runs/{}/retry"])
async def test_what_is_not_there_is_still_not_there_the_second_time(desk: Desk, path: str) -> None:
    for _ in range(2):
        assert (await send(desk, Request(path.format(uuid4()), None))).status_code == 404


async def test_a_batch_that_was_refused_may_be_corrected_under_the_same_key(desk: Desk) -> None:
    taken = await desk.call("POST", "/v1/jobs", {"task": "mark", "schedule": "every 1h", "key": "mine"})
    assert taken.status_code == 201
    bad, good = ({"jobs": [{"task": "mark"}, {"task": "mark", "key": key}]} for key in ("mine", "other"))

    refused = await desk.call("POST", "/v1/jobs/batch", bad, headers=ONCE)
    corrected = await desk.call("POST", "/v1/jobs/batch", good, headers=ONCE)

    assert (refused.status_code, corrected.status_code) == (409, 201)


# ---------------------------------------------------------------------------------------------------------------- batch


async def test_the_ids_of_a_batch_are_in_order_and_of_its_instant(desk: Desk) -> None:
    jobs = [{"task": "mark", "name": f"n{i}"} for i in range(300)]

    answer = await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs}, headers=ONCE)

    ids = [UUID(one) for one in answer.json()["job_ids"]]
    assert ids == sorted(set(ids))
    assert {one.version for one in ids} == {7}
    assert all(0 <= created_at(one) - desk.store.now <= MILLISECOND for one in ids)
    for index in (0, 1, 299):
        assert (await desk.get(f"/jobs/{ids[index]}"))["name"] == f"n{index}"


async def test_a_batch_is_repeated_though_its_stable_keys_are_taken_by_its_own_jobs(desk: Desk) -> None:
    body = {"jobs": [{"task": "mark"}, {"task": "mark", "schedule": "every 1h", "key": "mine"}]}
    first = await desk.call("POST", "/v1/jobs/batch", body, headers=ONCE)
    await desk.call("DELETE", f"/v1/jobs/{first.json()['job_ids'][0]}")

    again = await desk.call("POST", "/v1/jobs/batch", body, headers=ONCE)
    other = await desk.call(
        "POST", "/v1/jobs/batch", {"jobs": [{"task": "mark", "name": "other"}, body["jobs"][1]]}, headers=ONCE
    )

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 422)
    assert again.json() == first.json()


# ----------------------------------------------------------------------------------------------------------------- keys


async def test_a_secret_is_told_once_and_the_repeat_says_which_key_to_revoke(desk: Desk) -> None:
    request = await a_key(desk)
    first = (await send(desk, request)).json()

    again = await send(desk, request)

    assert again.status_code == 409
    assert first["key_id"] in again.json()["detail"]
    assert first["key"] not in again.text
    assert (await desk.call("GET", "/v1/tasks", key=first["key"])).status_code == 200


async def test_a_key_whose_making_was_cut_off_before_it_was_stored_is_made(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await a_key(desk)

    async def die(_: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(desk.store.engine.accounts, "add_key", die)
        assert (await send(desk, request)).status_code == 500
    again = await send(desk, request)

    assert again.status_code == 201
    assert (await desk.call("GET", "/v1/tasks", key=again.json()["key"])).status_code == 200


# ---------------------------------------------------------------------------------------------------------- all at once


@asynccontextmanager
async def two_servers(desk: Desk) -> AsyncIterator[list[Desk]]:
    """The same store behind another process's engine and API."""
    other = await desk.store.second()
    app = Application(other.engine, other.clock, Settings())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://other") as client:
        yield [desk, Desk(other, app, client, desk.keys)]


async def all_at_once(desk: Desk, request: Request) -> list[httpx2.Response]:
    async with two_servers(desk) as desks:
        return await asyncio.gather(*(send(desks[n % 2], request) for n in range(50)))


@pytest.mark.parametrize("prepare", JOBS)
async def test_of_fifty_at_once_over_two_servers_one_makes_the_jobs(desk: Desk, prepare: Prepare) -> None:
    request = await prepare(desk)

    answers = await all_at_once(desk, request)

    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 49}
    assert len({str(made_by(answer)) for answer in answers}) == 1
    assert len(await desk.jobs()) == (1 if prepare is a_job else 6)


@pytest.mark.parametrize("prepare", [run_now, backfill, retry, requeue])
async def test_of_fifty_at_once_over_two_servers_all_get_the_same_runs(desk: Desk, prepare: Prepare) -> None:
    request = await prepare(desk)
    [_, before, *_] = await everything(desk)

    answers = await all_at_once(desk, request)

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    [_, after, *_] = await everything(desk)
    assert {str(run_id) for run_id in after - before} == set(run_ids(answers[0].json()))


async def test_of_fifty_at_once_over_two_servers_one_is_told_a_secret_that_works(desk: Desk) -> None:
    answers = await all_at_once(desk, await a_key(desk))

    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 49}
    [made] = [answer.json() for answer in answers if answer.status_code == 201]
    assert (await desk.call("GET", "/v1/tasks", key=made["key"])).status_code == 200
    assert len([key for key in await desk.store.accounts.keys() if key.user_id == "eve"]) == 1


async def test_of_fifty_who_requeue_all_at_once_each_letter_gets_one_run(desk: Desk) -> None:
    request = await requeue_all(desk)

    answers = await all_at_once(desk, request)

    told = {run_id for answer in answers for run_id in answer.json()["run_ids"]}
    assert told == {str(run_id) for run_id in await desk.store.claimable()}
    assert len(told) == 3
