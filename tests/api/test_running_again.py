"""Run again what has ended, and run now: with the payload it had, another one, or a part of it changed."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.api.conftest import Desk

from oncue.api import dead_letters
from oncue.api.shared.context import Api
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MINUTE, SECOND
from oncue.domain.quota import Quota
from oncue.domain.run import NewRun, RunView, State, Trigger

SLOW = {"seconds": 1, "tag": "a"}


async def ended(desk: Desk, state: State, key: str = "ada") -> RunId:
    bound = {"start_within": "1m"} if state is State.EXPIRED else {}
    job = await desk.create("slow", payload=SLOW, key=key, **bound)
    await desk.store.end(RunId(UUID(job["job_id"])), state)
    return RunId(UUID(job["job_id"]))


async def retry(desk: Desk, run_id: RunId, body: Any = None, **how: Any) -> tuple[int, Any]:
    answer = await desk.call("POST", f"/v1/runs/{run_id}/retry", body, **how)
    return answer.status_code, answer.json()


async def run_of(desk: Desk, answer: tuple[int, Any]) -> RunView:
    status, told = answer
    assert status == 202, told
    run = await desk.store.history.run(None, RunId(UUID(told["run_id"])))
    assert run is not None
    return run


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.EXPIRED, State.DEAD])
async def test_whatever_has_ended_runs_again(desk: Desk, state: State) -> None:
    run_id = await ended(desk, state)

    same = await run_of(desk, await retry(desk, run_id))
    assert (same.parent, same.payload, same.trigger) == (run_id, b'{"seconds":1,"tag":"a"}', Trigger.REQUEUE)
    assert (await desk.get("/dead-letters"))["dead_letters"] == []
    if state is State.DEAD:
        assert (await retry(desk, run_id))[0] == 409  # as it is a dead letter no more
        return
    other = await run_of(desk, await retry(desk, run_id, {"payload": {"seconds": 2}}))
    part = await run_of(desk, await retry(desk, run_id, {"payload_patch": {"tag": None, "seconds": 3}}))
    assert (other.payload, part.payload, part.parent) == (b'{"seconds":2}', b'{"seconds":3}', run_id)


async def test_a_requeue_by_ids_has_a_limit_of_bytes_and_requeues_all_or_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LARGEST", 100)
    monkeypatch.setattr(dead_letters, "ONE_PASS", 2)
    chosen = {"run_ids": [str(await ended(desk, State.DEAD)) for _ in range(3)]}

    for body in (chosen | {"payload_patch": {"tag": "x" * 40}}, {"filter": {}, "payload_patch": {"tag": "x" * 40}}):
        answer = await desk.call("POST", "/v1/dead-letters/requeue", body)

        by_ids = "run_ids" in body
        assert answer.status_code == (422 if by_ids else 202), answer.text
        assert [one["path"] for one in answer.json().get("errors", ())] == ["run_ids"] * by_ids
        assert len((await desk.get("/dead-letters"))["dead_letters"]) == (3 if by_ids else 0)

    monkeypatch.setattr(dead_letters, "LARGEST", 60)
    chosen = {"run_ids": [str(await ended(desk, State.DEAD)) for _ in range(3)]}
    with monkeypatch.context() as nothing_is_built:
        nothing_is_built.setattr(dead_letters, "followed", None)
        assert (await desk.call("POST", "/v1/dead-letters/requeue", chosen)).status_code == 422
    assert (await desk.call("POST", "/v1/dead-letters/requeue", {"run_ids": chosen["run_ids"][:2]})).status_code == 202


async def test_other_requests_are_answered_while_many_payloads_are_checked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "TURN", -1)
    run_ids = [str(await ended(desk, State.DEAD)) for _ in range(3)]
    turns, checked = 0, list[int]()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def follow(*given: Any) -> NewRun:
        checked.append(turns)
        return await followed(*given)

    followed = dead_letters.followed
    monkeypatch.setattr(dead_letters, "followed", follow)
    counting = asyncio.create_task(count_turns())
    await desk.call("POST", "/v1/dead-letters/requeue", {"run_ids": run_ids})
    counting.cancel()

    assert len(set(checked)) == 3


async def test_what_does_not_fit_is_refused_and_stores_nothing(desk: Desk) -> None:
    run_id = await ended(desk, State.SUCCEEDED)
    cases = [
        ({"payload": {}}, "payload.seconds"),
        ({"payload": None}, "payload.seconds"),
        ({"payload": []}, "payload"),
        ({"payload_patch": {"seconds": None}}, "payload.seconds"),
        ({"payload_patch": {"tag": "\x00"}}, "payload_patch.tag"),
        ({"payload_patch": None}, "payload_patch"),
        ({"payload": SLOW, "payload_patch": SLOW}, "payload_patch"),
        ({"reason": "x"}, "reason"),
    ]
    for body, path in cases:
        status, told = await retry(desk, run_id, body)
        assert (status, told["errors"][0]["path"]) == (422, path), body
    deep: Any = {}
    for _ in range(500):
        deep = {"a": deep}
    assert (await retry(desk, run_id, {"payload_patch": deep}))[0] == 422
    assert await desk.store.claimable() == []


async def test_nobody_runs_anothers_again_and_viewers_run_nothing(desk: Desk) -> None:
    run_id = await ended(desk, State.SUCCEEDED)

    assert (await retry(desk, run_id, key="bob"))[0] == 404
    assert (await retry(desk, run_id, {"payload": []}, key="bob"))[0] == 422
    assert (await retry(desk, run_id, key="viewer"))[0] == 403
    assert (await retry(desk, RunId(desk.store.new_id()), key="viewer"))[0] == 403
    assert await desk.store.claimable() == []
    assert (await run_of(desk, await retry(desk, run_id, key="root"))).uid == desk.store.uid


async def test_a_task_of_administrators_gets_no_payload_of_a_members(desk: Desk) -> None:
    """Who may not create such a job may not change what one of its runs does, either."""
    worker = await desk.store.worker()
    run_id = await desk.store.one_shot(task="command", payload=b'{"argv":["a"]}')
    await desk.store.succeed(worker, await desk.store.claim_one(worker, run_id))

    assert (await retry(desk, run_id, {"payload": {"argv": ["b"]}}))[0] == 403
    assert (await retry(desk, run_id))[0] == 202


async def test_what_still_runs_is_not_retried(desk: Desk) -> None:
    job = await desk.create("slow", payload=SLOW)

    status, told = await retry(desk, RunId(UUID(job["job_id"])))

    assert (status, told["run_status"]) == (409, "queued")


async def test_a_run_whose_definition_is_gone_is_refused(desk: Desk) -> None:
    job = await desk.create("mark", schedule="every 1m")
    job_id = JobId(UUID(job["job_id"]))
    await desk.store.plan(ahead=MINUTE)
    desk.store.advance(MINUTE)
    [run_id] = await desk.store.claimable()
    await desk.store.end(run_id, State.SUCCEEDED)
    same = await run_of(desk, await retry(desk, run_id))
    assert (same.job_id, same.nominal is None) == (job_id, False)
    await _forget_definition(desk, job_id)

    status, told = await retry(desk, run_id)

    assert status == 409
    assert "definition" in told["detail"]


async def _forget_definition(desk: Desk, job_id: JobId) -> None:
    read = desk.store.engine.history.run

    async def without(uid: Any, run_id: RunId) -> RunView | None:
        run = await read(uid, run_id)
        return None if run is None else msgspec.structs.replace(run, spec=None, payload=None)

    desk.store.engine.history.run = without  # type: ignore[method-assign]  # as after a job was deleted


async def test_the_same_key_runs_it_once_also_after_its_answer_was_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await ended(desk, State.SUCCEEDED)
    once = {"Idempotency-Key": "k"}
    first = await retry(desk, run_id, {"payload": SLOW}, headers=once)

    assert await retry(desk, run_id, {"payload": SLOW}, headers=once) == first
    assert (await retry(desk, run_id, headers=once))[0] == 422  # another body
    assert len(await desk.store.claimable()) == 1


async def test_runs_by_hand_count_for_the_quota(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Api, "quota_of_runs", lambda *_: Quota(runs=1))
    run_id = await ended(desk, State.SUCCEEDED)

    assert (await retry(desk, run_id))[0] == 202
    status, told = await retry(desk, run_id)
    assert (status, told["errors"][0]["code"]) == (422, "quota_exceeded")


@pytest.mark.parametrize("schedule", ["every 1h", "now"])
async def test_a_job_runs_now_with_a_payload_for_this_run_only(desk: Desk, schedule: str) -> None:
    job = await desk.create("slow", payload=SLOW, schedule=schedule, overlap="allow")

    async def run_now(body: Any = None, key: str = "ada") -> tuple[int, Any]:
        answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow", body, key=key)
        return answer.status_code, answer.json()

    own, usual = await run_of(desk, await run_now({"payload": {"seconds": 9}})), await run_of(desk, await run_now())

    assert (own.payload, own.trigger, usual.payload) == (b'{"seconds":9}', Trigger.RUN_NOW, b'{"seconds":1,"tag":"a"}')
    assert (await desk.get(f"/jobs/{job['job_id']}"))["payload"] == SLOW
    assert (await desk.get(f"/jobs/{job['job_id']}"))["version"] == 1
    for body in ({"payload": {}}, {"payload": 1}, {"payload_patch": {}}, {"other": 1}):
        assert (await run_now(body))[0] == 422, body
    assert (await run_now({"payload": {"seconds": 9}}, "bob"))[0] == 404
    assert (await run_now({"payload": {"seconds": 9}}, "viewer"))[0] == 403


async def test_a_large_payload_is_kept_as_long_as_its_run(desk: Desk) -> None:
    run_id, text = await ended(desk, State.SUCCEEDED), "x" * 600_000

    new = await run_of(desk, await retry(desk, run_id, {"payload_patch": {"tag": text}}))
    third = await _after_success(desk, new)
    desk.store.advance(400 * 24 * 60 * MINUTE)

    assert (await desk.get(f"/runs/{third.run_id}/payload")) == {"seconds": 1, "tag": text}
    assert (await desk.store.engine.objects.look(desk.store.now)).unused == ()


async def _after_success(desk: Desk, run: RunView) -> RunView:
    """The run after this one, once this one has succeeded."""
    await desk.store.end(run.run_id, State.SUCCEEDED)
    desk.store.advance(SECOND)
    return await run_of(desk, await retry(desk, run.run_id))


async def test_letters_that_a_patch_does_not_fit_stay(desk: Desk) -> None:
    worker, made = await desk.store.worker(), []
    for task, payload in (("slow", SLOW), ("mark", {"seconds": "many"}), ("slow", {"seconds": 5})):
        await desk.create(task, payload=payload)
        [run] = await desk.store.claim_due(worker)
        await desk.store.fail(worker, run, retry=False)
        made.append(run.run_id)

    answer = await desk.call(
        "POST", "/v1/dead-letters/requeue", {"filter": {}, "payload_patch": {"tag": None, "extra": 1}}
    )
    told = answer.json()

    assert (answer.status_code, told["count"], len(told["run_ids"])) == (202, 1, 1)
    assert sorted(one["run_id"] for one in told["refused"]) == sorted([str(made[0]), str(made[2])])
    assert told["refused"][0]["errors"][0]["path"] == "payload.extra"
    [new] = await desk.store.claimable()
    assert (await desk.store.run(new)).payload == b'{"seconds":"many","extra":1}'
    assert len((await desk.get("/dead-letters"))["dead_letters"]) == 2


async def test_one_letter_gets_another_payload(desk: Desk) -> None:
    first, second = await desk.dead(), await desk.dead()

    async def requeue(**body: Any) -> tuple[int, Any]:
        answer = await desk.call("POST", "/v1/dead-letters/requeue", body)
        return answer.status_code, answer.json()

    for which in ({"run_ids": [str(first), str(second)]}, {"filter": {}}):
        status, told = await requeue(**which, payload={"a": 1})
        assert (status, told["errors"][0]["path"]) == (422, "payload")
    status, told = await requeue(run_ids=[str(first)], payload={"a": 1})
    assert (status, told["count"], told["refused"]) == (202, 1, [])
    assert (await desk.store.run(RunId(UUID(told["run_ids"][0])))).payload == b'{"a":1}'
    refused = await desk.call("POST", "/v1/dead-letters/discard", {"run_ids": [str(second)], "payload": {}})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "payload")
