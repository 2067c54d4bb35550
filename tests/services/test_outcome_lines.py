"""What is said of attempts and runs: failures, ends and late starts, and nothing of those that went well."""

import asyncio
from typing import Any

import pytest
from tests.services.worker_loops import Stage, crew_on, work

from oncue import logs
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.logs.limits import FIRST, Bursts
from oncue.services import outcome_lines
from oncue.services.reaper import Reaper
from oncue_conformance.store import Store


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_failure_is_told_with_its_retry_and_the_last_one_as_dead(
    store: Store, stage: Stage, logged: list[Any]
) -> None:
    run_id = await store.one_shot(task="fail", name="weekly report", max_retries=1)
    crew = await crew_on(store, stage)
    await work(crew)
    store.advance(MINUTE)
    await work(crew)

    failed, dead = [line for line in logged if line.get("run_id") == str(run_id)]
    assert (failed["kind"], failed["log_level"], failed["attempt"]) == ("attempt_failed", "warning", 1)
    assert (failed["task"], failed["name"], failed["retry_in"] > 0) == ("fail", "weekly report", True)
    assert (dead["kind"], dead["log_level"], dead["failures"], dead["losses"]) == ("run_dead", "error", 2, 0)
    assert dead["look"] == f"oncue dead show {run_id}"


async def test_a_run_that_succeeds_is_not_told_and_one_that_starts_late_is(
    store: Store, stage: Stage, logged: list[Any]
) -> None:
    late, _ = await store.one_shot(-2 * MINUTE), await store.one_shot(-MINUTE)
    await work(await crew_on(store, stage))

    [line] = logged
    assert (line["kind"], line["run_id"], line["seconds"]) == ("run_late", str(late), 120)


async def test_on_request_every_run_that_ends_is_told(store: Store, stage: Stage, logged: list[Any]) -> None:
    well, _ = await store.one_shot(name="greeting"), await store.one_shot(task="fail", max_retries=0)
    crew = await crew_on(store, stage)
    crew.settling._lines = outcome_lines.OutcomeLines(every=True)
    await work(crew)

    assert sorted(line["kind"] for line in logged) == ["run_dead", "run_ended"]
    [line] = [line for line in logged if line["kind"] == "run_ended"]
    assert (line["run_id"], line["task"], line["name"]) == (str(well), "noop", "greeting")
    assert (line["status"], line["attempt"], line["seconds"]) == ("succeeded", 1, 0)


async def test_a_run_is_late_from_when_its_lane_let_it_in(store: Store, stage: Stage, logged: list[Any]) -> None:
    """Not from its instant: while another run of its lane is active, it cannot start."""
    first, second, third = await store.one_shots(3, -SECOND, apart=1, group="g")
    crew, worker = await crew_on(store, stage), await store.worker()
    run = await store.claim_one(worker, first)
    store.advance(10 * MINUTE)
    await store.succeed(worker, run)
    await work(crew)  # the second, which was let in just now
    assert (stage.started, logged) == ([second], [])

    store.advance(2 * MINUTE)
    await work(crew)  # the third was let in two minutes ago

    [line] = logged
    assert (line["kind"], line["run_id"], line["seconds"]) == ("run_late", str(third), 120)


async def test_runs_of_a_lost_worker_are_told_and_the_third_loss_is_the_end(store: Store, logged: list[Any]) -> None:
    run_id = await store.one_shot()
    for _ in range(3):
        await store.claim_one(await store.worker(), run_id)
        store.advance(HOUR)
        await store.expire_workers(*[worker.worker_id for worker in await store.fleet.workers()])
        await Reaper(store.engine, store.clock).run_once()

    told = [(line["kind"], line["error_type"], line.get("losses")) for line in logged if "run_id" in line]
    assert told == [("attempt_failed", "WorkerLost", None)] * 2 + [("run_dead", "WorkerLost", 3)]


async def test_a_line_that_is_cut_is_not_put_together(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    bursts = Bursts(store.clock, lambda *_: None)
    monkeypatch.setattr(logs, "bursts", bursts)
    read: list[object] = []
    real = outcome_lines._read
    monkeypatch.setattr(outcome_lines, "_read", lambda run: (read.append(run), real(run))[1])
    for _ in range(FIRST):
        bursts.admit("error", "run_dead", "fail")
    await store.one_shots(3, -SECOND, task="fail", max_retries=0)

    await work(await crew_on(store, stage))

    assert (bursts.suppressed, len(read)) == (3, 1)  # once, for the task of their class


async def test_a_failure_that_the_database_refused_is_not_told(store: Store, stage: Stage, logged: list[Any]) -> None:
    await store.one_shot(task="fail")
    crew = await crew_on(store, stage)
    await crew.worker.run_once()
    async with asyncio.timeout(60):
        while not len(crew.settling):
            await asyncio.sleep(0)
    await store.expire_workers(crew.worker_id)
    await store.recover_runs()

    await crew.settling.run_once()

    assert [line["kind"] for line in logged] == ["result_refused"]
