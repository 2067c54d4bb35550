"""The self-audit: silent where all is well, and exactly one finding for each kind of damage."""

from typing import Any

import pytest

from oncue.domain import self_audit as decisions
from oncue.domain.ids import occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.policy import CatchUp
from oncue.domain.self_audit import TURN, Check, read_progress
from oncue.engines.port import Finding
from oncue.services import self_audit
from oncue.services.attempts import DOES_NOT_STOP
from oncue.services.self_audit import EVERY, SECOND_LOOK, SelfAudit
from oncue_conformance.store import Store

LEASE = Duration(15 * SECOND)
KEPT = Duration(90 * DAY)


async def damage(store: Store, engine_name: str, statement: str) -> None:
    """Change the store past the engine. PostgreSQL has the runs that wait in a table of their own."""
    if engine_name == "postgres":
        await store.engine._store.fetch(statement.format(runs="waiting"))  # type: ignore[attr-defined]
    else:
        await store.engine._store.write(  # type: ignore[attr-defined]
            lambda db: db.execute(statement.format(runs="runs")).fetchall()
        )


async def pass_time(store: Store, audit: SelfAudit, length: int) -> None:
    """Let the audit run as its loop does, while planning goes on."""
    end = store.now + length
    while store.now < end:
        await store.plan_all()
        await audit.run_once()
        await store.clock.advance(EVERY)


async def open_findings(store: Store) -> list[Finding]:
    return [one for one in (await store.auditing.findings()).items if one.cleared_at is None]


async def test_where_all_is_well_there_is_no_finding(store: Store, logged: list[Any]) -> None:
    """Everything that can happen to a job: planned, skipped, paused, edited, ended, held, run, lost."""
    for how in ({"every": MINUTE}, {"every": SECOND}, {"every": MINUTE, "catch_up": CatchUp.SKIP}):
        await store.recurring(**how)
    paused, cancelled = [await store.recurring(every=10 * SECOND) for _ in range(2)]
    await store.one_shots(3, due=5 * SECOND, group="g")
    await store.one_shot(start_within=Duration(MINUTE))
    audit = SelfAudit(store.engine, store.clock, LEASE, KEPT)
    await pass_time(store, audit, 2 * MINUTE)
    await store.pause(paused)
    await store.jobs.cancel(None, cancelled, store.now)
    worker = await store.worker()
    for run in await store.claim_due(worker, 5):
        await store.succeed(worker, run)
    await store.planning.expire(100, store.now)
    store.advance(20 * MINUTE)  # nobody plans
    await pass_time(store, audit, 2 * MINUTE)

    assert await open_findings(store) == []
    assert [line for line in logged if line.get("kind") == "finding"] == []
    progress = read_progress(await store.maintenance.take_turn(TURN, store.at(EVERY), EVERY) or b"")
    assert progress.passed_at is not None
    assert progress.checked[Check.CURSOR] >= 5


async def found(store: Store, logged: list[Any]) -> list[tuple[str, str]]:
    """What a day of looking finds, and that it is logged once."""
    audit = SelfAudit(store.engine, store.clock, LEASE, KEPT)
    await audit.run_once()
    assert await open_findings(store) == []  # not at the first look
    await store.clock.advance(SECOND_LOOK)
    await audit.run_once()
    await store.clock.advance(SECOND_LOOK)
    await audit.run_once()
    findings = [(one.check, one.object_id) for one in await open_findings(store)]
    assert [(line["check"], line["object_id"]) for line in logged if line.get("kind") == "finding"] == findings
    return findings


async def test_a_cursor_that_skips_occurrences_is_found(store: Store, engine_name: str, logged: list[Any]) -> None:
    job_id = await store.recurring(every=HOUR)
    await store.recurring(every=HOUR)
    await damage(
        store,
        engine_name,
        f"update agenda set next_at = {store.at(5 * HOUR)} where job_id = {key(job_id, engine_name)}",
    )

    assert await found(store, logged) == [("cursor", str(job_id))]
    [finding] = await open_findings(store)
    assert "but its schedule says" in finding.words


async def test_a_cursor_of_a_paused_job_that_plans_is_found(store: Store, engine_name: str, logged: list[Any]) -> None:
    job_id = await store.recurring(every=HOUR)
    await store.pause(job_id)
    await damage(store, engine_name, f"update agenda set next_at = {store.at(HOUR)}")

    assert await found(store, logged) == [("cursor", str(job_id))]


async def test_a_definition_that_nobody_can_read_is_found(store: Store, engine_name: str, logged: list[Any]) -> None:
    job_id = await store.recurring(every=MINUTE)
    spec = '{{"task": "noop", "schedule": {{"every": "no number"}}}}'
    spec = f"convert_to('{spec}', 'UTF8')" if engine_name == "postgres" else f"cast('{spec}' as blob)"
    await damage(store, engine_name, f"update jobs set spec = {spec}")
    store.advance(10 * MINUTE)

    assert await found(store, logged) == [("unplannable", str(job_id))]


async def test_a_lost_occurrence_is_found_and_cleared_when_later_ones_are_there(
    store: Store, engine_name: str, logged: list[Any]
) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.recurring(every=MINUTE)
    for _ in range(5):
        store.advance(MINUTE)
        await store.plan_all()
    lost = occurrence_id(job_id, store.at(-2 * MINUTE))
    await damage(store, engine_name, f"delete from {{runs}} where run_id = {key(lost, engine_name)}")

    assert sorted(await found(store, logged)) == [("occurrence", str(job_id)), ("sums", "")]  # both see that it is gone
    audit = SelfAudit(store.engine, store.clock, LEASE, KEPT)
    await pass_time(store, audit, 15 * MINUTE)
    assert [one.check for one in await open_findings(store)] == ["sums"]


async def test_a_cursor_that_jumped_ahead_leaves_lost_occurrences(
    store: Store, engine_name: str, logged: list[Any]
) -> None:
    """A floor that rose without runs: the bug of planning in two commits."""
    job_id = await store.recurring(every=MINUTE)
    store.advance(5 * MINUTE)
    await damage(store, engine_name, f"update agenda set floor = {store.now}, next_at = {store.at(MINUTE)}")

    assert await found(store, logged) == [("occurrence", str(job_id))]
    [finding] = await open_findings(store)
    assert "and 3 more is neither a run nor in the occurrence history" in finding.words


async def test_a_lane_that_stands_still_is_found(store: Store, engine_name: str, logged: list[Any]) -> None:
    first, second = await store.one_shots(2, apart=SECOND, group="g")
    store.advance(5 * MINUTE)
    await damage(store, engine_name, "update {runs} set held = 1")  # held: lane

    assert sorted(await found(store, logged)) == sorted([("lane", str(first)), ("lane", str(second))])


async def test_a_run_without_a_worker_is_found(store: Store, engine_name: str, logged: list[Any]) -> None:
    run_id = await store.one_shot()
    await store.claim_one(await store.worker(), run_id)
    await damage(store, engine_name, "delete from workers")
    store.advance(5 * MINUTE)

    assert await found(store, logged) == [("orphan", str(run_id))]


async def test_a_run_that_a_live_worker_has_forgotten_is_found_and_cleared_when_it_ends(
    store: Store, logged: list[Any]
) -> None:
    worker = await store.worker()
    forgotten = await store.claim_one(worker, await store.one_shot(timeout=Duration(2 * MINUTE), group="g"))
    cancelled = await store.claim_one(worker, await store.one_shot(timeout=Duration(HOUR)))
    await store.claim_one(worker, await store.one_shot(timeout=Duration(HOUR)))
    await store.running.cancel(None, cancelled.run_id, store.now)
    store.advance(4 * MINUTE)

    wrong = [("forgotten_run", str(run.run_id)) for run in (forgotten, cancelled)]
    assert sorted(await found(store, logged)) == sorted(wrong)
    words = {one.object_id: one.words for one in await open_findings(store)}
    assert "which is alive, but its timeout is 2m" in words[str(forgotten.run_id)]
    assert "which is alive, but it was cancelled at " in words[str(cancelled.run_id)]
    await store.succeed(worker, forgotten, cancelled)
    await store.clock.advance(EVERY)
    await SelfAudit(store.engine, store.clock, LEASE, KEPT).run_once()
    assert await open_findings(store) == []


async def test_a_run_that_may_still_end_is_no_finding(store: Store, logged: list[Any]) -> None:
    """Its worker may be stopping it, or storing its result; or its log says that it does not stop."""
    worker = await store.worker()
    await store.claim_one(worker, await store.one_shot(timeout=Duration(2 * MINUTE)))
    stuck = await store.claim_one(worker, await store.one_shot(timeout=Duration(MINUTE)))
    await store.history.append_log(stuck.run_id, 0, f"hm{DOES_NOT_STOP}".encode(), store.now)
    audit = SelfAudit(store.engine, store.clock, LEASE, KEPT, Duration(5 * MINUTE))
    await pass_time(store, audit, 7 * MINUTE)
    assert await open_findings(store) == []

    await pass_time(store, audit, 2 * MINUTE)
    assert len(await open_findings(store)) == 1


async def test_all_that_runs_is_looked_at(store: Store, logged: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_audit, "RUNS_AT_ONCE", 2)
    worker = await store.worker()
    await store.claim(worker, *await store.one_shots(7, timeout=Duration(MINUTE)))
    await pass_time(store, SelfAudit(store.engine, store.clock, LEASE, KEPT), 4 * MINUTE)

    assert [one.check for one in await open_findings(store)] == ["forgotten_run"] * 7


async def test_a_run_that_should_have_expired_is_found(store: Store, logged: list[Any]) -> None:
    run_id = await store.one_shot(start_within=Duration(MINUTE))
    store.advance(HOUR)

    assert await found(store, logged) == [("expiry", str(run_id))]


async def test_a_run_that_is_gone_is_found_by_the_sums_and_cleared_when_they_fit(
    store: Store, engine_name: str, logged: list[Any]
) -> None:
    await store.one_shots(3)
    await store.one_shot(name="lost")
    await store.maintenance.roll_up()
    kept = "create table kept as select * from {runs} where name = 'lost'"
    await damage(store, engine_name, kept)
    await damage(store, engine_name, "delete from {runs} where name = 'lost'")

    assert await found(store, logged) == [("sums", "")]
    await damage(store, engine_name, "insert into {runs} select * from kept")
    await damage(store, engine_name, "drop table kept")
    await store.clock.advance(EVERY)
    await SelfAudit(store.engine, store.clock, LEASE, KEPT).run_once()
    assert await open_findings(store) == []


async def test_what_was_only_under_way_is_no_finding(store: Store, engine_name: str, logged: list[Any]) -> None:
    """The second look sees that it holds: it is neither recorded nor looked at for ever."""
    await store.recurring(every=HOUR)
    right = store.at(HOUR)
    await damage(store, engine_name, f"update agenda set next_at = {store.at(5 * HOUR)}")
    audit = SelfAudit(store.engine, store.clock, LEASE, KEPT)
    await audit.run_once()
    await damage(store, engine_name, f"update agenda set next_at = {right}")
    await store.clock.advance(SECOND_LOOK)
    await audit.run_once()
    await damage(store, engine_name, f"update agenda set next_at = {store.at(5 * HOUR)}")
    await store.clock.advance(Duration(SECOND_LOOK - 2 * EVERY))
    await audit.run_once()

    assert await open_findings(store) == []


async def test_what_retention_has_dropped_is_no_finding(store: Store, logged: list[Any]) -> None:
    """Runs of the last minutes of a day, whose partition is dropped two minutes later."""
    kept = Duration(2 * MINUTE)
    store.advance(DAY - 4 * MINUTE - store.now % DAY)
    await store.recurring(every=MINUTE)
    worker = await store.worker()
    for _ in range(3):
        store.advance(MINUTE)
        await store.plan_all()
        for run in await store.claim_due(worker, 5):
            await store.succeed(worker, run)
    store.advance(3 * MINUTE + SECOND)
    await store.plan_all()
    assert await store.maintenance.maintain(store.now, kept) > 0
    audit = SelfAudit(store.engine, store.clock, LEASE, kept)
    for _ in range(3):
        await audit.run_once()
        await store.clock.advance(SECOND_LOOK)

    assert not (await store.auditing.findings()).items


async def test_many_jobs_are_walked_in_pages_and_each_pass_begins_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "SMALLEST_PAGE", 2)
    monkeypatch.setattr(decisions, "LARGEST_PAGE", 2)
    for _ in range(5):
        await store.recurring(every=DAY)
    audits = [SelfAudit(store.engine, store.clock, LEASE, KEPT) for _ in range(2)]  # any process does the next step
    for turn in range(4):
        await audits[turn % 2].run_once()
        await audits[turn % 2 - 1].run_once()  # it has no turn
        await store.clock.advance(EVERY)

    progress = read_progress(await store.maintenance.take_turn(TURN, store.now, EVERY) or b"")
    assert (progress.checked[Check.CURSOR], progress.jobs_before, progress.jobs) == (7, 5, 2)


def test_a_position_that_cannot_be_read_begins_anew() -> None:
    assert read_progress(b"").page == read_progress(b"\xff").page == decisions.SMALLEST_PAGE


def key(identifier: Any, engine_name: str) -> str:
    return f"'{identifier}'" if engine_name == "postgres" else f"x'{identifier.hex}'"
