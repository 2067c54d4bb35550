"""Every process is restarted in turn while jobs are created: callers notice at most one lost answer, runs nothing."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from itertools import pairwise

import pytest
from tests.processes.fleet import Fleet, Member, moment, until
from tests.processes.traffic import Traffic

pytestmark = [pytest.mark.kills, pytest.mark.alone]

# ONCUE_ROLLING="500 36" for the figures of docs/running.md.
RATE, SECONDS = map(float, os.environ.get("ONCUE_ROLLING", "200 12").split())


def has_started(member: Member) -> bool:
    return '"kind": "started"' in member.said


def stop(member: Member) -> float:
    """How long it took, in seconds."""
    told_at = time.monotonic()
    member.send(signal.SIGTERM)
    assert member.ended() == 0, member.said
    return time.monotonic() - told_at


def test_restarting_everything_in_turn_under_load_loses_and_doubles_nothing(postgres_fleet: Fleet) -> None:
    one, other = postgres_fleet, postgres_fleet.of(None)
    members = [(fleet, role, fleet.start(role)) for role in ("worker", "scheduler", "api") for fleet in (one, other)]
    until(lambda: all(has_started(member) for *_, member in members), "all have started", one.tell)
    one.ready(workers=2)
    each_second = one.create("mark", schedule="every 1s", overlap="allow")
    traffic = Traffic([one, other], RATE)
    with traffic.going():
        traffic.goes_on(one)
        began, stops = time.monotonic(), Counter[str]()
        for number, (fleet, role, member) in enumerate(members):
            turn = began + number * SECONDS / len(members)
            until(lambda at=turn: time.monotonic() >= at, "it is its turn")
            stops[role] = max(stops[role], stop(member))
            again = fleet.start(role)
            until(lambda one=again: has_started(one), f"the {role} has started", fleet.tell)
            traffic.goes_on(one)
    print(
        f"{len(traffic.made):,} created, {len(traffic.made) / traffic.seconds:.0f} a second for {traffic.seconds:.0f} s"
    )
    print(f"{len(traffic.retried)} needed their one retry: {Counter(traffic.retried)}")
    print(f"slowest create {traffic.slowest:.2f} s; slowest stop {dict(stops)}")
    assert traffic.failed == []

    one.call("DELETE", f"/jobs/{each_second}")
    one.started(*traffic.made)
    until(lambda: not any(run["status"] == "running" for run in one.all_runs().values()), "all have ended", one.tell)
    runs = one.all_runs()
    ticks = sorted(moment(runs.pop(run["run_id"])["scheduled_for"]) for run in one.runs_of(each_second))
    assert set(traffic.made) == runs.keys()
    assert len(traffic.made) == len(runs)
    assert Counter(run["status"] for run in runs.values()) == {"succeeded": len(runs)}
    assert {run: times for run, times in Counter(e["run"] for e in one.events("start")).items() if times > 1} == {}
    assert [later - earlier for earlier, later in pairwise(ticks)] == pytest.approx([1] * (len(ticks) - 1))
