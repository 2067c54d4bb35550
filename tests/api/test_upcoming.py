"""The runs to come over all jobs: in order, page by page, and counted by when they come."""

from typing import Any

import pytest
from tests.api.conftest import Desk

from oncue.api import upcoming
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, parse_instant, rfc3339

NOON = "2030-01-01T12:00:00.000Z"


async def coming(desk: Desk, query: str = "", key: str = "ada", limit: int = 100) -> list[Any]:
    """The first page."""
    found = await desk.get(f"/upcoming?limit={limit}&{query}", key=key)
    assert set(found) == {"upcoming", "next_page_token", "exact_until"}
    items: list[Any] = found["upcoming"]
    return items


async def all_of(desk: Desk, query: str, limit: int) -> list[Any]:
    found, token = list[Any](), ""
    for _ in range(500):
        page = await desk.get(f"/upcoming?limit={limit}&{query}{token}")
        assert page["exact_until"] is None
        found += page["upcoming"]
        if page["next_page_token"] is None:
            return found
        token = f"&page_token={page['next_page_token']}"
    raise AssertionError("a list without an end")


def minutes(desk: Desk, items: list[Any]) -> list[tuple[int, str]]:
    return [((parse_instant(one["at"]) - desk.store.now) // MINUTE, one["job_name"]) for one in items]


async def some(desk: Desk) -> dict[str, Any]:
    """Jobs of each kind; at 10 minutes three of them at once."""
    soon = rfc3339(desk.store.at(10 * MINUTE))
    return {
        "a": await desk.create(schedule="every 5m", name="a"),
        "b": await desk.create("slow", payload={"seconds": 1}, schedule="every 10m", name="b", queue="q"),
        "c": await desk.create(schedule=soon, name="c"),
        "d": await desk.create(schedule={"every": "7m", "max_runs": 2}, name="d"),
        "e": await desk.create(key="bob", schedule="every 1m", name="e"),
    }


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_runs_of_every_kind_come_in_order_on_pages_of_any_size(desk: Desk, limit: int) -> None:
    jobs = await some(desk)
    paused = await desk.create(schedule="every 1m", name="paused")
    await desk.call("POST", f"/v1/jobs/{paused['job_id']}/pause")
    first = await desk.create(name="due already")

    found = await all_of(desk, f"to={rfc3339(desk.store.at(22 * MINUTE))}", limit)

    at_ten = sorted("abc", key=lambda name: jobs[name]["job_id"])
    at_twenty = sorted("ab", key=lambda name: jobs[name]["job_id"])
    expected = [
        (5, "a"), (7, "d"), *((10, name) for name in at_ten), (14, "d"), (15, "a"), *((20, name) for name in at_twenty)
    ]  # fmt: skip
    now = [(0, "due already")] if found[0]["job_id"] == first["job_id"] else []
    assert minutes(desk, found) == now + expected
    [once] = [one for one in found if one["job_name"] == "c"]
    assert (once["run_id"], once["task"], once["queue"]) == (jobs["c"]["job_id"], "mark", "default")
    assert {one["run_id"] for one in found if one["job_name"] in "abd"} == {None}


async def test_a_later_window_has_what_comes_then(desk: Desk) -> None:
    await some(desk)
    window = f"from={rfc3339(desk.store.at(12 * MINUTE))}&to={rfc3339(desk.store.at(20 * MINUTE))}"

    found = await all_of(desk, window, 100)

    assert minutes(desk, found) == [(14, "d"), (15, "a")]


async def test_filters_and_users(desk: Desk) -> None:
    jobs = await some(desk)
    until = f"to={rfc3339(desk.store.at(11 * MINUTE))}"

    assert {one["job_name"] for one in await coming(desk, until)} == set("abcd")
    assert {one["job_name"] for one in await coming(desk, until, "viewer")} == set("abcd")
    assert {one["job_name"] for one in await coming(desk, until, "root")} == set("abcde")
    assert {one["job_name"] for one in await coming(desk, until, "bob")} == {"e"}
    assert {one["job_name"] for one in await coming(desk, f"task=slow&{until}")} == {"b"}
    assert {one["job_name"] for one in await coming(desk, f"queue=q&{until}")} == {"b"}
    assert await coming(desk, f"task=nothing&{until}") == []
    for name in "acd":
        one = f"job_id={jobs[name]['job_id']}"
        expected = [item for item in await coming(desk, until) if item["job_name"] == name]
        assert await coming(desk, f"{one}&{until}") == expected
    assert await coming(desk, f"job_id={jobs['e']['job_id']}&{until}") == []


async def test_planned_runs_of_one_job_are_told_with_their_ids(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m")
    await desk.store.plan(ahead=MINUTE)

    found = await coming(desk, f"job_id={job['job_id']}", limit=2)

    assert [one["run_id"] is not None for one in found] == [True, False]
    assert [at for at, _ in minutes(desk, found)] == [1, 2]


async def test_notes_tell_of_jitter_daylight_saving_and_paused_queues(desk: Desk) -> None:
    schedule = {"cron": "30 2 31 3 *", "timezone": "Europe/Berlin", "jitter": "10m"}
    await desk.create(schedule=schedule, queue="q")
    await desk.call("POST", "/v1/queues/q/pause", key="root")

    [one] = await coming(desk, limit=1)

    assert one["local"].endswith("+02:00")
    assert one["timezone"] == "Europe/Berlin"
    assert "clocks" in one["note"] or "does not exist" in one["note"]
    assert "starts up to 10m later; its queue is paused" in one["note"]


async def test_a_cron_of_every_second_takes_no_longer_than_a_page(desk: Desk) -> None:
    await desk.create(schedule="* * * * * *")
    await desk.create(schedule="every 1h", name="hourly")

    page = await desk.get("/upcoming?limit=1000")

    assert (len(page["upcoming"]), page["exact_until"]) == (1_000, None)
    later = await coming(desk, f"from={rfc3339(desk.store.at(300 * DAY))}", limit=3)
    assert len(later) == 3


async def test_beyond_what_was_looked_at_it_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_CURSORS", 3)
    for n in range(1, 7):
        await desk.create(schedule=f"every {n}m", name=str(n))
    start = rfc3339(desk.store.at(5 * MINUTE + SECOND))

    page = await desk.get(f"/upcoming?limit=2&from={start}")

    assert page["exact_until"] is not None
    assert parse_instant(page["exact_until"]) <= desk.store.at(4 * MINUTE)
    near = await desk.get("/upcoming?limit=2")
    assert near["exact_until"] is None


# -------------------------------------------------------------------------------------------------------------- density


async def test_density_counts_occurrences_and_waiting_runs(desk: Desk) -> None:
    await some(desk)
    held = {"schedule": rfc3339(desk.store.at(3 * MINUTE)), "group": "g"}
    await desk.create(**held)
    await desk.create(**held)
    until = rfc3339(desk.store.at(21 * MINUTE))

    mine = await desk.get(f"/upcoming/density?step=10m&to={until}")
    all_ = await desk.get(f"/upcoming/density?step=10m&to={until}", key="root")
    slow = await desk.get(f"/upcoming/density?step=10m&task=slow&to={until}")

    assert [one["n"] for one in mine["buckets"]] == [2 + 1, 5, 2]  # of the group one is let in
    assert [one["n"] for one in all_["buckets"]] == [2 + 1 + 9, 5 + 10, 2 + 1]
    assert [one["n"] for one in slow["buckets"]] == [1, 1]
    assert {one["at_least"] for one in mine["buckets"]} == {False}
    assert (mine["exact_until"], mine["step"], mine["end_time"]) == (None, "10m", until)
    assert all(parse_instant(one["at"]) % (10 * MINUTE) == 0 for one in mine["buckets"])


async def test_jobs_with_the_same_schedule_count_together(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_COMPUTED", 24)
    for _ in range(5):
        await desk.create(schedule="0 * * * *")

    found = await desk.get("/upcoming/density?step=1h")

    assert ({one["n"] for one in found["buckets"]}, found["exact_until"]) == ({5}, None)


async def test_a_day_by_the_minute_is_allowed_and_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_COMPUTED", 1_000)
    await desk.create(schedule="every 1s")
    await desk.create(schedule=rfc3339(desk.store.at(HOUR)))

    found = await desk.get("/upcoming/density?step=1m")

    counted = parse_instant(found["exact_until"])
    assert desk.store.at(16 * MINUTE) <= counted <= desk.store.at(17 * MINUTE)
    exact = [one for one in found["buckets"] if not one["at_least"]]
    assert [one["n"] for one in exact][1:-1] == [60] * (len(exact) - 2)
    assert found["buckets"][-1] == {"at": rfc3339(Instant(desk.store.at(HOUR))), "n": 1, "at_least": True}
    usual = await desk.get("/upcoming/density")
    assert parse_instant(usual["end_time"]) - desk.store.now == DAY


def shown(group: dict[str, Any]) -> tuple[str | None, str | None, list[int]]:
    return group["task"], group["queue"], [one["n"] for one in group["buckets"]]


async def test_density_is_grouped_by_task_queue_or_both(desk: Desk) -> None:
    await some(desk)
    await desk.create(schedule=rfc3339(desk.store.at(2 * MINUTE)), queue="q")
    until = rfc3339(desk.store.at(21 * MINUTE))

    by_task = await desk.get(f"/upcoming/density?step=10m&by=task&to={until}")
    by_queue = await desk.get(f"/upcoming/density?step=10m&by=queue&to={until}")
    both = await desk.get(f"/upcoming/density?step=10m&by=task,queue&to={until}")
    one_queue = await desk.get(f"/upcoming/density?step=10m&by=task&queue=q&to={until}")
    plain = await desk.get(f"/upcoming/density?step=10m&to={until}")

    marks = [3, 4, 1]  # one more at 2 minutes; of a, c and d
    assert [shown(one) for one in by_task["groups"]] == [("mark", None, marks), ("slow", None, [1, 1])]
    assert [shown(one) for one in by_queue["groups"]] == [(None, "default", [2, 4, 1]), (None, "q", [1, 1, 1])]
    assert [shown(one) for one in both["groups"]] == [
        ("mark", "default", [2, 4, 1]),
        ("slow", "q", [1, 1]),
        ("mark", "q", [1]),
    ]
    assert [shown(one) for one in one_queue["groups"]] == [("slow", None, [1, 1]), ("mark", None, [1])]
    assert {one["by"] for one in (by_task, one_queue)} == {"task"}
    assert (plain["by"], plain["groups"], plain["more_groups"]) == (None, [], 0)
    assert by_task["buckets"] == by_queue["buckets"] == both["buckets"] == plain["buckets"]


async def test_groups_are_of_the_callers_runs_or_of_the_job(desk: Desk) -> None:
    jobs = await some(desk)
    until = f"to={rfc3339(desk.store.at(11 * MINUTE))}"
    query = f"/upcoming/density?step=1h&by=task,queue&{until}"

    bobs = await desk.get(query, key="bob")
    all_ = await desk.get(query, key="root")
    of_one = await desk.get(f"{query}&job_id={jobs['c']['job_id']}")

    def counts(found: Any) -> dict[str, int]:
        return {one["task"]: sum(bucket["n"] for bucket in one["buckets"]) for one in found["groups"]}

    assert counts(bobs) == {"mark": 10}
    assert counts(all_) == {"mark": 10 + 4, "slow": 1}
    assert counts(of_one) == {"mark": 1}


async def test_each_group_tells_up_to_when_it_was_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_COMPUTED", 1_000)
    await desk.create(schedule="every 1s")
    await desk.create("slow", payload={"seconds": 1}, schedule="every 1h")

    found = await desk.get("/upcoming/density?step=10m&by=task")

    often, seldom = found["groups"]
    assert (often["task"], seldom["task"]) == ("mark", "slow")
    assert desk.store.at(15 * MINUTE) <= parse_instant(often["exact_until"]) <= desk.store.at(17 * MINUTE)
    assert often["exact_until"] == found["exact_until"]
    assert (seldom["exact_until"], {one["at_least"] for one in seldom["buckets"]}) == (None, {False})


async def test_schedules_that_run_often_get_what_others_leave(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_COMPUTED", 24 * 60 + 24 + 24)
    await desk.create(schedule="every 1m")
    for n in range(24):
        await desk.create(schedule=f"{n} 5 * * *")

    found = await desk.get("/upcoming/density?step=1h")

    assert found["exact_until"] is None


async def test_the_largest_groups_are_told_and_how_many_are_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcoming, "MOST_GROUPS", 2)
    for queue, minutes in (("seldom", 60), ("often", 10), ("sometimes", 30)):
        await desk.create(schedule=f"every {minutes}m", queue=queue)

    found = await desk.get("/upcoming/density?step=1h&by=queue")

    assert [one["queue"] for one in found["groups"]] == ["often", "sometimes"]
    assert found["more_groups"] == 1


@pytest.mark.parametrize("query", ["", "&by=task"])
async def test_a_step_is_chosen_for_any_window(desk: Desk, query: str) -> None:
    found = await desk.get(f"/upcoming/density?to=2199-01-01T00:00:00Z{query}")

    assert found["step"].endswith("d")


@pytest.mark.parametrize("query", ["by=job", "by=task,", "by=task&step=1m"])
async def test_groups_that_do_not_exist_or_have_too_many_steps_are_refused(desk: Desk, query: str) -> None:
    refused = await desk.call("GET", f"/v1/upcoming/density?{query}")

    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "step" if "step" in query else "by")


@pytest.mark.parametrize("call", ["", "/density", "/skipped"])
@pytest.mark.parametrize(
    ("query", "path"),
    [("from=soon", "from"), ("to=2020-01-01T00:00:00Z", "to"), ("job_id=x", "job_id"), ("task=", "task"), ("x=1", "x")],
)
async def test_a_wrong_parameter_is_named(desk: Desk, call: str, query: str, path: str) -> None:
    refused = await desk.call("GET", f"/v1/upcoming{call}?{query}")

    assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (422, [path])


@pytest.mark.parametrize(("query", "path"), [("step=1s", "step"), ("step=1ms", "step"), ("step=x", "step")])
async def test_too_fine_a_density_is_refused(desk: Desk, query: str, path: str) -> None:
    refused = await desk.call("GET", f"/v1/upcoming/density?{query}")

    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)


async def test_what_daylight_saving_drops_is_listed_although_its_job_runs_only_later(desk: Desk) -> None:
    desk.store.advance(parse_instant("2030-03-30T12:00:00Z") - desk.store.now)
    at_night = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    dropped = await desk.create(schedule=at_night | {"dst_gap": "skip"}, name="dropped")
    await desk.create(schedule=at_night, name="moved")
    over = {"cron": "30 2,20 * * *", "end_at": "2030-03-31T00:00:00Z", "dst_gap": "skip"}
    await desk.create(schedule=at_night | over, name="over by then")
    await desk.create(schedule=at_night | {"dst_gap": "skip"}, name="theirs", key="bob")

    found = await desk.get("/upcoming/skipped?to=2030-04-02T00:00:00Z")

    [one] = found["skipped"]
    assert (one["job_id"], one["count"], one["timezone"]) == (dropped["job_id"], 1, "Europe/Berlin")
    assert (one["at"], found["more"]) == ("2030-03-31T01:00:00.000Z", False)
    assert one["note"].startswith("02:30 does not exist on 2030-03-31")
    of_all = await desk.get("/upcoming/skipped", "root")
    assert {one["job_name"] for one in of_all["skipped"]} == {"dropped", "theirs"}
    for query in (
        "to=2030-03-31T01:00:00Z",
        "from=2030-03-31T01:00:01Z",
        "task=slow",
        f"job_id={one['job_id']}&task=x",
    ):
        assert (await desk.get(f"/upcoming/skipped?{query}"))["skipped"] == []
    assert len((await desk.get(f"/upcoming/skipped?job_id={one['job_id']}"))["skipped"]) == 1


async def test_what_is_dropped_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_SKIPPED", 2)
    for hour in range(3):
        await desk.create(schedule={"cron": f"{hour} 2 * * *", "timezone": "Europe/Berlin", "dst_gap": "skip"})
    window = "from=2030-03-30T00:00:00Z&to=2030-04-02T00:00:00Z"

    found = await desk.get(f"/upcoming/skipped?{window}")
    assert (len(found["skipped"]), found["more"]) == (2, True)
    monkeypatch.setattr(upcoming, "MOST_CURSORS", 1)
    found = await desk.get(f"/upcoming/skipped?{window}")
    assert (len(found["skipped"]), found["more"]) == (1, True)
    refused = await desk.call("GET", "/v1/upcoming/skipped?to=2032-01-01T00:00:00Z")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "to")


async def test_a_token_of_another_list_is_refused(desk: Desk) -> None:
    await some(desk)
    page = await desk.get("/upcoming?limit=1")

    for other in ("limit=1&task=mark", "limit=1&to=2040-01-01T00:00:00Z"):
        refused = await desk.call("GET", f"/v1/upcoming?{other}&page_token={page['next_page_token']}")
        assert refused.status_code == 422
