"""A real Prometheus and a fleet in which all is well: all is scraped, no alert fires, the dashboard is filled."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ops.programs import program
from tests.ops.prometheus import LONGEST_FOR, LONGEST_WINDOW, Caller, Prometheus, Watched, watching
from tests.ops.test_grafana import EXPRESSIONS
from tests.processes.fleet import Fleet

OBSERVED = 10 + LONGEST_WINDOW + LONGEST_FOR  # seconds of load, in which the slowest alert could have fired

# What an expression has in it that is rightly empty here, and why.
EMPTY = {
    "oncue_store_errors_total": "no call to the database has failed",
    'status=~"4..|5.."': "no request was refused",
    "oncue_storage_": "no value is large; tests/ops/test_alerts.py has storage that fails",
    "oncue_notices_total": "no job tells anybody",
    "oncue_cluster_oldest_transaction_seconds": "no transaction is open at that moment; SQLite tells of none",
}
EMPTY_ON_SQLITE = {"oncue_store_connections": "it has no pool of connections"}
VARIABLES = ("job", "instance", "queue", "task")


@pytest.fixture(params=["up", "apart"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    """`oncue up` on a file, and the roles apart on PostgreSQL, one worker more than necessary."""
    program("prometheus")
    apart = request.param == "apart"
    watched = Watched(Fleet(tmp_path, request.getfixturevalue("postgres_url") if apart else None))
    try:
        for role in ("api", "scheduler", "worker", "worker") if apart else ("up",):
            watched.start(role)
        watched.fleet.ready(workers=2 if apart else 1)
        yield watched
    finally:
        watched.fleet.close()


@pytest.mark.ops
@pytest.mark.first
def test_every_process_is_scraped_no_alert_fires_and_the_dashboard_is_filled(watched: Watched) -> None:
    fleet = watched.fleet
    for every in ("1s", "2s"):
        fleet.create("mark", schedule=f"every {every}")
    with watching(watched) as prometheus:
        observe(prometheus, Caller(fleet))

        scraped = {(one["labels"]["job"], one["scrapeUrl"].split("/")[-1]) for one in prometheus.targets()}
        assert scraped == {("oncue", "metrics"), ("oncue-cluster", "cluster")}
        assert prometheus.all_up()
        assert not open_to_strangers(watched)
        rightly_empty = EMPTY | (EMPTY_ON_SQLITE if fleet.engine.startswith("sqlite") else {})
        empty = [expression for expression in EXPRESSIONS if not prometheus.query(filled_in(expression))]
        assert [one for one in empty if not any(name in one for name in rightly_empty)] == []


def observe(prometheus: Prometheus, light_load: Caller) -> None:
    end = time.monotonic() + OBSERVED
    while time.monotonic() < end:
        light_load()
        assert not prometheus.alerts(), prometheus.tell()
        time.sleep(0.05)


def filled_in(expression: str) -> str:
    for name, value in (("$__rate_interval", f"{LONGEST_WINDOW}s"), *((f"${one}", ".*") for one in VARIABLES)):
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def open_to_strangers(watched: Watched) -> list[str]:
    """The targets that answer without the token."""
    answers = {target: status_of(f"http://{target}/metrics") for target in watched.targets()}
    return [target for target, status in answers.items() if status != 401]


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code
