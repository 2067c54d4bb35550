"""A worker's places among many: users, priorities, sizes, queues. What the tasks wrote down decides."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest
from tests.processes.fleet import LONG as LONG_VERSION
from tests.processes.fleet import Fleet, Json, moment, until

from oncue.clock import SystemClock
from oncue.domain.change import only_run
from oncue.domain.ids import JobId, uuid7
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Job, Spec
from oncue.domain.placement import Priority
from oncue.engines.open import open_engine
from oncue.engines.port import Hint, NewJob, Topic
from oncue.settings import Settings

pytestmark = pytest.mark.kills

BATCH = 1_000


async def write(fleet: Fleet, user: str, count: int, spec: Spec, payload: bytes, ago: Duration) -> list[str]:
    """So many one-shots of one user's, due a microsecond apart and long ago, straight into the store; their ids."""
    engine = await open_engine(Settings(engine=fleet.engine, store_timeout=Duration(30 * SECOND)))
    try:
        now = SystemClock().now()
        uid = await engine.accounts.user(user, now)
        [class_id] = await engine.jobs.intern([spec.class_key])
        new = []
        for number in range(count):
            due = Instant(now - ago + number)
            job = Job(JobId(uuid7(due, os.urandom(8))), uid, spec, payload, now, now)
            new.append(NewJob(job, class_id, run=only_run(job, class_id, due)))
        for start in range(0, count, BATCH):
            await engine.jobs.create(new[start : start + BATCH], now, whole=True)
        await engine.signals.send([Hint(Topic.RUNS)])
        return [str(one.job.job_id) for one in new]
    finally:
        await engine.close()


def lag(start: Json) -> float:
    late: float = start["at"] - start["due"]
    return late


# --------------------------------------------------------------------------------------------------------------- users

FLOOD = 100_000 if LONG_VERSION else 25_000  # far more than run meanwhile
PLACES = 10
LENGTH = 0.05  # of each run of the flood: all places are taken all the time, and change hands
RUNS = 20  # of the other user, a quarter of a second apart
APART = 0.25
LONGEST_REST = 1.0  # of a search that the machine made take a tenth of it; without turns it is two minutes


class Times(NamedTuple):
    """In seconds; of the worst few the machine may be the cause."""

    p80: float
    p99: float

    @classmethod
    def of(cls, times: Iterable[float]) -> Times:
        rising = sorted(times)
        return cls(rising[int(len(rising) * 0.8)], rising[int(len(rising) * 0.99)])


def one_at_a_time(user: Fleet) -> Times:
    """How late each started."""
    runs = []
    first = time.monotonic()
    for number in range(RUNS):
        time.sleep(max(0.0, first + number * APART - time.monotonic()))
        runs.append(user.create("slow", {"seconds": LENGTH}))
    until(lambda: user.run(runs[-1])["status"] == "succeeded", "the last of them has run", user.tell)
    return Times.of(lag(start) for start in user.started(*runs))


@pytest.mark.alone
async def test_a_flood_by_one_user_does_not_make_another_wait(any_fleet: Fleet) -> None:
    """The other's runs are of the same class as the flood's: nothing but their user tells them apart."""
    fleet = any_fleet
    fleet.deploy("--concurrency", str(PLACES))
    other = fleet.as_user("other")
    calm = one_at_a_time(other)
    flood = set(await write(fleet, "flood", FLOOD, Spec("slow"), b'{"seconds":%f}' % LENGTH, MINUTE))
    until(lambda: fleet.events("start")[-1]["run"] in flood, "the flood is running", fleet.tell)

    began = time.time()
    beside = one_at_a_time(other)

    starts = {e["run"]: e["at"] for e in fleet.events("start") if e["at"] > began and e["run"] in flood}
    lengths = [event["at"] - starts[event["run"]] for event in fleet.events("end") if event["run"] in starts]
    a_place = Times.of(lengths)
    print(f"calm: {calm}, beside the flood: {beside}; {len(lengths)} of the flood meanwhile, each taking {a_place}")
    assert RUNS * APART * PLACES < len(lengths) < FLOOD / 2, (
        "the places were not taken all the while: this proves nothing"
    )
    # Nobody is stopped for another user's run: first a place must become free, which takes up to the length of a run,
    # and as much again where two processors are busy.
    assert beside.p80 <= max(2 * calm.p80, 2 * a_place.p80)
    # The worst of the twenty may come after a search for turns that took long, and so rests ten times as long.
    assert beside.p99 <= max(2 * calm.p99, 2 * a_place.p99, LONGEST_REST)


# ---------------------------------------------------------------------------------------------------------- preemption

LONG = 3.0
A_LOOK = 0.3
LOW: dict[str, Any] = {"priority": "low", "preemptible": True, "max_retries": 0}


def gave_way(run: Json) -> bool:
    """And lost nothing by it: no attempt is spent, though it has no retries."""
    assert run["status"] == "succeeded", run
    outcomes = [attempt["outcome"] for attempt in run["attempts"]]
    assert outcomes in (["succeeded"], ["preempted", "succeeded"]), run
    return len(outcomes) == 2


@pytest.mark.alone
def test_high_priority_starts_within_a_second_though_all_places_are_held_and_nobody_loses_by_it(
    postgres_fleet: Fleet,
) -> None:
    fleet = postgres_fleet
    fleet.deploy("--concurrency", "2", "--processes", "2", "--allow-commands")
    steps = [fleet.create("step_by_step", {"seconds": LONG}, **LOW) for _ in range(2)]
    steps.append(fleet.create("step_by_step_apart", {"seconds": LONG}, **LOW))
    command = fleet.command("sleep", str(LONG), **LOW)
    fleet.started(*steps)
    until(lambda: fleet.run(command)["status"] == "running", "the command runs", fleet.tell)
    until(lambda: {event["run"] for event in fleet.events("saved")} == set(steps), "each has a checkpoint")

    traces = [fleet.folder / "first", fleet.folder / "second"]
    script = ("/bin/sh", "-c", 'touch "$0"; sleep 2')
    in_loop = fleet.create("slow", {"seconds": 2}, priority="high")
    high = [in_loop, *(fleet.command(*script, str(trace), priority="high") for trace in traces)]

    [start] = fleet.started(in_loop)
    until(lambda: all(trace.exists() for trace in traces), "the commands have started", fleet.tell)
    lags = [lag(start), *(trace.stat().st_mtime - due(fleet, run) for trace, run in zip(traces, high[1:], strict=True))]
    print("high started after", *(f"{late * 1_000:.0f} ms" for late in lags))
    assert max(lags) < 1.0
    assert fleet.events("end") == [], "a place was free by itself"
    ended = fleet.at_rest([*steps, command, *high])
    assert [gave_way(ended[run]) for run in high] == [False] * 3
    assert sorted(gave_way(ended[run]) for run in steps[:2]) == [False, True]
    assert [gave_way(ended[run]) for run in (steps[2], command)] == [True, True]
    for run in steps:
        starts, saved = fleet.events("start", run), fleet.events("saved", run)
        assert len(starts) == 1 + gave_way(ended[run])
        before = [event["checkpoint"] for event in saved if event["at"] < starts[-1]["at"]]
        after = [event["checkpoint"] for event in saved if event["at"] > starts[-1]["at"]]
        began_with = starts[-1]["checkpoint"] or 0
        assert began_with >= max(before, default=0)
        assert after == list(range(began_with + 1, round(LONG / 0.1) + 1))


def due(fleet: Fleet, run: str) -> float:
    return moment(fleet.run(run)["scheduled_for"])


async def test_a_place_that_was_made_for_high_priority_is_not_taken_by_one_that_gave_way_before(fleet: Fleet) -> None:
    """All are one user's, so nobody takes turns; and those of low priority are an hour old, and go by age."""
    fleet.deploy("--concurrency", "3")
    spec = Spec("step_by_step", priority=Priority.LOW, preemptible=True, max_retries=0)
    low = await write(fleet, "admin", 3, spec, b'{"seconds":600}', HOUR)
    fleet.started(*low)
    for number in range(1, 4):
        high = fleet.create("slow", {"seconds": 600}, priority="high")
        fleet.started(high)  # else it has to wait until one of low priority has come to its end
        until(lambda number=number: queued(fleet, low) == number, "one more waits again", fleet.tell)
        fleet.call("POST", "/queues/default/resume")  # tells workers to look at everything: they know it waits again
        await asyncio.sleep(A_LOOK)


async def test_nobody_gives_way_in_vain(fleet: Fleet) -> None:
    """There is a backlog of low priority that is so old that it goes before anything new."""
    fleet.deploy("--concurrency", "3")
    spec = Spec("step_by_step", priority=Priority.LOW, preemptible=True, max_retries=0)
    low = await write(fleet, "admin", 10, spec, b'{"seconds":60}', HOUR)
    fleet.started(*low[:3])

    high = [fleet.create("slow", {"seconds": 60}, priority="high") for _ in range(2)]

    await asyncio.sleep(3)

    def as_many_started() -> bool:
        """Looked at again: between giving way and the other's start is a moment."""
        outcomes = [attempt["outcome"] for run in low for attempt in fleet.run(run)["attempts"]]
        assert set(outcomes) <= {"preempted"}
        return len(outcomes) == sum(bool(fleet.events("start", run)) for run in high)

    until(as_many_started, "each that gave way did so for another", fleet.tell, within=10)


def queued(fleet: Fleet, runs: list[str]) -> int:
    return sum(fleet.run(run)["status"] == "queued" for run in runs)


# --------------------------------------------------------------------------------------------------------------- sizes


def most_at_a_time(fleet: Fleet, slots: dict[str, int], pid: int | None = None) -> int:
    """How many places these runs held at once, in one worker or in all."""
    moves = []
    for run, size in slots.items():
        starts, ends = fleet.events("start", run), fleet.events("end", run)
        assert (len(starts), len(ends)) == (1, 1), run
        if pid in (None, starts[0]["pids"][0]):
            moves += [(starts[0]["at"], size), (ends[0]["at"], -size)]
    held = most = 0
    for _, change in sorted(moves):
        held += change
        most = max(most, held)
    return most


def test_runs_go_only_where_they_fit_and_only_as_many_as_fit(fleet: Fleet) -> None:
    [large] = fleet.deploy("--concurrency", "6", "--worker-cpu", "2")
    small = fleet.start("worker", "--concurrency", "2", "--worker-cpu", "2")
    fleet.ready(workers=2)
    sizes = [4, 1, 3, 2, 5, 1, 4, 2, 3, 1, 2, 5]
    slots = {fleet.create("slow", {"seconds": 0.3}, resources={"slots": size}): size for size in sizes}
    hungry = {fleet.create("slow", {"seconds": 0.3}, resources={"cpu": 1.5}): 1 for _ in range(6)}

    fleet.at_rest([*slots, *hungry])

    assert large.inner
    assert small.inner
    for pid, places in ((large.inner, 6), (small.inner, 2)):
        assert most_at_a_time(fleet, slots | hungry, pid) <= places
        assert most_at_a_time(fleet, hungry, pid) <= 1
    where = {run: fleet.events("start", run)[0]["pids"][0] for run in slots}
    assert {where[run] for run, size in slots.items() if size > 2} == {large.inner}
    assert most_at_a_time(fleet, slots, large.inner) > 2


def test_whatever_way_runs_end_they_give_back_what_they_took(fleet: Fleet) -> None:
    [member] = fleet.deploy("--concurrency", "4", "--worker-cpu", "1", "--worker-memory-mb", "1000", "--lease", "3s")
    everything = {"slots": 4, "cpu": 1, "memory_mb": 1000}
    half = {"slots": 2, "cpu": 0.5, "memory_mb": 500}

    def two(task: str, payload: Json | None = None, **job: Any) -> list[str]:
        return [fleet.create(task, payload, resources=half, max_retries=0, **job) for _ in range(2)]

    failing = two("fail")
    timing_out = two("slow", {"seconds": 60}, timeout="500ms")
    fleet.started(*timing_out)
    cancelled = two("slow", {"seconds": 60})
    fleet.started(*cancelled)
    for run in cancelled:
        fleet.call("POST", f"/runs/{run}/cancel")
    killed = two("relay", {"lengths": [60, 0.2]})
    fleet.started(*killed)
    inner = member.inner
    assert inner
    os.kill(inner, signal.SIGKILL)
    whole = [fleet.create("slow", {"seconds": 0.1}, resources=everything) for _ in range(3)]

    ended = fleet.at_rest([*failing, *timing_out, *cancelled, *killed, *whole])

    outcomes = {run: [attempt["outcome"] for attempt in ended[run]["attempts"]] for run in ended}
    assert [outcomes[run] for run in failing] == [["failed"]] * 2
    assert [outcomes[run] for run in timing_out] == [["timed_out"]] * 2
    assert [outcomes[run] for run in cancelled] == [["cancelled"]] * 2
    assert [outcomes[run] for run in killed] == [["lost", "succeeded"]] * 2
    assert [outcomes[run] for run in whole] == [["succeeded"]] * 3


@contextmanager
def stream(fleet: Fleet, per_second: int, task: str, payload: Json, **job: Any) -> Iterator[list[str]]:
    """Jobs all the while; the ids of those that were acknowledged."""
    ids: list[str] = []
    enough = Event()

    def create() -> None:
        while not enough.wait(1 / per_second):
            ids.append(fleet.create(task, payload, **job))

    loader = Thread(target=create)
    loader.start()
    try:
        yield ids
    finally:
        enough.set()
        loader.join()


def test_a_stream_of_small_runs_does_not_starve_a_big_one(fleet: Fleet) -> None:
    fleet.deploy("--concurrency", "10")  # of which one is kept for high priority
    small = {"seconds": 1.0}
    first = [fleet.create("slow", small) for _ in range(12)]
    fleet.started(*first[:9])
    with stream(fleet, 20, "slow", small) as ids:  # more than nine places can do
        until(lambda: len(ids) > 5, "it flows")
        big = fleet.create("slow", small, resources={"slots": 9})

        [start] = fleet.started(big)

    waiting = [
        run for run in ids if fleet.events("start", run)[:1] == [] or fleet.events("start", run)[0]["at"] > start["at"]
    ]
    assert len(waiting) > 9, "there was room for all: this proves nothing"
    ended = fleet.at_rest([*first, *ids, big])
    assert {run["status"] for run in ended.values()} == {"succeeded"}


# -------------------------------------------------------------------------------------------------------------- queues


def test_nothing_of_a_paused_queue_starts_on_any_worker_and_everything_does_when_it_is_resumed(
    any_fleet: Fleet,
) -> None:
    fleet = any_fleet
    fleet.deploy("--concurrency", "4", "--queues", "default,side", workers=3)
    backlog = fleet.batch([{"task": "slow", "payload": {"seconds": 0.3}, "queue": "side"}] * 150)
    with stream(fleet, 20, "mark", {}, queue="side") as aside, stream(fleet, 10, "mark", {}) as beside:
        until(lambda: len(fleet.events("start")) > 20, "they run", fleet.tell)
        assert fleet.call("POST", "/queues/side/pause")["paused_since"]
        paused_at = time.time()

        def starts_of(runs: list[str]) -> list[float]:
            of_queue = set(runs)
            return [event["at"] for event in fleet.events("start") if event["run"] in of_queue]

        until(lambda: time.time() > max(starts_of([*backlog, *aside])) + 2, "no worker starts any of it", fleet.tell)
        assert len(starts_of(backlog)) < len(backlog), "nothing was left to pause"
        until(lambda: sum(at > paused_at for at in starts_of(beside)) > 10, "the other queue goes on", fleet.tell)
        resumed_at = time.time()
        assert fleet.call("POST", "/queues/side/resume")["paused_since"] is None

    starts = fleet.started(*backlog, *aside, *beside)
    assert max(start["at"] for start in starts) > resumed_at
    ended = fleet.at_rest([*backlog, *aside, *beside])
    assert {run["status"] for run in ended.values()} == {"succeeded"}
