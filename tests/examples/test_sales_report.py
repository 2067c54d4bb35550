"""The sales report: in a process of its own, with progress, and going on where an earlier attempt stopped."""

from pathlib import Path
from typing import Any

import httpx2

from tests.examples.server import definition, run_now, run_when

MONTHS = ("2027-01", "2027-02", "2027-03")


def report_of(folder: Path, broken: str = "") -> dict[str, Any]:
    for number, month in enumerate(MONTHS, 1):
        (folder / f"{month}.csv").write_text("oops\n" if month == broken else f"{number}\n{number + 2}\n")
    payload = {"folder": str(folder), "rounds": 500}
    return definition("sales_report") | {"payload": payload, "max_retries": 1_000, "retry": {"backoff": "50ms"}}


async def test_the_report_has_every_month_and_says_how_far_it_is(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run_id = await run_now(client, report_of(tmp_path))
    run = await run_when(client, run_id, "succeeded")

    assert [(row["month"], row["sales"], row["mean"]) for row in run["result"]] == [
        ("2027-01", 2, 2.0),
        ("2027-02", 2, 3.0),
        ("2027-03", 2, 4.0),
    ]
    assert all(row["low"] < row["mean"] < row["high"] for row in run["result"])
    assert run["progress"] == {"done": 3, "total": 3}


async def test_what_is_done_is_not_done_again_by_a_retry(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run_id = await run_now(client, report_of(tmp_path, broken="2027-02"))
    stuck = await run_when(client, run_id, "retrying")
    (tmp_path / "2027-02.csv").write_text("5\n7\n")
    run = await run_when(client, run_id, "succeeded")

    assert stuck["progress"] == {"done": 1, "total": 3}
    assert "could not convert string to float: 'oops'" in stuck["error_message"]
    assert [row["mean"] for row in run["result"]] == [2.0, 6.0, 4.0]
    log = (await client.get(f"/runs/{run_id}/logs")).text
    assert log.count("working on 2027-01.csv") == log.count("working on 2027-03.csv") == 1
    assert log.count("working on 2027-02.csv") == run["attempt_number"] >= 2
