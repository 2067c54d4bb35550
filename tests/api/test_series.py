"""Counts and measures over time, over REST."""

from typing import Any

import pytest
from tests.api.conftest import Desk

from oncue.api import series
from oncue.domain.buckets import LAG, RUN
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, Instant, parse_instant, rfc3339


async def told(desk: Desk, query: str = "", key: str = "root") -> Any:
    await desk.store.maintenance.roll_up()
    return await desk.get(f"/stats/series?{query}", key=key)


def lines(found: Any) -> dict[tuple[str, str | None], list[int]]:
    return {(one["what"], one["name"]): [point["n"] for point in one["points"]] for one in found["series"]}


async def busy(desk: Desk) -> None:
    """Three tasks: a with 3 runs, b with 2, c with 1; two of a in an earlier minute. All start 20 ms late."""
    store = desk.store
    worker = await store.worker()
    for task, n, queue in (("slow", 2, "q"), ("mark", 2, "default"), ("slow", 1, "default"), ("http", 1, "default")):
        store.advance(MINUTE)
        for _ in range(n):
            payload = {"slow": {"seconds": 1}, "http": {"url": "https://x.example"}}.get(task, {})
            await desk.create(task, queue=queue, payload=payload)
        store.advance(20 * MILLISECOND)
        await store.succeed(worker, *await store.claim_due(worker))


async def test_an_administrator_sees_everything_by_the_minute_for_an_hour(desk: Desk) -> None:
    await busy(desk)
    now = desk.store.now

    found = await told(desk, "what=created,succeeded,dead")

    assert lines(found) == {("created", None): [2, 2, 1, 1], ("succeeded", None): [2, 2, 1, 1], ("dead", None): []}
    assert [one["total"] for one in found["series"]] == [6, 6, 0]
    assert (found["step"], found["by"], found["edges"]) == ("1m", None, {})
    assert parse_instant(found["start_time"]) == now - HOUR - (now - HOUR) % MINUTE
    assert parse_instant(found["minutes_from"]) == -(-(now - 2 * DAY) // MILLISECOND) * MILLISECOND
    times = [parse_instant(point["at"]) for point in found["series"][0]["points"]]
    assert [at % MINUTE for at in times] == [0] * 4
    assert times == sorted(times)
    assert await told(desk) == await told(desk, "what=succeeded,dead")


@pytest.mark.parametrize(
    ("by", "expected"),
    [("task", {"slow": 3, "mark": 2, "http": 1}), ("queue", {"default": 4, "q": 2})],
)
async def test_it_is_split_by_task_or_queue(desk: Desk, by: str, expected: dict[str, int]) -> None:
    await busy(desk)

    found = await told(desk, f"what=created&by={by}")

    assert [(one["name"], one["total"]) for one in found["series"]] == list(expected.items())


async def test_what_has_no_line_of_its_own_is_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await busy(desk)
    monkeypatch.setattr(series, "MOST_LINES", 1)

    found = await told(desk, "what=created,lag&by=task")

    assert lines(found) == {
        ("created", "slow"): [2, 1],
        ("created", "other"): [2, 1],
        ("lag", "slow"): [2, 1],
        ("lag", "other"): [2, 1],
    }
    monkeypatch.setattr(series, "MOST_LINES", 20)
    monkeypatch.setattr(series, "ROWS_READ", 0)
    desk.store.advance(MINUTE)
    for number in range(6):  # more classes than there is room for: none of the task's is left out alone
        await desk.create("mark", labels=[str(number)])
    assert set(lines(await told(desk, "what=created&by=task"))) == {
        ("created", name) for name in ("slow", "http", "other")
    }


async def test_measures_have_buckets_and_percentiles(desk: Desk) -> None:
    await busy(desk)

    found = await told(desk, "what=lag,run_time,attempts&step=1h")

    lag, run_time, attempts = found["series"]
    assert found["edges"] == {"lag": list(LAG), "run_time": list(RUN)}
    [point] = lag["points"]
    assert len(point["buckets"]) == len(LAG) + 1
    assert point["buckets"][LAG.index(0.025)] == point["n"] == sum(point["buckets"])
    assert 10 < point["p50_ms"] < point["p95_ms"] < point["p99_ms"] <= 25
    assert [one["n"] for one in attempts["points"]] == [one["n"] for one in run_time["points"]]
    assert all(one["buckets"] is None and one["p50_ms"] is None for one in attempts["points"])
    assert run_time["points"][0]["buckets"][0] == run_time["points"][0]["n"] == 6


async def test_a_member_gets_own_counts_by_the_hour(desk: Desk) -> None:
    await desk.create(key="bob")
    await desk.create()
    await desk.create()

    found = await told(desk, "what=created", "ada")

    assert (found["step"], lines(found), found["minutes_from"]) == ("1h", {("created", None): [2]}, None)
    assert lines(await told(desk, "what=created", "viewer")) == lines(found)
    for query, name in (("by=task", "by=task"), ("what=lag", "what=lag"), ("what=attempts", "what=attempts")):
        refused = await desk.call("GET", f"/v1/stats/series?{query}")
        assert (refused.status_code, name in refused.json()["detail"]) == (403, True)
    refused = await desk.call("GET", "/v1/stats/series?step=5m")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "step")


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("what=nonsense", "what"),
        ("what=", "what"),
        ("what=discarded", "what"),
        ("what=created,succeeded,dead,lost,retried,expired,missed", "what"),
        ("by=user", "by"),
        ("step=0s", "step"),
        ("step=90s", "step"),
        ("step=x", "step"),
        ("from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "to"),
        ("from=2020-01-01T00:00:00Z&step=1m", "step"),
        ("by=task&from={}&step=1m", "step"),
        ("from=today", "from"),
        ("until=2026-01-01T00:00:00Z", "until"),
    ],
)
async def test_a_wrong_parameter_is_named(desk: Desk, query: str, path: str) -> None:
    query = query.format(rfc3339(Instant(desk.store.now - 3 * HOUR)))

    refused = await desk.call("GET", f"/v1/stats/series?{query}", key="root")

    assert (refused.status_code, [one["path"] for one in refused.json()["errors"]]) == (422, [path])


@pytest.mark.parametrize("by", ["", "&by=queue"])
@pytest.mark.parametrize("back", [MINUTE, HOUR, 5 * HOUR, DAY, 3 * DAY, 400 * DAY, 20_000 * DAY])
async def test_any_window_has_a_step_and_a_bounded_answer(desk: Desk, by: str, back: int) -> None:
    await busy(desk)

    found = await told(desk, f"what=lag{by}&from={rfc3339(Instant(desk.store.now - back))}")

    start, end = parse_instant(found["start_time"]), parse_instant(found["end_time"])
    again = await told(desk, f"what=lag{by}&from={rfc3339(Instant(desk.store.now - back))}&step={found['step']}")
    assert again == found
    assert sum(one["total"] for one in found["series"]) == (6 if back > MINUTE else 2)
    assert end - start >= back
