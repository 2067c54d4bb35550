"""Judges what happened by what the task wrote down: nothing lost, and nothing started twice without a reason."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from bench.steady_load import SteadyLoad

OPEN, FAILED = ("scheduled", "queued", "retrying", "running"), ("dead", "cancelled", "expired")
LOOK_EVERY = 0.5  # seconds
RESTARTED = "worker_restarted"
ERRORS = ("Traceback", "pass_failed", "worker_unwatched", "heartbeat_failed")
EXPECTED = {"store_away", "store_back", "run_late", "started", "request_unavailable"}  # said in every outage


class Start(NamedTuple):
    run: str
    job: str
    attempt: int
    due: float
    start: float


class Line(NamedTuple):
    at: float
    kind: str
    text: str


class Witnessed:
    def __init__(self, folder: Path, load: SteadyLoad) -> None:
        self.load = load
        self._folder = folder

    @cached_property
    def starts(self) -> list[Start]:
        return sorted(self._read(), key=lambda one: one.start)

    def _read(self) -> list[Start]:
        lines = (self._folder / "witness.jsonl").read_text().splitlines()
        return [Start(**json.loads(line)) for line in lines]

    @cached_property
    def lines(self) -> list[Line]:
        """What the processes said, and when."""
        found = []
        for file in sorted(self._folder.glob("*.said")):
            for text in file.read_text(errors="replace").splitlines():
                try:
                    said = json.loads(text)
                    found.append(Line(datetime.fromisoformat(said["timestamp"]).timestamp(), said["kind"], text))
                except (ValueError, KeyError, TypeError):
                    found.append(Line(0.0, "", text))
        return found

    async def settled(self, seconds: float) -> list[str]:
        """Wait until nothing waits or runs; return what still does after so many seconds."""
        left: list[str] = []
        for _ in range(round(seconds / LOOK_EVERY)):
            await asyncio.sleep(LOOK_EVERY)
            left = [run for status in OPEN for run in await self._with(status)]
            if not left:
                break
        return left

    async def _with(self, status: str) -> list[str]:
        answer = await self.load.acknowledged("GET", f"/v1/runs?status={status}&limit=100")
        return [f"{run['run_id']} is {status}" for run in answer["runs"]]

    # ---------------------------------------------------------------------------------------------------- what is wrong

    async def lost(self) -> list[str]:
        """Runs that were created or are due by a schedule, and have not started or not succeeded."""
        started = {one.run for one in self.starts}
        lost = [f"{run} was created, and has not started" for run in self.load.created if run not in started]
        ticks = defaultdict(set)
        for one in self.starts:
            ticks[one.job].add(round(one.due, 3))
        for job in self.load.jobs:
            first, last = min(ticks[job], default=0.0), max(ticks[job], default=0.0)
            missing = {round(first + n, 3) for n in range(round(last - first))} - ticks[job]
            lost += [f"{job} has no run of {at}" for at in sorted(missing)]
            if last < self.load.ends_at - 5:
                lost.append(f"{job} has no run after {last}")
        return lost + [run for status in FAILED for run in await self._with(status)]

    def again(self, since: float, until: float) -> list[tuple[Start, Start]]:
        """Starts in between, of runs that had started before: with the start before."""
        before: dict[str, Start] = {}
        found = []
        for one in self.starts:
            if one.run in before and since <= one.start < until:
                found.append((before[one.run], one))
            before[one.run] = one
        return found

    async def unexplained(self, again: list[tuple[Start, Start]]) -> list[str]:
        """Those whose attempt before is not recorded as lost, or was returned to the queue."""
        found = []
        for before, one in again:
            run: dict[str, Any] = await self.load.acknowledged("GET", f"/v1/runs/{one.run}")
            outcomes = {attempt["number"]: attempt.get("outcome") for attempt in run["attempts"]}
            if one.attempt <= before.attempt or outcomes.get(before.attempt) != "lost":
                found.append(f"{one.run}: {before.attempt}, then {one.attempt}; {outcomes}")
        return found

    def restarts(self, since: float, until: float) -> list[float]:
        return [line.at for line in self.lines if line.kind == RESTARTED and since <= line.at < until]

    def errors(self, since: float, until: float) -> int:
        return sum(line.kind in ERRORS for line in self.lines if since <= line.at < until)

    def problems(self) -> list[str]:
        """What was said beyond what every outage brings: how often each kind, and an example."""
        told = [line for line in self.lines if line.kind not in EXPECTED]
        examples = {line.kind: line.text[:2_000] for line in told}
        return [f"{times} of {examples[kind]}" for kind, times in Counter(line.kind for line in told).most_common()]

    # -------------------------------------------------------------------------------------------------------------- lag

    def lags(self, since: float, until: float) -> list[float]:
        """Of first starts that were due in between."""
        return [one.start - one.due for one in self._first if since <= one.due < until]

    def late_until(self, since: float, until: float, bound: float) -> float:
        """Return the last due instant in between of a run that started late; `since`, if there was none.

        One in a hundred does not count: on a busy machine there is always one.
        """
        late = sorted(one.due for one in self._first if since <= one.due < until and one.start - one.due > bound)
        all_of_them = sum(since <= one.due < until for one in self._first)
        spared = late[: len(late) - all_of_them // 100] if all_of_them >= 100 else late
        return spared[-1] if spared else since

    @cached_property
    def _first(self) -> list[Start]:
        first: dict[str, Start] = {}
        for one in self.starts:
            first.setdefault(one.run, one)
        return list(first.values())
