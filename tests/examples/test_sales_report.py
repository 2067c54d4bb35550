"""The sales report: in a process of its own, with progress, and going on where an earlier attempt stopped."""

from pathlib import Path
from typing import Any

import httpx2
from tests.examples.server import ask, definition, eventually, run_now, run_when

MANY = 1_000_000  # sales in one month: computing that one takes minutes


def report_of(folder: Path, **months: str) -> dict[str, Any]:
    for month, sales in months.items():
        (folder / f"{month}.csv").write_text(sales)
    payload = {"folder": str(folder), "rounds": 500}
    return definition("sales_report") | {"payload": payload, "max_retries": 1_000, "retry": {"backoff": "50ms"}}


async def test_the_report_has_every_month(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run_id = await run_now(client, report_of(tmp_path, january="1\n3\n", february="2\n4\n6\n"))
    run = await run_when(client, run_id, "succeeded")

    assert [(row["month"], row["sales"], row["mean"]) for row in run["result"]] == [
        ("february", 3, 4.0),
        ("january", 2, 2.0),
    ]
    assert all(row["low"] < row["mean"] < row["high"] for row in run["result"])


async def test_what_is_done_is_not_done_again_by_a_retry(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run_id = await run_now(client, report_of(tmp_path, april="1\n3\n", may="oops\n", november="5\n7\n"))
    stuck = await run_when(client, run_id, "retrying")
    (tmp_path / "may.csv").write_text("3\n5\n")
    run = await run_when(client, run_id, "succeeded")

    assert "could not convert string to float: 'oops'" in stuck["error_message"]
    assert [row["mean"] for row in run["result"]] == [2.0, 4.0, 6.0]
    log = (await client.get(f"/runs/{run_id}/logs")).text
    assert log.count("working on april.csv") == log.count("working on november.csv") == 1
    assert log.count("working on may.csv") == run["attempt_number"] >= 2


async def test_a_long_report_says_how_far_it_is_and_stops_when_it_is_cancelled(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    run_id = await run_now(client, report_of(tmp_path, june="1\n3\n", march="1\n" * MANY))

    async def progress() -> Any:
        return (await ask(client, "GET", f"/runs/{run_id}", 200))["progress"]

    assert await eventually(progress) == {"done": 1, "total": 2}
    await ask(client, "POST", f"/runs/{run_id}/cancel", 200)
    run = await run_when(client, run_id, "cancelled")
    assert [one["outcome"] for one in run["attempts"]] == ["cancelled"]
