"""Relays are killed while an application commits: each commit becomes one job."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.processes.fleet import COMMAND, DEADLINE, LONG, Fleet, until

import oncue
from oncue.enqueuing import DDL

pytestmark = pytest.mark.kills

KILLS = 30 if LONG else 3


def test_a_relay_that_is_killed_creates_each_job_once(fleet: Fleet, tmp_path: Path) -> None:
    fleet.up()
    app, chance, orders = sqlite3.connect(tmp_path / "app.db", timeout=DEADLINE), Random(1), Counter[str]()
    app.executescript("pragma journal_mode = wal;" + DDL)
    env = {**os.environ, **fleet.environment, "ONCUE_API_KEY": fleet.key}
    command = [*COMMAND, "relay", "--from", f"sqlite:///{tmp_path}/app.db", "--url", f"http://127.0.0.1:{fleet.port}"]
    for kill in range(KILLS + 1):
        for order in range(100):
            name = f"{kill}-{order}"
            oncue.enqueue(app, "mark", options={"schedule": "in 1d", "name": name})
            if chance.random() < 0.3:
                app.rollback()
            else:
                app.commit()
                orders[name] += 1
        relay = subprocess.Popen(command, env=env)
        enough = chance.randrange(1, 60) if kill < KILLS else 0
        try:
            until(lambda enough=enough: left(app) <= enough, "rows became jobs", tell=lambda: f"{left(app)} left")
        finally:
            relay.kill()
            relay.wait()
    names = Counter(job["name"] for job in fleet.call("GET", "/jobs?limit=1000")["jobs"])
    assert names == orders


def left(app: sqlite3.Connection) -> int:
    [(count,)] = app.execute("select count(*) from oncue_outbox")
    return int(count)
