"""A secret that users give to their jobs is told to nobody else: not in logs, metrics, traces or findings."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes.fleet import Fleet, Json, Member, until
from tests.processes.test_metrics import Port
from tests.tracing.test_otlp import Receiver, receiving

pytestmark = pytest.mark.kills

SECRET = "hunter2-do-not-tell"
TASKS = Path(__file__).with_name("secretive_tasks.py")
ROLES: dict[str, tuple[str, ...]] = {
    "api": ("--access-log", "--http-allow", "127.0.0.1/32"),
    "scheduler": ("--trace-ratio", "1"),
    "worker": ("--trace-ratio", "1", "--http-allow", "127.0.0.1/32", "--allow-commands", "--lease", "3s"),
}
AGAIN = {"max_retries": 1, "retry": {"backoff": "100ms"}}
SAID = {
    "api": {"started", "request", "stopping", "stopped"},
    "scheduler": {"started", "worker_lost", "attempt_failed", "run_dead", "stopped"},
    "worker": {"started", "attempt_failed", "run_dead", "worker_restarted", "library", "drained", "stopped"},
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


class Watched:
    """A fleet of roles apart, each with its log, its metrics and its traces."""

    def __init__(self, fleet: Fleet, receiver: Receiver) -> None:
        self.fleet = fleet
        self.receiver = receiver
        self.ports: dict[str, Port] = {}
        for role in ROLES:
            self.start(role)
        fleet.ready(workers=1)

    def start(self, role: str) -> Member:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.receiver.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=collector",
            "OTEL_SERVICE_NAME": "shop",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        port = self.ports[role] = Port(self.fleet)
        options = (*ROLES[role], *port.options)
        return self.fleet.start(role, *options, tasks=TASKS, env=environment)

    @property
    def worker(self) -> Member:
        return self.fleet.members[-1]

    def active(self, **job: str) -> str:
        """The id of a run that has said the secret, and waits."""
        run_id = self.fleet.create("waits_once", {"secret": SECRET}, **job)
        until(lambda: SECRET in self.fleet.text(f"/runs/{run_id}/logs"), "it has said it", self.fleet.tell)
        return run_id

    def kill_a_worker_process(self) -> None:
        """While a run with the secret is active."""
        run_id = self.active()
        pid = self.worker.inner
        assert pid
        os.kill(pid, signal.SIGKILL)
        self.fleet.at_rest([run_id])

    def kill_a_worker(self) -> None:
        """With its supervisor, so that a scheduler has to find out, and tells of its run."""
        run_id = self.active(on_lost="dead")
        self.worker.kill()
        self.start("worker")
        assert self.fleet.at_rest([run_id])[run_id]["status"] == "dead"

    def said(self) -> dict[str, str]:
        """All that a watcher is told, by where."""
        told = {f"log of {n} {one.role}": one.said for n, one in enumerate(self.fleet.members)}
        for role, port in self.ports.items():
            status, told[f"metrics of {role}"] = port.get("/metrics")
            assert status == 200
        status, told["metrics of the cluster"] = self.ports["api"].get("/metrics/cluster")
        assert status == 200
        told["findings"] = json.dumps(self.fleet.call("GET", "/findings"))
        return told


def kinds(member: Member) -> set[str]:
    lines = [line for line in member.said.splitlines() if line.startswith("{")]
    return {json.loads(line)["kind"] for line in lines}


def failing(url: str) -> dict[str, Json]:
    """A job of each task that fails with the secret in every place where one can be put."""
    command = ["sh", "-c", 'echo "$TOKEN"; echo "$0" >&2; exit 3', SECRET]
    with_it = {"headers": {"X-Token": SECRET}, "method": "POST", "body": SECRET}
    return {
        "leaks": {"secret": SECRET},
        "leaks_in_a_thread": {"secret": SECRET},
        "leaks_in_a_process": {"secret": SECRET},
        "http": {"url": f"{url}/bad?token={SECRET}", **with_it},
        "command": {"argv": command, "env": {"TOKEN": SECRET}, "stdin": SECRET},
    }


def test_a_planted_secret_is_told_to_nobody_who_watches(fleet: Fleet, receiver: Receiver) -> None:
    """After failures, retries and crashes, of every role."""
    watched = Watched(fleet, receiver)
    fleet.at_rest([fleet.create("leaves_an_error", {"secret": SECRET})])
    runs = {task: fleet.create(task, given, **AGAIN) for task, given in failing(receiver.url).items()}
    ended = fleet.at_rest(runs.values())
    assert {run["status"] for run in ended.values()} == {"dead"}
    for task in ("leaks", "leaks_in_a_thread", "leaks_in_a_process"):
        assert SECRET in str(ended[runs[task]]["attempts"]), "it was there to be told"
        assert f"printed {SECRET}" in fleet.text(f"/runs/{runs[task]}/logs")
    assert SECRET in fleet.text(f"/runs/{runs['command']}/logs")
    fleet.at_rest([fleet.create("kills_its_worker", {"secret": SECRET})])
    watched.kill_a_worker_process()
    watched.kill_a_worker()
    until(lambda: watched.ports["worker"].ready(), "the last worker is ready", fleet.tell)
    told = watched.said()
    for member in fleet.members:
        if member.process.poll() is None:
            member.send(signal.SIGTERM)
            assert member.ended() == 0, member.said
    told |= {f"log of {n} {one.role}": one.said for n, one in enumerate(fleet.members)}
    told["traces"] = receiver.raw.decode(errors="replace")

    for role, wanted in SAID.items():
        assert wanted <= set().union(*(kinds(one) for one in fleet.members if one.role == role)), role
    for task in runs:
        assert f'task="{task}"' in told["metrics of the cluster"]
        assert receiver.named(f"run {task}"), "its attempts were traced"
    assert receiver.named("POST"), "the request of `http` was traced"
    assert [place for place, words in told.items() if SECRET in words] == []
