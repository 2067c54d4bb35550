"""One seed from its beginning to its verdict, and what there is to tell of it."""

from __future__ import annotations

import heapq
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.harness.clients import Clients
from tests.harness.evidence import PATIENCE, Evidence, gather, said
from tests.harness.judge import Violation, judge
from tests.harness.plan import Fault, Plan
from tests.harness.receiver import Receiver
from tests.harness.stage import Stage, staged

MOST_LINES = 40  # of logs, for one run
GRACE = 5.0  # seconds after which faults that cannot be ended are left to healing
LOOK_AGAIN = 0.2


class Told(NamedTuple):
    evidence: Evidence
    violations: list[Violation]

    @property
    def figures(self) -> str:
        found = self.evidence
        calls = [call for calls in found.known.calls.values() for call in calls]
        untold = sum(one.count for entries in found.untold.values() for one in entries)
        lost = sum(one["outcome"] == "lost" for run in found.runs.values() for one in run["attempts"])
        again = sum(call.tries > 1 for call in calls)
        return (
            f"{len(found.spans)} starts of {len(found.runs)} runs ({found.archived} only in the archive), "
            f"{lost} attempts lost, {untold} occurrences without a run, {len(calls)} calls ({again} repeated), "
            f"{len(found.posts)} messages, {found.came_late} late requests"
        )


def tell(plan: Plan, folder: Path, environment: Mapping[str, str] | None = None, patience: float = PATIENCE) -> Told:
    """Play it and judge it. `environment`: what all processes get in addition."""
    folder.mkdir(parents=True, exist_ok=True)
    with Receiver(plan.seed) as receiver, staged(plan, folder, environment or {}) as stage:
        clients = Clients(stage, receiver.url)
        clients.begin()
        with clients.going():
            play(stage, clients.known.began)
            stage.heal()
        until_over = clients.known.ends + 1 - stage.now()
        time.sleep(max(0.0, until_over))
        evidence = gather(stage, clients.known, receiver.posts, patience)
    return Told(evidence, judge(evidence))


def play(stage: Stage, began: float) -> None:
    """Everything that goes wrong, one after the other; a fault may begin before another one has ended."""
    order = itertools.count()
    left = [(fault.at, next(order), fault, True) for fault in stage.plan.faults]
    heapq.heapify(left)
    while left:
        at, _, fault, begins = heapq.heappop(left)
        time.sleep(max(0.0, began + at - stage.now()))
        if begins:
            stage.begin(fault)
            heapq.heappush(left, (fault.at + fault.seconds, next(order), fault, False))
        elif at < stage.plan.seconds + GRACE and not stage.end(fault):
            heapq.heappush(left, (stage.now() - began + LOOK_AGAIN, next(order), fault, False))
    time.sleep(max(0.0, began + stage.plan.seconds - stage.now()))


# ---------------------------------------------------------------------------------------------------------- the telling


def about(told: Told, violation: Violation, folder: Path) -> str:
    """All that is known of what a violation is about."""
    lines = [f"*** {violation}"]
    for run in violation.runs:
        lines += of_run(told.evidence, run, folder)
    job = violation.job
    if job is not None:
        lines += of_job(told.evidence, job)
    return "\n".join(lines)


def of_run(found: Evidence, run: str, folder: Path) -> list[str]:
    shown = found.runs.get(run)
    lines = [f"--- run {run}, by the API or the archive:", json.dumps(shown, indent=1)[:4_000] if shown else "unknown"]
    lines += ["written down by its task:", *(f"  {span}" for span in found.spans if span.run == run)]
    seen = itertools.groupby(found.known.seen.get(run, ()), key=lambda one: (one.status, one.attempt))
    first = [next(same) for _, same in seen]
    lines += ["seen by clients:", *(f"  {one.answered:.3f} {one.status}, attempt {one.attempt}" for one in first)]
    if shown is not None:
        lines += of_calls(found, shown["job_id"])
    lines += ["in logs:"]
    lines += [f"  {name}: {line[:600]}" for name, line in said(folder) if run in line][:MOST_LINES]
    lines += ["what went wrong meanwhile:", *(f"  {one}" for one in around(found, run))]
    return lines


def of_calls(found: Evidence, job: str) -> list[str]:
    number = found.known.wish_of(job)
    if number is None:
        return []
    calls = found.known.calls.get(number, ())
    return [f"calls on job {number}, {found.known.wishes[number]}:", *(f"  {call}" for call in calls)]


def of_job(found: Evidence, job: str) -> list[str]:
    entries = [f"  {one}" for one in found.untold.get(job, ())]
    lines = [f"--- job {job}", *of_calls(found, job), "occurrences without a run:", *entries[:100]]
    runs = sorted((run for run in found.runs.values() if run["job_id"] == job), key=lambda run: run["scheduled_for"])
    return [*lines, "runs:", *(f"  {run['scheduled_for']} {run['status']} {run['run_id']}" for run in runs[:100])]


def around(found: Evidence, run: str) -> list[Fault]:
    spans = [span for span in found.spans if span.run == run]
    if not spans:
        return list(found.plan.faults)
    since = min(span.start for span in spans) - 20 - found.known.began
    until = max(span.last for span in spans) + 5 - found.known.began
    return [fault for fault in found.plan.faults if since < fault.at < until]
