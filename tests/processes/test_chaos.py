"""Kill -9, again and again: three schedulers and four workers on one PostgreSQL, at the default lease, under load.

Everything is judged from outside: by what the tasks wrote down, by which process was killed when, and by an oracle of
the instants at which schedules fire.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import defaultdict
from itertools import pairwise
from threading import Event, Thread
from typing import NamedTuple
from uuid import UUID

import pytest
from tests.processes.fleet import FINAL, LONG, Fleet, Json, Member, alive, moment, rfc3339, until

from oncue.domain.ids import JobId
from oncue.domain.instants import SECOND
from oncue.domain.ledger import Entry
from oncue.engines.open import open_engine
from oncue.settings import Settings

pytestmark = [pytest.mark.kills, pytest.mark.first]

SEED = 20_261_115
CHAOS = 30 if LONG else 18  # seconds; by its seed both kinds of kill hit workers within the first twelve or so
BETWEEN_KILLS = (0.8, 2.2)
ON_AGAIN_AFTER = (0.1, 1.0)
LEASE = 15.0
# Each is far from what a healthy oncue needs, and from what the next slower way would take.
TAKEN_BACK_WITHIN = LEASE + 10  # a lease, but not two
TAKEN_BACK_SOON = LEASE - 3  # where a keeper is left to tell: it does not take the lease
UNWRITTEN = 3.0  # a run may have ended so shortly before its worker, and its end not be written down yet
NOT_LATER = LEASE - 5  # nobody has to be taken for dead first


class Kill(NamedTuple):
    at: float  # not before this
    by: float  # and not after this
    supervisor: int
    whole: bool  # the keeper too, so that only silence tells of it


class Chaos:
    """Kills one member or its inner process every second or two, and starts another in its place."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._chance = random.Random(SEED)
        self._members = [fleet.start(role) for role in ("scheduler",) * 3 + ("worker",) * 4]
        self.kills: dict[int, Kill] = {}  # by the process in which tasks ran
        self.count = 0

    def go_on_until(self, end: float) -> None:
        while time.time() < end:
            time.sleep(self._chance.uniform(*BETWEEN_KILLS))
            place = self._chance.randrange(len(self._members))
            member = self._members[place]
            if member.role == "worker" and self._chance.random() < 0.5:
                self._kill_inner(member)
            else:
                self._kill_whole(member)
                time.sleep(self._chance.uniform(*ON_AGAIN_AFTER))
                self._members[place] = self._fleet.start(member.role)
            self.count += 1

    def _kill_inner(self, member: Member) -> None:
        """In the midst of a run: on a busy machine the process may have just begun, and its end would prove nothing."""
        inner = until(lambda: self._busy(member), f"process {member.pid} runs something", self._fleet.tell)
        at = time.time()
        os.kill(inner, signal.SIGKILL)
        self._gone(inner, Kill(at, at, member.pid, whole=False))

    def _busy(self, member: Member) -> int | None:
        inner, events = member.inner, self._fleet.events()
        ended = {(event["run"], event["attempt"]) for event in events if event["kind"] == "end"}
        going_on = [e for e in events if e["kind"] == "start" and (e["run"], e["attempt"]) not in ended]
        return inner if any(inner in event["pids"] for event in going_on) else None

    def _kill_whole(self, member: Member) -> None:
        member.send(signal.SIGSTOP)  # it must not start another inner process while we look
        inner = member.inner
        at = time.time()
        member.kill()
        for pid, kill in self.kills.items():
            if kill.supervisor == member.pid and at - kill.at < TAKEN_BACK_SOON:
                self.kills[pid] = kill._replace(whole=True)  # its keeper may not have had the time to tell of it
        if inner and inner not in self.kills:
            self._gone(inner, Kill(at, at, member.pid, whole=True))

    def _gone(self, inner: int, kill: Kill) -> None:
        until(lambda: not alive(inner), "what was killed is gone")
        self.kills[inner] = kill._replace(by=time.time())


class Load(Thread):
    """One-shots, ten a second: quick ones, ones that take seconds, ones due a little later."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet
        self._chance = random.Random(SEED + 1)
        self._enough = Event()
        self.created: list[str] = []

    def run(self) -> None:
        while not self._enough.wait(0.1):
            match self._chance.randrange(6):
                case 0:
                    job = self._fleet.create("slow", {"seconds": self._chance.uniform(1, 3)})
                case 1:
                    job = self._fleet.create("in_thread", {"seconds": 1})
                case 2:
                    job = self._fleet.create("mark", schedule=rfc3339(time.time() + self._chance.uniform(0.5, 5)))
                case _:
                    job = self._fleet.create("mark")
            self.created.append(job)

    def stop(self) -> None:
        self._enough.set()
        self.join()


# ---------------------------------------------------------------------------------------------------------- the oracle


def recurring(fleet: Fleet, start: int) -> dict[str, tuple[set[float], bool]]:
    """Jobs with their instants; and whether each must become a run, rather than a run or a line in the ledger."""
    span = {"start_at": rfc3339(start + 0.25), "end_at": rfc3339(start + CHAOS + 8.6)}
    seconds = range(start + 1, start + CHAOS + 9)
    every = {round(start + 0.25 + n, 3) for n in range(1, CHAOS + 9)}
    all_of_them = {"overlap": "allow", "catch_up": "all"}
    cron = {step: {float(at) for at in seconds if at % step == 0} for step in (1, 2, 5)}
    jobs: dict[str, tuple[set[float], bool]] = {}

    def add(schedule: Json, instants: set[float], task: str = "mark", payload: Json | None = None, **more: str) -> None:
        jobs[fleet.create(task, payload, schedule={**schedule, **span}, **more)] = instants, bool(more)

    add({"every": "1s"}, every, **all_of_them)
    add({"every": "1s"}, every, "slow", {"seconds": 0.7}, **all_of_them)
    add({"every": "2s"}, {at for at in every if round(at - 0.25 - start) % 2 == 0}, **all_of_them)
    add({"cron": "* * * * * *"}, cron[1], **all_of_them)
    add({"cron": "*/2 * * * * *"}, cron[2], **all_of_them)
    add(
        {"cron": "*/5 * * * * *"},
        cron[5],
        "in_thread",
        {"seconds": 1},
        **all_of_them,
    )
    add({"every": "1s"}, every)
    add({"cron": "* * * * * *"}, cron[1], "slow", {"seconds": 0.5})
    return jobs


async def ledger_of(fleet: Fleet, job_id: str) -> list[Entry]:
    engine = await open_engine(Settings(engine=fleet.engine))
    try:
        return list((await engine.lists.ledger(None, JobId(UUID(job_id)), 1_000)).items)
    finally:
        await engine.close()


def covered_by(entries: list[Entry], instants: set[float]) -> list[float]:
    """The instants of ours that the ledger accounts for; one that it names twice comes twice."""
    found = [at for entry in entries for at in instants if entry.first / SECOND <= at <= entry.last / SECOND]
    assert len(found) == sum(entry.count for entry in entries), entries
    return found


# ------------------------------------------------------------------------------------------------------------ the judge


def check_starts(starts: list[Json], ends: dict[tuple[str, int], float], kills: dict[int, Kill]) -> list[Kill]:
    """Of one run: it started again only because its worker had been killed, not before that and soon after."""
    causes = []
    for start, again in pairwise(starts):
        killed = [kills[pid] for pid in start["pids"] if pid in kills]
        assert killed, f"started twice, though nobody killed its worker: {starts}"
        kill = killed[0]
        ended_at = ends.get((start["run"], start["pids"][0]))
        assert start["at"] < kill.by, (starts, kill)
        assert again["at"] > kill.at, (starts, kill)
        assert ended_at is None or ended_at > kill.at - UNWRITTEN, f"it had ended, and started again: {starts} {kill}"
        bound = TAKEN_BACK_WITHIN if kill.whole else TAKEN_BACK_SOON
        assert again["at"] - kill.at < bound, f"{again['at'] - kill.at:.2f} s until it started again: {starts} {kill}"
        causes.append(kill)
    return causes


def check_end(run: Json, starts: list[Json], kills: dict[int, Kill]) -> None:
    """It succeeded; or three workers were killed under it, which oncue cannot tell from its own fault."""
    if run["status"] == "dead":
        assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost"] * 3, run
        assert sum(any(pid in kills for pid in start["pids"]) for start in starts) <= 3
    else:
        assert run["status"] == "succeeded", run
        assert starts[-1]["attempt"] == run["attempt_number"], (run, starts)


def check_first_start(start: Json) -> None:
    """On time, unless a worker had it already and was killed before it could start it."""
    lag = start["at"] - start["due"]
    assert 0 <= lag < (NOT_LATER if start["attempt"] == 1 else TAKEN_BACK_WITHIN + NOT_LATER), (lag, start)


async def check_ticks(
    fleet: Fleet, job: str, of_job: list[Json], instants: set[float], *, all_become_runs: bool
) -> None:
    """Each instant of the oracle once: as a run, or told in the ledger."""
    planned = [moment(run["scheduled_for"]) for run in of_job]
    told = covered_by(await ledger_of(fleet, job), instants)
    assert sorted([*planned, *told]) == sorted(instants), job
    assert not (told and all_become_runs), told


async def test_killing_again_and_again_loses_nothing_and_doubles_only_what_was_killed(postgres_fleet: Fleet) -> None:
    fleet = postgres_fleet
    fleet.start("api")
    chaos = Chaos(fleet)
    fleet.ready(workers=4)
    start = int(time.time()) + 2
    jobs = recurring(fleet, start)
    load = Load(fleet)
    load.start()
    try:
        chaos.go_on_until(start + CHAOS)
    finally:
        load.stop()
    until(lambda: time.time() > start + CHAOS + 9, "the schedules are over")

    runs = fleet.at_rest(load.created)
    in_no_lane = set(runs)
    for job, (instants, all_become_runs) in jobs.items():
        of_job = until(lambda job=job: ended_runs(fleet, job), "its runs have ended", fleet.tell)
        await check_ticks(fleet, job, of_job, instants, all_become_runs=all_become_runs)
        runs |= {run["run_id"]: run for run in of_job}
        in_no_lane |= {run["run_id"] for run in of_job if all_become_runs}
    starts: dict[str, list[Json]] = defaultdict(list)
    for event in fleet.events("start"):
        starts[event["run"]].append(event)
    ends = {(event["run"], event["pids"][0]): event["at"] for event in fleet.events("end")}
    assert set(starts) <= set(runs), "something ran that nobody asked for"
    causes: list[Kill] = []
    for run_id, run in runs.items():
        assert all(event["at"] >= moment(run["scheduled_for"]) for event in starts[run_id]), "early"
        causes += check_starts(starts[run_id], ends, chaos.kills)
        check_end(run, starts[run_id], chaos.kills)
        if run_id in in_no_lane and starts[run_id]:
            check_first_start(starts[run_id][0])
    assert {kill.whole for kill in causes} == {True, False}, "the chaos has hit too little to prove anything"


def ended_runs(fleet: Fleet, job: str) -> list[Json]:
    """All of them, or none while some have not ended."""
    found = fleet.runs_of(job)
    return found if all(run["status"] in FINAL for run in found) else []
