"""Hosts whose wall clocks are anywhere within a day and jump: nothing may start early, be missed or doubled, and nobody
may be declared dead. Only the database's clock, which no process shares here, says what time it is.

    .venv/bin/python -m tests.harness.clocks --seeds 1 2 3 --seconds 20
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.harness.__main__ import options_of_stories, run_all
from tests.harness.evidence import PATIENCE, Evidence, said
from tests.harness.judge import Violation, judge
from tests.harness.plan import CLIENTS, PLACES, Act, Fault, Plan, Wish
from tests.harness.story import Told, tell

DAY = 86_400.0
# Said by those who take a worker for dead, or themselves.
DEATHS = ("worker_lost", "worker_restarted", "worker_stuck", "heartbeat_lost", "heartbeat_failed", "result_refused")
FEWEST_SHIFTED = 0.5  # of the starts: else the clocks were not what they should have been


def make_clock_plan(seed: int, seconds: float) -> Plan:
    chance = random.Random(f"clocks {seed}")
    wishes = [*_wishes(chance, seconds)]
    recurring = sum(wish.schedule is not None for wish in wishes)
    acts = [
        Act(round(chance.uniform(0, seconds), 3), chance.randrange(CLIENTS), "create", number)
        for number in range(recurring, len(wishes))
    ]
    jumps = sorted(_jumps(chance, seconds), key=lambda fault: fault.at)
    acts.sort(key=lambda act: act.at)
    return Plan(seed, "postgres", seconds, tuple(wishes), tuple(acts), tuple(jumps), keeps_little=False)


def _wishes(chance: random.Random, seconds: float) -> Iterator[Wish]:
    none_is_late = {"overlap": "allow", "catch_up": "skip"}
    yield Wish("allow", "work", {}, none_is_late, schedule={"every": "1s"})
    yield Wish("allow", "work", {"seconds": 0.5}, none_is_late, schedule={"cron": "* * * * * *"})
    zone = {"cron": "* * * * * *", "timezone": "Europe/Berlin"}
    yield Wish("allow", "work_in_thread", {}, none_is_late, schedule=zone)
    yield Wish("queue", "work", {"seconds": 0.3}, schedule={"every": "1s"})
    retry = {"max_retries": 3, "retry": {"backoff": "300ms", "factor": 1, "jitter": 0}}
    for _ in range(int(seconds * 5)):
        delay = round(chance.uniform(0.3, 3), 2)
        match chance.randrange(5):
            case 0:
                yield Wish("slow", "work", {"seconds": 2.0}, delay=delay)
            case 1:
                yield Wish("again", "work", {"fails": 2}, retry, delay=delay)
            case 2:
                yield Wish("quick", "work_in_thread", {}, after=delay)
            case _:
                yield Wish("quick", "work", {}, delay=delay)


def _jumps(chance: random.Random, seconds: float) -> Iterator[Fault]:
    """Everybody is somewhere else at once, and goes on jumping."""
    for place in PLACES["postgres"]:
        at = 0.0
        while at < seconds:
            far = chance.choice((DAY, 3_600, 90, 20, 2))
            yield Fault(round(at, 2), "jump", place, 0.0, shift=round(chance.uniform(-far, far), 3))
            at += chance.uniform(0.5, 5)


def judge_clocks(found: Evidence, folder: Path) -> Iterator[Violation]:
    """What holds beyond the rules of every story: nothing is late either, and nobody dies."""
    yield from judge(found)
    for number, wish in enumerate(found.known.wishes):
        if wish.kind == "allow":
            for entry in found.untold[found.known.job_ids[number]]:
                yield Violation("missed by a clock", f"job {number}: {entry}", job=found.known.job_ids[number])
    for run in found.runs.values():
        if any(one["outcome"] == "lost" for one in run["attempts"]):
            yield Violation("dead by a clock", f"an attempt was lost: {run['run_id']}", (run["run_id"],))
    for name, line in said(folder):
        if line.startswith("{") and json.loads(line).get("kind") in DEATHS:
            yield Violation("dead by a clock", f"{name}: {line}")
    shifted = sum(abs(span.wall - span.start) > 1 for span in found.spans)
    if shifted < FEWEST_SHIFTED * len(found.spans):
        yield Violation("the clocks", f"only {shifted} of {len(found.spans)} tasks saw another time: nothing is shown")


def tell_of_clocks(
    plan: Plan, folder: Path, environment: dict[str, str] | None = None, patience: float = PATIENCE
) -> Told:
    evidence = tell(plan, folder, environment, patience).evidence
    return Told(evidence, [*judge_clocks(evidence, folder)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.clocks", description=__doc__)
    options = options_of_stories(parser, seconds=20).parse_args()
    return run_all(options, lambda seed: make_clock_plan(seed, options.seconds), tell_of_clocks)


if __name__ == "__main__":
    sys.exit(main())
