"""A real Prometheus that scrapes real processes of oncue, with the files of ops/prometheus made quicker.

Rules and scrape jobs are those we ship. Only time is scaled, by rules that hold for all of them: a minute becomes a
second, and what would still take long, or hold too few samples, is cut to a bound. Figures in expressions that are
seconds of a real cause are scaled, too, each by name.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.ops.programs import OPS, program
from tests.processes.fleet import Fleet, Member, free_port, until

Json = dict[str, Any]

FILES = OPS / "prometheus"
TOKEN = "a-token-that-is-long-enough"
TOKEN_FILE = "/run/secrets/metrics-token"

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DURATION = r"(\d+)([smhd])"
SHORTEST_WINDOW, LONGEST_WINDOW = 5, 15  # seconds: a rate needs samples, of which there is one a second
SHORTEST_FOR, LONGEST_FOR = 3, 5  # so a scrape that fails once, on a busy machine, fires nothing

# Alert, what its expression has, what it gets, and why a test cannot wait for the real one.
SECONDS = (
    ("OncueNothingStarts", "> 30", "> 3", "how long a run has been due"),
    ("OncueQueueOld", "> 60", "> 3", "how long a run has been due"),
    ("OncueSelfAuditStalled", "> 7200", "> 15", "since the last pass; a healthy one ends every 5 s"),
    ("OncueNoticesFailing", "> 900", "> 3", "how long a notice has waited"),
    ("OncueOldSnapshot", "> 1800", "> 3", "how long a transaction has been open"),
)


def shortened(text: str) -> Json:
    """rules.yml, quicker. Every threshold that is not in `SECONDS` stays as it is."""
    rules: Json = yaml.safe_load(text)
    by_name = {alert: (there, here) for alert, there, here, _ in SECONDS}
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(
                rf"\[{DURATION}\]", lambda at: f"[{_scaled(at, SHORTEST_WINDOW, LONGEST_WINDOW)}]", rule["expr"]
            )
            if "for" in rule:
                rule["for"] = re.sub(DURATION, lambda at: _scaled(at, SHORTEST_FOR, LONGEST_FOR), rule["for"])
            if (scale := by_name.pop(rule.get("alert"), None)) is not None:
                assert rule["expr"].count(scale[0]) == 1, rule
                rule["expr"] = rule["expr"].replace(*scale)
    assert not by_name, f"there is no such alert: {sorted(by_name)}"
    return rules


def _scaled(at: re.Match[str], least: int, most: int) -> str:
    seconds = int(at[1]) * UNITS[at[2]] // 60
    return f"{min(max(seconds, least), most)}s"


def configuration(text: str, token: Path, processes: Sequence[str], apis: Sequence[str]) -> Json:
    """prometheus.yml with these targets, and a scrape every second."""
    config: Json = yaml.safe_load(text.replace(TOKEN_FILE, str(token)))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    del jobs["oncue"]["dns_sd_configs"]
    jobs["oncue"]["static_configs"] = [{"targets": list(processes)}]
    jobs["oncue-cluster"]["static_configs"] = [{"targets": list(apis)}]
    return config


class Watched:
    """A fleet whose members each have a metrics port, in the order in which they started."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.token = fleet.folder / "metrics.token"
        self.token.write_text(TOKEN)
        self.ports: dict[Member, int] = {}

    def start(self, role: str, *options: str, port: int = 0, env: dict[str, str] | None = None) -> Member:
        """`port`: that of a member that is gone, which this one replaces."""
        port = port or free_port()
        ours = ("--metrics-port", str(port), "--metrics-token-file", str(self.token))
        member = self.fleet.start(role, *options, *ours, env=env)
        self.ports[member] = port
        return member

    def targets(self, *roles: str) -> list[str]:
        return [f"127.0.0.1:{port}" for member, port in self.ports.items() if not roles or member.role in roles]


class Caller:
    """Creates a job, if the last one is a moment ago."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._at = 0.0

    def __call__(self) -> None:
        if time.monotonic() - self._at > 0.2:
            self._fleet.raw("POST", "/v1/jobs", {"task": "mark"})
            self._at = time.monotonic()


class Prometheus:
    def __init__(self, folder: Path, watched: Watched) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.log = folder / "prometheus.log"
        processes, apis = watched.targets(), watched.targets("api", "up")
        self._targets = len(processes) + len(apis)
        (folder / "rules.yml").write_text(yaml.safe_dump(shortened((FILES / "rules.yml").read_text())))
        config = configuration((FILES / "prometheus.yml").read_text(), watched.token, processes, apis)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with self.log.open("wb") as said:
            self.process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'prometheus'}",
                    f"--web.listen-address={self.address}",
                    "--log.level=warn",
                ],
                env={**os.environ, "GOMAXPROCS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str, **query: str) -> Any:
        """What it answers as `data`. None: it does not listen yet. What it refuses fails the test."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            if refused.code == 503:  # not ready yet
                return None
            raise AssertionError(f"{query}: {refused.read().decode()}") from None
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def query(self, expression: str) -> list[Json]:
        found: list[Json] = self.get("query", query=expression)["result"]
        return found

    def targets(self) -> list[Json]:
        return (self.get("targets", state="active") or {"activeTargets": []})["activeTargets"]

    def all_up(self) -> bool:
        found = self.targets()
        return len(found) == self._targets and all(one["health"] == "up" for one in found)

    def alerts(self, state: str = "firing") -> dict[str, list[Json]]:
        """The labels of those in this state, by name."""
        found: dict[str, list[Json]] = {}
        for one in (self.get("alerts") or {"alerts": []})["alerts"]:
            if one["state"] == state:
                found.setdefault(one["labels"]["alertname"], []).append(one["labels"])
        return found

    def fires(self, *names: str, meanwhile: Callable[[], object] = bool) -> None:
        """Each of these fires, if only for a while."""
        seen: set[str] = set()

        def look() -> bool:
            meanwhile()
            seen.update(self.alerts())
            return seen.issuperset(names)

        until(look, f"{names} fire", lambda: f"not yet {set(names) - seen}; {self.tell()}", within=90)

    def tell(self) -> str:
        up = {one["scrapeUrl"]: one["lastError"] or one["health"] for one in self.targets()}
        return f"firing {sorted(self.alerts())}, pending {sorted(self.alerts('pending'))}, targets {up}"


@contextmanager
def watching(watched: Watched) -> Iterator[Prometheus]:
    """Every target is up and nothing fires at first: what fires later has another reason than the start."""
    prometheus = Prometheus(watched.fleet.folder, watched)
    try:
        until(lambda: prometheus.all_up() and not prometheus.alerts(), "all is well at first", prometheus.tell)
        yield prometheus
    finally:
        prometheus.close()
