"""Problems over REST: of jobs and occurrences, for administrators and for others; links and commands that work."""

import shlex
from typing import Any
from uuid import uuid4

import click
import pytest
from tests.api.conftest import Desk
from tests.test_docs import ROOT, table

from oncue.cli.main import main
from oncue.domain.ids import WorkerId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND
from oncue.domain.placement import Offer, show_offer
from oncue.engines.port import Member, Worker
from oncue.shapes.overview import KnownProblem

HERE = uuid4()
API = ROOT / "docs" / "api.md"


async def problems(desk: Desk, key: str = "root") -> dict[str, Any]:
    """By kind. A second later, because what was read is good for one."""
    await desk.store.clock.advance(SECOND)
    await desk.store.maintenance.roll_up()
    answer = await desk.get("/problems", key=key)
    assert answer["more"] is False
    return {one["kind"]: one for one in answer["problems"]}


async def well(desk: Desk) -> WorkerId:
    """A scheduler and a worker, each with a heartbeat now."""
    store, worker_id = desk.store, WorkerId(desk.store.new_id())
    await store.engine.members.beat(Member(HERE, "up", "1", 1, "here", store.now, store.now), store.now)
    offer = show_offer(Offer(frozenset({"mark"}), frozenset({"default", "q 1&2", "dark"})))
    await store.fleet.register(Worker(worker_id, "w", "here", DAY, store.now, store.now, info=offer), store.now)
    return worker_id


def exists(command: str) -> None:
    """Parse a command line as a terminal would, without running it."""
    name, *words = shlex.split(command)
    assert name == "oncue"
    found: click.Command = main
    ctx = click.Context(main)
    while isinstance(found, click.Group) and words:
        step = found.get_command(ctx, words[0])
        assert step is not None, command
        ctx, found, words = click.Context(step, parent=ctx, info_name=words[0]), step, words[1:]
    found.parse_args(ctx, words)


async def test_jobs_that_fail_and_dead_letters_are_told_to_their_owner(desk: Desk) -> None:
    store = desk.store
    worker = await well(desk)
    assert await problems(desk) == await problems(desk, "ada") == {}
    job = await desk.create(schedule="every 1m", name="nightly", max_retries=0)
    await desk.create(key="bob", schedule="every 1m", name="fine")
    for _ in range(3):
        store.advance(MINUTE)
        await store.plan()
        for run in await store.claim_due(worker):
            settle = store.fail if str(run.job_id) == job["job_id"] else store.succeed
            await settle(worker, run)
    await well(desk)

    for key in ("root", "ada", "viewer"):
        found = await problems(desk, key)
        assert {kind: one["severity"] for kind, one in found.items()} == {
            "failing_job": "warning", "dead_letters": "warning"
        }  # fmt: skip
        assert list(found["failing_job"]) == list(KnownProblem.__struct_fields__)
        assert (found["failing_job"]["count"], found["dead_letters"]["count"]) == (3, 3)
        assert "nightly" in found["failing_job"]["title"]
        assert "Boom" in found["failing_job"]["detail"]
        for one in found.values():
            assert await desk.get(one["link"].removeprefix("/v1"), key=key)
            exists(one["command"])
    assert await problems(desk, "bob") == {}
    store.advance(MINUTE)
    await store.plan()
    await store.succeed(worker, *await store.claim_due(worker))
    await well(desk)
    assert list(await problems(desk, "ada")) == ["dead_letters"]


@pytest.mark.parametrize("key", ["root", "ada"])
async def test_more_dead_letters_than_usual_are_a_problem(desk: Desk, key: str) -> None:
    worker = await well(desk)

    async def die(n: int) -> None:
        for _ in range(n):
            await desk.create()
        await desk.store.fail(worker, *await desk.store.claim_due(worker), retry=False)

    desk.store.advance(20 * MINUTE)
    await well(desk)
    await die(6)
    new = (await problems(desk, key))["dead_letters"]
    assert (new["severity"], new["title"], new["since"]) == ("warning", "6 dead letters", None)  # nothing is usual yet
    desk.store.advance(HOUR)
    for _ in range(20):
        await die(2)
        desk.store.advance(HOUR)
    await well(desk)
    await die(4)
    assert (await problems(desk, key))["dead_letters"]["severity"] == "warning"
    await die(8)

    found = (await problems(desk, key))["dead_letters"]

    assert (found["severity"], found["count"]) == ("problem", 58)
    assert "more than usual" in found["title"]
    assert found["since"] is not None


async def test_missed_occurrences_are_told_for_an_hour(desk: Desk) -> None:
    store = desk.store
    await desk.create(schedule="every 1m", catch_up="skip")
    store.advance(10 * MINUTE + 10 * SECOND)
    await store.plan_all()
    await well(desk)

    mine, all_ = await problems(desk, "ada"), await problems(desk)

    assert mine["missed"]["count"] == all_["missed"]["count"] == 10
    assert (await problems(desk, "bob")) == {}
    for one in (mine["missed"], all_["missed"]):
        exists(one["command"])
    assert await desk.get(mine["missed"]["link"].removeprefix("/v1"))
    store.advance(2 * HOUR)
    await well(desk)
    assert "missed" not in await problems(desk)
    assert "missed" not in await problems(desk, "ada")


async def test_what_keeps_runs_from_starting_is_told_with_links_and_commands_that_work(desk: Desk) -> None:
    await desk.create(queue="q 1&2")
    await desk.create(key="bob", queue="dark")
    desk.store.advance(2 * MINUTE)

    found = await problems(desk)
    mine = await problems(desk, "ada")

    assert list(found) == ["no_scheduler", "no_workers"]
    assert (found["no_workers"]["count"], mine["no_workers"]["count"]) == (2, 1)
    await well(desk)
    await desk.call("POST", "/v1/queues/q%201%262/pause", key="root")
    mine = await problems(desk, "ada")
    assert list(mine) == ["paused_queue"]
    assert "dark" not in str(mine)
    assert list(await problems(desk)) == ["late_runs", "paused_queue"]
    for one in (*found.values(), *mine.values(), *(await problems(desk)).values()):
        assert await desk.get(one["link"].removeprefix("/v1"), key="root")
        if one["kind"] != "paused_queue":
            exists(one["command"])


async def test_at_most_so_many_are_listed_the_most_severe_first(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.dead()
    desk.store.advance(HOUR)
    monkeypatch.setattr("oncue.api.problems.MOST_SHOWN", 2)

    answer = await desk.get("/problems", key="root")

    assert [one["severity"] for one in answer["problems"]] == ["problem", "problem"]
    assert answer["more"] is True


def test_the_page_has_every_field_and_kind() -> None:
    fields = [name for row, _ in table(API, "field of a problem", "meaning") for name in row.split(", ")]
    assert [name.strip("`") for name in fields] == list(KnownProblem.__struct_fields__)
