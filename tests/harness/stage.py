"""The processes of a story: two of each role as users start them, what is done to them, and what was done to whom."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.harness.network import Network
from tests.harness.plan import OF_NETWORK, PLACES, Fault, Plan
from tests.harness.shifting import WallClocks
from tests.processes.fleet import Fleet, Member, alive, until

from oncue.testing.postgres import PrivatePostgres

TASKS = Path(__file__).with_name("tasks.py")
LEASE = 6.0
STORE_TIMEOUT = 4.0
KEPT = 20.0  # seconds of history, where a plan says so
FOR_ALL = (
    *("--store-timeout", f"{STORE_TIMEOUT:.0f}s", "--http-allow", "127.0.0.1/32"),
    *("--webhook-plain", "--notify-rate", "60"),
)
FOR_WORKERS = (
    *("--lease", f"{LEASE:.0f}s", "--shutdown-grace", "2s", "--tasks", str(TASKS)),
    *("--processes", "2", "--threads", "16"),
)
CANNOT_START, STARTED = 1, '"kind": "started"'
ENDS_WITHIN = 30.0  # after SIGTERM: the grace, what a store that is away costs, and a busy machine


class Suspended(NamedTuple):
    pids: frozenset[int]
    since: float
    until: float


@dataclass
class Place:
    """Where a process of a role runs, again and again."""

    name: str
    fleet: Fleet  # with this place's way to the database, and its port
    member: Member | None = None
    asked: bool = False  # to end, so its end is no surprise
    stopped: list[int] = field(default_factory=list)
    stopped_at: float = 0.0

    @property
    def role(self) -> str:
        return self.name.partition("-")[0]

    @property
    def alive(self) -> bool:
        return self.member is not None and self.member.process.poll() is None


class Stage:
    """Every process of one story, in a folder of its own."""

    def __init__(self, plan: Plan, fleet: Fleet, environment: Mapping[str, str]) -> None:
        self.plan = plan
        self.fleet = fleet
        self.epoch = time.time() - time.monotonic()
        self.places: dict[str, Place] = {}
        self.suspended: list[Suspended] = []
        self.wrong: list[str] = []  # with processes
        self.archive = fleet.folder / "archive"
        self._environment = {"HARNESS_EPOCH": repr(self.epoch), **environment}
        self._leaving: list[Place] = []
        self.network: Network | None = None
        self.database: PrivatePostgres | None = None
        self.clocks: WallClocks | None = None

    def now(self) -> float:
        """Wall-clock time that does not jump while the story goes on; that of the tasks."""
        return time.monotonic() + self.epoch

    def open(self) -> None:
        for name in PLACES[self.plan.engine]:
            fleet = copy(self.fleet)
            fleet.port = self.fleet.port + 1 + len(self.places)
            if self.network is not None:
                fleet.engine = self.network.line(name)
            self.places[name] = Place(name, fleet)
        first, *others = self.places.values()
        self._start(first)  # alone, so that one process makes the schema and the key
        first.fleet._key = until(lambda: self.fleet.key, "the first process has made a key", self.fleet.tell)
        for place in others:
            place.fleet._key = self.fleet._key
            self._start(place)
        self.ready()

    def ready(self) -> None:
        for place in self.doors:
            workers = sum(one.role in ("up", "worker") for one in self.places.values())
            place.fleet.ready(workers=workers)

    @property
    def doors(self) -> list[Place]:
        return [place for place in self.places.values() if place.role in ("up", "api")]

    def _start(self, place: Place) -> None:
        options = [*FOR_ALL]
        if place.role in ("up", "worker"):
            options += FOR_WORKERS
        if self.plan.keeps_little:
            options += ["--partition-span", "5s", "--retention", f"{KEPT:.0f}s"]
            options += ["--archive", self.archive.as_uri()] if place.role != "worker" else []
        clock = {} if self.clocks is None else self.clocks.environment(place.name)
        place.member = place.fleet.start(place.role, *options, tasks=TASKS, env={**self._environment, **clock})
        place.asked = False

    # ---------------------------------------------------------------------------------------------------------- faults

    def begin(self, fault: Fault) -> None:
        if fault.kind in OF_NETWORK:
            assert self.network is not None
            self.network.begin(fault.kind, fault.place)
            return
        if fault.kind == "crash":
            assert self.database is not None
            self.database.stop("immediate")
            return
        if fault.kind == "jump":
            assert self.clocks is not None
            self.clocks.set(fault.place, fault.shift)
            return
        place = self.places[fault.place]
        self._see(place)
        if place.alive and not place.stopped:
            _BEGIN[fault.kind](self, place)

    def end(self, fault: Fault) -> bool:
        """Whether it could be ended: what still ends by itself is waited for."""
        if fault.kind in OF_NETWORK:
            assert self.network is not None
            self.network.end(fault.kind, fault.place)
        elif fault.kind == "crash":
            assert self.database is not None
            self.database.start()
        elif fault.kind in ("suspend", "stop keeper"):
            self.wake(self.places[fault.place])
        elif fault.kind in ("kill", "term"):
            return self._again(self.places[fault.place])
        return True

    def heal(self) -> None:
        """All processes are there and can reach the database."""
        if self.network is not None:
            self.network.heal()
        for place in self.places.values():
            self.wake(place)
        for place in self._leaving:
            self._left(place)
        for place in self.places.values():
            if not self._again(place):
                self._left(place)
                self._start(place)
        self.ready()

    def _again(self, place: Place) -> bool:
        """Start it anew unless it is there. False: the one before still has its port."""
        self._see(place)
        if place.alive and not place.asked:
            return True
        if place.alive and place.role in ("up", "api"):
            return False
        if place.alive:
            self._leaving.append(copy(place))
        elif place.member is not None:
            self._left(place)
        self._start(place)
        return True

    def _left(self, place: Place) -> None:
        """A process that was told to end has ended, and well."""
        assert place.member is not None
        try:
            code = place.member.ended(ENDS_WITHIN)
        except AssertionError as late:
            self.wrong.append(f"{place.name} (pid {place.member.pid}) was told to end: {late}"[:3_000])
            place.member.kill()
            return
        if code not in (0, -signal.SIGTERM) or (code != 0 and STARTED in place.member.said):
            self.wrong.append(f"{place.name} (pid {place.member.pid}) was told to end, and ended with code {code}")

    def _see(self, place: Place) -> None:
        """Whoever has ended without being asked to is put down; but without its database none can begin."""
        if place.member is not None and not place.alive and not place.asked:
            code, said = place.member.process.poll(), place.member.said
            if code != CANNOT_START or STARTED in said:
                self.wrong.append(f"{place.name} ended by itself with code {code}:\n{said[-1_500:]}")
            place.member = None

    def kill(self, place: Place) -> None:
        assert place.member is not None
        place.asked = True
        place.member.kill()
        place.asked, place.member = False, None

    def kill_inner(self, place: Place) -> None:
        assert place.member is not None
        if (inner := place.member.inner) is not None:
            with suppress(ProcessLookupError):
                os.kill(inner, signal.SIGKILL)

    def term(self, place: Place) -> None:
        assert place.member is not None
        place.asked = True
        place.member.send(signal.SIGTERM)

    def suspend(self, place: Place) -> None:
        assert place.member is not None
        place.stopped_at = self.now()
        place.stopped = list(stop(place.member.pid))

    def stop_keeper(self, place: Place) -> None:
        """Of `oncue worker` and `oncue up`: the process in which tasks run goes on."""
        assert place.member is not None
        place.stopped_at = self.now()
        os.kill(place.member.pid, signal.SIGSTOP)
        place.stopped = [place.member.pid]

    def wake(self, place: Place) -> None:
        for pid in place.stopped:
            if alive(pid):
                os.kill(pid, signal.SIGCONT)
        if place.stopped:
            # A little longer: what has woken needs the time to see what time it is.
            self.suspended.append(Suspended(frozenset(place.stopped), place.stopped_at, self.now() + 3.0))
        place.stopped = []


_BEGIN = {
    "kill": Stage.kill,
    "kill inner": Stage.kill_inner,
    "term": Stage.term,
    "suspend": Stage.suspend,
    "stop keeper": Stage.stop_keeper,
}


def stop(pid: int) -> Iterator[int]:
    """A process and all that descends from it: none can start another one meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        yield pid
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                for child in children.read_text().split():
                    yield from stop(int(child))


@contextmanager
def staged(plan: Plan, folder: Path, environment: Mapping[str, str]) -> Iterator[Stage]:
    """All processes of the story, ready, and none of them left at the end."""
    with ExitStack() as ends:
        fleet = Fleet(folder)
        stage = Stage(plan, fleet, environment)
        if plan.engine == "postgres":
            stage.database = ends.enter_context(PrivatePostgres(fast=True))
            fleet.engine = stage.database.create_database("harness")
            stage.network = ends.enter_context(Network(fleet.engine, plan.seed))
        if any(fault.kind == "jump" for fault in plan.faults):
            stage.clocks = WallClocks(folder)
        ends.callback(fleet.close)
        stage.open()
        yield stage
