"""What a seed stands for: which jobs clients create and what they do to them, and what goes wrong when.

Nothing here looks at a clock or at oncue, so the same seed gives the same plan on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

CLIENTS = 6
TARGETS = 2  # receivers of notices, by their paths
BACKOFF = 0.3  # seconds between a failure and the next attempt
SPLAY = 0.25  # after a whole second: where schedules of intervals begin
TASKS = ("work", "work_in_thread", "work_apart")

PLACES = {
    "postgres": ("api-0", "api-1", "scheduler-0", "scheduler-1", "worker-0", "worker-1"),
    "sqlite": ("up-0", "up-1", "worker-0"),
}
OF_PROCESSES = ("kill", "kill", "kill inner", "term", "suspend", "stop keeper")
OF_NETWORK = ("cut", "half open", "delay", "mute", "stall", "resets")


@dataclass(frozen=True)
class Fault:
    at: float
    kind: str
    place: str
    seconds: float  # how long it lasts, or until what was ended is started again
    shift: float = 0.0  # of a jump: where the wall clock is then

    def __str__(self) -> str:
        how = f"to {self.shift:+.3f} s" if self.kind == "jump" else f"{self.seconds:.2f} s"
        return f"{self.at:6.2f} s  {self.place:<12} {self.kind}, {how}"


@dataclass(frozen=True)
class Wish:
    """A job as a client wants it. Its number is its place in the plan."""

    kind: str
    task: str
    payload: Json
    fields: Json = field(default_factory=dict)
    delay: float | None = None  # of a one-shot, counted from the act that creates it; None: now
    after: float | None = None  # of a one-shot, counted by the API from when it reads the request
    schedule: Json | None = None  # recurring
    notify: tuple[str, int] | None = None  # event and receiver

    @property
    def lane(self) -> tuple[str, int] | None:
        """What excludes its runs from others, and how many may run at a time."""
        if "group" in self.fields:
            return f"group {self.fields['group']}", 1
        if "concurrency" in self.fields:
            return f"concurrency {self.fields['concurrency']['key']}", self.fields["concurrency"]["limit"]
        return None

    @property
    def dies(self) -> bool:
        return self.payload.get("fails", 0) > self.fields.get("max_retries", 3)


@dataclass(frozen=True)
class Act:
    at: float
    client: int
    verb: str  # create, cancel, cancel run, pause, resume, run now, edit
    wish: int
    values: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:6.2f} s  client {self.client} {self.verb} of job {self.wish} {self.values or ''}".rstrip()


@dataclass(frozen=True)
class Plan:
    seed: int
    engine: str
    seconds: float
    wishes: tuple[Wish, ...]
    acts: tuple[Act, ...]
    faults: tuple[Fault, ...]
    keeps_little: bool  # history is archived and dropped while the story goes on

    def __str__(self) -> str:
        kept = ", history of 20 s" if self.keeps_little else ""
        return f"{len(self.wishes)} jobs, {len(self.acts)} acts, {len(self.faults)} faults{kept}"


def make_plan(seed: int, engine: str, seconds: float, *, calm: bool = False) -> Plan:
    """`calm`: nothing goes wrong."""
    chance = random.Random(f"{engine} {seed}")
    recurring = [*_recurring(chance)]
    wishes = [*recurring, *_one_shots(chance, seconds)]
    acts = [*_acts(chance, wishes, len(recurring), seconds)]
    faults = () if calm else tuple(_faults(chance, engine, seconds))
    acts.sort(key=lambda act: act.at)
    return Plan(seed, engine, seconds, tuple(wishes), tuple(acts), faults, chance.random() < 0.6)


# ------------------------------------------------------------------------------------------------------------ the jobs


def _recurring(chance: random.Random) -> Iterator[Wish]:
    all_of_them = {"overlap": "allow", "catch_up": "all"}
    second, tick = {"every": "1s"}, {"cron": "* * * * * *"}
    yield Wish("allow", "work", {}, all_of_them, schedule=second)
    yield Wish("allow", "work", {"seconds": 0.4}, all_of_them, schedule=tick)
    yield Wish("allow", "work", {}, {"overlap": "allow", "catch_up": "skip"}, schedule=tick)
    yield Wish("queue", "work", {"seconds": 0.6}, schedule=second)
    yield Wish("queue", chance.choice(TASKS), {"seconds": 1.4}, {"catch_up": "all"}, schedule=tick)
    yield Wish("skip", "work", {"seconds": 1.5}, {"overlap": "skip"}, schedule=second)
    for task in TASKS[: 2 if chance.random() < 0.7 else 3]:
        yield Wish("replace", task, {"seconds": 2.6, "tidy": 0.2}, {"overlap": "replace"}, schedule={"every": "2s"})
    again = {"max_retries": 2, "retry": {"backoff": f"{BACKOFF}s", "factor": 1, "jitter": 0}}
    yield Wish("again", "work", {"seconds": 0.1, "fails": 1}, again, schedule={"every": "2s"})
    dies = {"max_retries": 0, "overlap": "allow", "catch_up": "all"}
    yield Wish("dies", "work", {"fails": 99}, dies, schedule={"every": "3s"}, notify=("dead", 0))


def _one_shots(chance: random.Random, seconds: float) -> Iterator[Wish]:
    for _ in range(int(seconds * 6)):
        yield _one_shot(chance)


def _one_shot(chance: random.Random) -> Wish:
    task = chance.choices(TASKS, (6, 3, 1))[0]
    soon = chance.choice([None, chance.uniform(0.2, 4)])
    some = {"seconds": round(chance.uniform(0.1, 0.8), 2)}
    retry = {"backoff": f"{BACKOFF}s", "factor": 1, "jitter": 0}
    match chance.randrange(12):
        case 0:
            return Wish("slow", task, {"seconds": round(chance.uniform(1, 3), 2)}, delay=soon)
        case 1:
            fields = {"max_retries": 3, "retry": retry}
            return Wish("again", task, {"fails": chance.randint(1, 3), "seconds": 0.1}, fields, delay=soon)
        case 2:
            fields = {"max_retries": 1, "retry": retry}
            told = ("dead", chance.randrange(TARGETS))
            return Wish("dies", "work", {"fails": 99}, fields, delay=soon, notify=told)
        case 3 | 4:
            group = {"group": f"group-{chance.randrange(2)}", "max_retries": 2, "retry": retry}
            return Wish("group", task, {**some, "fails": int(chance.random() < 0.2)}, group, delay=soon)
        case 5 | 6:
            number = chance.randrange(2)
            limited = {"concurrency": {"key": f"key-{number}", "limit": 1 + number}}
            return Wish("concurrency", task, some, limited, delay=soon)
        case 7:
            fields = {"timeout": "700ms", "max_retries": 1, "retry": retry}
            return Wish("times out", task, {"seconds": 4, "tidy": 0.3}, fields, delay=soon)
        case 8:
            return Wish("expires", "work", some, {"start_within": "1s"}, delay=soon)
        case _:
            return Wish("quick", "work", {}, delay=soon)


# ------------------------------------------------------------------------------------------------ what is done to them


def _acts(chance: random.Random, wishes: Sequence[Wish], recurring: int, seconds: float) -> Iterator[Act]:
    """Recurring jobs are there from the beginning; each one-shot is created at some time."""
    for number in range(recurring, len(wishes)):
        at, client = chance.uniform(0, seconds), chance.randrange(CLIENTS)
        yield Act(round(at, 3), client, "create", number)
        if chance.random() < 0.2:
            verb = chance.choice(("cancel", "cancel", "cancel run"))
            yield Act(round(at + chance.uniform(0, 2), 3), client, verb, number)
    for number in range(recurring):
        at = chance.uniform(0.1, 0.5) * seconds
        client = chance.randrange(CLIENTS)
        match chance.randrange(6):
            case 5:
                yield Act(at + 0.3 * seconds, client, "cancel", number)
            case 0:
                yield Act(at, client, "pause", number)
                missed = chance.choice(("skip", "last", "all"))
                yield Act(at + chance.uniform(1, 0.3 * seconds), client, "resume", number, {"missed": missed})
            case 1 | 2:
                yield Act(at, client, "run now", number)
            case 3:
                yield Act(at, client, "edit", number, {"name": f"edited at {at:.1f}"})
            case _:
                pass


# ----------------------------------------------------------------------------------------------------- what goes wrong


def _faults(chance: random.Random, engine: str, seconds: float) -> Iterator[Fault]:
    at = 1.0
    while (at := at + chance.uniform(0.5, 2.5)) < seconds:
        place = chance.choice(PLACES[engine])
        if engine == "postgres" and chance.random() < 0.06:
            yield Fault(round(at, 2), "crash", "database", 0.2)
        elif engine == "postgres" and chance.random() < 0.5:
            kind = chance.choice(OF_NETWORK)
            yield Fault(round(at, 2), kind, place, round(_length(chance, kind, seconds), 2))
        else:
            kind = chance.choice(OF_PROCESSES)
            yield Fault(round(at, 2), kind, place, round(_length(chance, kind, seconds), 2))


def _length(chance: random.Random, kind: str, seconds: float) -> float:
    match kind:
        case "kill" | "term":
            return chance.uniform(0.1, 2)
        case "kill inner" | "cut" | "half open":
            return 0.0
        case "suspend" | "stop keeper" | "stall" if chance.random() < 0.25:
            return min(chance.uniform(8, 15), seconds / 2)  # longer than a lease, and than a claim may be in doubt
        case _:
            return chance.uniform(1, 5)
