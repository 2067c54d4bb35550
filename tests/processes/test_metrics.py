"""Metrics of real processes, as Prometheus reads them: every role, also when its worker is killed or stopped."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.processes.fleet import Fleet, free_port, only_in_the_long_version, until

pytestmark = pytest.mark.kills

TOKEN = "a-token-that-is-long-enough"
MOST_SERIES = 5_000  # of one process, whatever its users do


class Port:
    """The metrics port of one process."""

    def __init__(self, fleet: Fleet) -> None:
        self.number = free_port()
        file = fleet.folder / "metrics.token"
        file.write_text(TOKEN)
        self.options = ("--metrics-port", str(self.number), "--metrics-token-file", str(file))

    def get(self, path: str, token: str = TOKEN) -> tuple[int, str]:
        """Status 0: nobody listens."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.number}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return 0, ""

    def samples(self) -> dict[str, float]:
        status, text = self.get("/metrics")
        assert status == 200, text
        families = list(text_string_to_metric_families(text))
        return {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for family in families
            for sample in family.samples
        }

    def counts(self) -> dict[str, float]:
        """What may only rise."""
        ends = ("_total", "_count", "_sum", "_bucket")
        return {line: n for line, n in self.samples().items() if line.partition("[")[0].endswith(ends)}

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200


def test_every_role_tells_of_itself_on_a_port_of_its_own(fleet: Fleet) -> None:
    ports = {role: Port(fleet) for role in ("api", "scheduler", "worker")}
    members = {role: fleet.start(role, *port.options) for role, port in ports.items()}
    for role, port in ports.items():
        until(port.ready, f"the {role} is ready", fleet.tell)
    fleet.at_rest([fleet.create("mark")])
    until(lambda: ports["worker"].samples()["oncue_claimed_total[]"] == 1, "it was counted", fleet.tell)

    for role, port in ports.items():
        [build] = [line for line in port.samples() if line.startswith("oncue_build_info")]
        assert f"('role', '{role}')" in build
        assert port.get("/healthz")[0] == 200
        assert port.get("/metrics", "another token of that length")[0] == 401
        assert port.get("/metrics", fleet.key)[0] == 200
        assert port.get("/metrics/cluster")[0] == (200 if role == "api" else 404)
        assert port.samples()["oncue_log_lines_total[('level', 'info')]"] > 0
        assert port.samples()["oncue_log_suppressed_total[]"] == 0
    assert fleet.raw("GET", "/metrics")[0] == 404  # it has left the API's own port
    assert ports["api"].samples()["oncue_jobs_accepted_total[('how', 'single')]"] == 1
    assert ports["scheduler"].samples()["oncue_service_passes_total[('outcome', 'ok'), ('service', 'scheduler')]"] > 0

    members["worker"].send(signal.SIGTERM)
    members["worker"].ended()
    assert ports["worker"].get("/metrics")[0] == 0


def test_without_a_port_the_api_serves_metrics_also_of_its_worker(fleet: Fleet) -> None:
    fleet.up()

    status, text, _ = fleet._asked("GET", "/metrics", None, 30)

    assert (status, "oncue_worker_up 1" in text.decode().splitlines()) == (200, True)


def test_counts_do_not_fall_when_a_worker_is_killed_or_stands_still(fleet: Fleet) -> None:
    port = Port(fleet)
    member = fleet.up("--lease", "3s", *port.options)
    fleet.at_rest(fleet.batch([{"task": "mark"}] * 50))
    until(lambda: port.samples()["oncue_settled_total[('how', 'final')]"] == 50, "all were counted", fleet.tell)
    first, before = member.inner, port.counts()
    assert first

    os.kill(first, signal.SIGKILL)
    until(lambda: port.samples()["oncue_worker_restarts_total[('why', 'exit')]"] == 1, "it was replaced", fleet.tell)
    until(port.ready, "another is ready", fleet.tell)
    after = port.counts()
    assert {line: (n, after.get(line)) for line, n in before.items() if after.get(line, 0) < n} == {}

    fleet.at_rest(fleet.batch([{"task": "mark"}] * 20))
    until(lambda: port.samples()["oncue_settled_total[('how', 'final')]"] == 70, "more was counted", fleet.tell)
    second, before = member.inner, port.counts()
    assert second
    os.kill(second, signal.SIGSTOP)  # its loop is blocked; its supervisor's is not, and answers
    until(lambda: port.samples()["oncue_worker_restarts_total[('why', 'stuck')]"] == 1, "it was killed", fleet.tell)
    until(port.ready, "another is ready", fleet.tell)
    after = port.counts()
    assert {line: (n, after.get(line)) for line, n in before.items() if after.get(line, 0) < n} == {}


MANY = 10_000
MANY_TASKS = f"""
from oncue import Tasks

tasks = Tasks()


async def nothing(ctx) -> None:
    pass


for n in range({MANY}):
    tasks.task(f"task{{n}}")(nothing)
"""


@only_in_the_long_version
def test_users_do_not_multiply_the_series_of_a_process(fleet: Fleet) -> None:
    """As many tasks, queues and names of jobs, and each of them was used."""
    port = Port(fleet)
    file = fleet.folder / "many_tasks.py"
    file.write_text(MANY_TASKS)
    queues = ",".join(f"q{n}" for n in range(MANY))
    fleet.start("up", *port.options, "--queues", queues, "--quota-classes", "0", tasks=file)
    fleet.ready(workers=1)

    fleet.batch([{"task": f"task{n}", "queue": f"q{n}", "name": f"job {n}"} for n in range(MANY)])
    until(lambda: port.samples()["oncue_settled_total[('how', 'final')]"] == MANY, "all have run", fleet.tell)

    for path in ("/metrics", "/metrics/cluster"):
        text = port.get(path)[1]
        series = [line for line in text.splitlines() if not line.startswith("#")]
        assert 100 < len(series) <= MOST_SERIES
        assert "job 1" not in text
