"""25 processes on a PostgreSQL as it is installed: 100 connections, three of them kept for its administrator."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.processes.fleet import Fleet, Member, children_of, only_in_the_long_version, until
from tests.processes.traffic import Traffic

from oncue.testing.postgres import PrivatePostgres

pytestmark = [pytest.mark.kills, pytest.mark.alone, only_in_the_long_version]

ROLES = {"api": 3, "scheduler": 2, "worker": 20}
STARTED = '"kind": "started"'
AT_A_TIME = 5  # are started together: each needs a core for a second
BURST, BESIDE = 4_000, 1_000
IDLE_AFTER = 12.0  # seconds: idle connections are closed after ten; with those of the start there is no room


@pytest.fixture
def usual_postgres(postgres_server: PrivatePostgres) -> Iterator[PrivatePostgres]:
    if not postgres_server.ours:
        pytest.skip("the settings of this server are not ours")
    with PrivatePostgres(fast=True, settings={"max_connections": 100}) as server:
        yield server


async def as_user(server: PrivatePostgres, name: str) -> str:
    """The URL of a database of a user who is no superuser: the last connections are not for such."""
    url = urlsplit(server.create_database(name))
    session = await asyncpg.connect(server.url)
    await session.execute(f"create role {name} login; alter database {name} owner to {name}")
    await session.close()
    return url._replace(netloc=f"{name}@{url.hostname}:{url.port}").geturl()


class Counts:
    """The connections of each process, as the kernel has them, and the most there were at any look."""

    def __init__(self, members: list[Member], port: int) -> None:
        self._members = members
        self._port = port
        self.most: dict[str, int] = {}  # of one process
        self.most_of_role: dict[str, int] = {}  # of all of this role together
        self.most_of_all = 0

    def look(self) -> dict[str, list[int]]:
        ours = sockets_to(self._port)
        found: dict[str, list[int]] = {}
        for member in self._members:
            found.setdefault(member.role, []).append(sum(len(ours & sockets_of(pid)) for pid in family(member)))
        for role, counts in found.items():
            self.most[role] = max(self.most.get(role, 0), *counts)
            self.most_of_role[role] = max(self.most_of_role.get(role, 0), sum(counts))
        self.most_of_all = max(self.most_of_all, sum(map(sum, found.values())))
        return found

    @contextmanager
    def watching(self) -> Iterator[None]:
        enough = Event()

        def watch() -> None:
            while not enough.wait(0.05):
                self.look()

        with ThreadPoolExecutor(1) as thread:
            watched = thread.submit(watch)
            try:
                yield
            finally:
                enough.set()
                watched.result()


def family(member: Member) -> list[int]:
    return [member.pid, *children_of(member.pid)]


def sockets_to(port: int) -> set[str]:
    """The inodes of established connections to this port of this machine."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    where = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}:{port:04X}"
    return {row[9] for row in rows if row[2] == where and row[3] == "01"}


def sockets_of(pid: int) -> set[str]:
    found = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        pass
    return found


def started(fleet: Fleet) -> list[Fleet]:
    """All of them, a few at a time; the fleets, one for each API."""
    fleets = [fleet, *(fleet.of(None) for _ in range(ROLES["api"] - 1))]
    roles = [("api", one) for one in fleets]
    roles += [(role, fleet) for role in ("scheduler", "worker") for _ in range(ROLES[role])]
    for first in range(0, len(roles), AT_A_TIME):
        together = [one.start(role) for role, one in roles[first : first + AT_A_TIME]]
        until(lambda some=together: all(STARTED in member.said for member in some), "they are ready", fleet.tell)
    fleet.ready(workers=ROLES["worker"])
    return fleets


async def test_25_processes_get_along_with_100_connections(usual_postgres: PrivatePostgres, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, await as_user(usual_postgres, "oncue"))
    try:
        fleets = started(fleet)
        counts = Counts(fleet.members, urlsplit(usual_postgres.url).port or 0)
        idle_from = time.monotonic() + IDLE_AFTER
        until(lambda: time.monotonic() > idle_from, "what was for starting is closed")
        idle = counts.look()
        traffic = Traffic(fleets, 150)
        with counts.watching(), traffic.going():
            made = fleet.batch([{"task": "slow", "payload": {"seconds": 0.1}}] * BURST)
            fleet.started(*made)
            traffic.goes_on(fleet, jobs=BESIDE)
        fleet.started(*traffic.made)
        print(f"idle {idle}, {sum(map(sum, idle.values()))} of all")
        print(f"most of one {counts.most}, of a role {counts.most_of_role}, of all {counts.most_of_all}")
        print(f"{traffic.slowest:.2f} s for the slowest create; repeated: {traffic.retried}")
        assert traffic.failed == []
        assert [member.process.poll() for member in fleet.members] == [None] * sum(ROLES.values())
        starts = Counter(event["run"] for event in fleet.events("start"))
        assert set(starts.values()) == {1}
        assert starts.keys() == {*made, *traffic.made}
    finally:
        fleet.close()
