"""What a story has left behind: what tasks wrote down, what API, archive and logs say, and what came by webhook."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.harness.clients import FINAL, Known
from tests.harness.plan import Json, Plan
from tests.harness.receiver import Post
from tests.harness.stage import Stage, Suspended
from tests.processes.fleet import COMMAND, moment

PATIENCE = 120.0  # seconds until what has not ended never will
LIVE = "scheduled,queued,retrying,running,cancelling"
# What a log must not have, whatever goes wrong around it.
ALARMS = ("finding", "crashed", "service_gave_up", "attempt_broken", "outcome_refused", "job_put_off", "request_failed")


class Span(NamedTuple):
    """One execution, as it wrote itself down. `last`: it was there then; `how` is empty if it never ended."""

    run: str
    job: str
    attempt: int
    pid: int
    due: float
    start: float
    last: float
    how: str
    wall: float  # what its process took for the time when it started

    def __str__(self) -> str:
        ended = self.how or "cut off"
        return f"attempt {self.attempt} in process {self.pid}: {self.start:.3f} to {self.last:.3f}, {ended}"


class Untold(NamedTuple):
    """An entry of the occurrence history: instants without a run."""

    first: float
    last: float
    count: int
    outcome: str


@dataclass
class Evidence:
    plan: Plan
    known: Known
    spans: list[Span] = field(default_factory=list)
    runs: dict[str, Json] = field(default_factory=dict)
    untold: dict[str, list[Untold]] = field(default_factory=dict)  # by job
    posts: list[Post] = field(default_factory=list)
    suspended: list[Suspended] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # said by the stage, the self-audit and the logs
    archived: int = 0  # runs that were only in the archive
    came_late: int = 0  # requests to the database whose sender had hung up
    left: list[Json] = field(default_factory=list)  # runs that had not ended when all others had


def gather(stage: Stage, known: Known, posts: list[Post], patience: float) -> Evidence:
    """After the end of the story: wait until everything has ended, and read all there is."""
    found = Evidence(stage.plan, known, posts=posts, suspended=stage.suspended, wrong=stage.wrong)
    found.left = drained(stage, patience)
    found.came_late = 0 if stage.network is None else stage.network.came_late
    found.runs = {run["run_id"]: run for run in pages(stage, "/runs?system=true", "runs")}
    occurrences = {job: [*occurrences_of(stage, job)] for job in recurring(known)}
    if stage.plan.keeps_little:
        add_archived(stage, found, occurrences)
    for job, ones in occurrences.items():
        found.untold[job] = sorted({untold(one) for one in ones if is_untold(one, found.runs)})
    found.spans = spans_of(stage.fleet.folder / "witness.jsonl")
    findings = pages(stage, "/findings", "findings")
    found.wrong += [f"the self-audit found {json.dumps(one)}" for one in findings]
    found.wrong += [f"{name}: {line}" for name, line in said(stage.fleet.folder) if alarming(line)]
    return found


def drained(stage: Stage, patience: float) -> list[Json]:
    """What is still live after all that time; usually nothing."""
    end = stage.now() + patience
    while live := [*pages(stage, f"/runs?system=true&status={LIVE}", "runs")]:
        if stage.now() > end:
            return live
        time.sleep(0.3)
    return []


def pages(stage: Stage, path: str, name: str) -> Iterable[Json]:
    fleet = stage.doors[0].fleet
    more = "&" if "?" in path else "?"
    token = ""
    while True:
        page = fleet.call("GET", f"{path}{more}limit=1000{token}")
        yield from page[name]
        if not page["next_page_token"]:
            return
        token = f"&page_token={page['next_page_token']}"


def recurring(known: Known) -> list[str]:
    return [job for number, job in known.job_ids.items() if known.wishes[number].schedule is not None]


def occurrences_of(stage: Stage, job: str) -> Iterable[Json]:
    """A job that has ended is forgotten with the last of its history: then all of it is in the archive."""
    if stage.plan.keeps_little and stage.doors[0].fleet.raw("GET", f"/v1/jobs/{job}")[0] == 404:
        return []
    return pages(stage, f"/jobs/{job}/occurrences", "occurrences")


def is_untold(one: Json, runs: Mapping[str, Json]) -> bool:
    """Whether it has no run. A run that was cancelled before it started is shown as skipped, with its own id."""
    run = runs.get(one["run_id"])
    its_own = run is not None and moment(run["scheduled_for"]) == moment(one["scheduled_for"])
    return one["outcome"] in ("skipped", "coalesced", "missed") and not its_own


def untold(one: Json) -> Untold:
    return Untold(
        moment(one["scheduled_for"]), moment(one["until"] or one["scheduled_for"]), one["count"], one["outcome"]
    )


# --------------------------------------------------------------------------------------------------------- the archive


def add_archived(stage: Stage, found: Evidence, occurrences: dict[str, list[Json]]) -> None:
    """Read after the API: what has left the store by then is in the archive."""
    verified = json.loads(archive(stage, "verify", "--json"))
    found.wrong += [f"the archive is damaged: {one}" for one in verified["wrong"]]
    in_archive = [json.loads(line) for line in archive(stage, "export").splitlines()]
    gone = {run["run_id"]: run for run in in_archive if run["run_id"] not in found.runs}
    found.runs |= gone
    found.archived = len(gone)
    for line in archive(stage, "export", "--table", "ledger").splitlines():
        one = json.loads(line)
        if one["job_id"] in occurrences:
            occurrences[one["job_id"]].append(one)


def archive(stage: Stage, *words: str) -> str:
    where = ["--engine", stage.fleet.engine, "--data-dir", str(stage.fleet.folder), "--archive", stage.archive.as_uri()]
    done = subprocess.run([*COMMAND, "archive", *words, *where], capture_output=True, text=True, env=os.environ)
    assert done.returncode in (0, 1), (words, done)
    return done.stdout


# ------------------------------------------------------------------------------------------------------ what was said


def spans_of(file: Path) -> list[Span]:
    lines: dict[str, list[Json]] = defaultdict(list)
    for line in file.read_text().splitlines():
        one = json.loads(line)
        lines[one["call"]].append(one)
    return sorted((span_of(of_call) for of_call in lines.values()), key=lambda span: span.start)


def span_of(lines: list[Json]) -> Span:
    first, last = lines[0], lines[-1]
    where = first["run"], first["job"], first["attempt"], first["pid"]
    return Span(*where, first["due"], first["at"], last["at"], last.get("how", ""), first["wall"])


def said(folder: Path) -> Iterable[tuple[str, str]]:
    """Every line of every log, with the name of its file."""
    for file in sorted(folder.glob("*.log"), key=lambda one: int(one.name.partition("-")[0])):
        for line in file.read_text(errors="replace").splitlines():
            yield file.name, line


def alarming(line: str) -> bool:
    return "Traceback (most recent" in line or any(f'"kind": "{kind}"' in line for kind in ALARMS)


def is_final(run: Json) -> bool:
    return run["status"] in FINAL
