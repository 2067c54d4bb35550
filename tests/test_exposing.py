"""What a process tells of itself that is counted elsewhere than in its numbers."""

import pytest

from oncue import logs
from oncue.clock import SystemClock
from oncue.logs.limits import FIRST, Bursts
from oncue.metrics.metric import Roles
from oncue.metrics.numbers import Numbers
from oncue.process.health import count_log_lines, exposing
from oncue.settings import Settings


@pytest.fixture
def bursts(monkeypatch: pytest.MonkeyPatch) -> Bursts:
    bursts = Bursts(SystemClock(), lambda *_: None)
    monkeypatch.setattr(logs, "bursts", bursts)
    return bursts


async def test_log_lines_are_metrics_of_every_role(bursts: Bursts) -> None:
    exposed = exposing(Settings(), SystemClock(), Roles.API)
    told = exposed.text().decode().splitlines()
    assert 'oncue_log_lines_total{level="error"} 0' in told  # so that its first increase is seen
    assert "oncue_log_suppressed_total 0" in told

    for _ in range(FIRST + 2):
        if bursts.admit("error", "run_dead", "mail"):
            bursts.lines["error"] += 1
    told = exposed.text().decode().splitlines()

    assert f'oncue_log_lines_total{{level="error"}} {FIRST}' in told
    assert "oncue_log_suppressed_total 2" in told


def test_those_of_a_worker_process_are_added_to_its_supervisors(bursts: Bursts) -> None:
    exposed = exposing(Settings(), SystemClock(), Roles.WORKER)
    bursts.lines["info"] = 3
    of_worker = Numbers(None, Roles.WORKER)
    count_log_lines(of_worker)
    exposed.workers.heard("it", tuple(of_worker.series()))
    assert 'oncue_log_lines_total{level="info"} 6' in exposed.text().decode().splitlines()

    exposed.workers.ended("it")

    assert 'oncue_log_lines_total{level="info"} 6' in exposed.text().decode().splitlines()
