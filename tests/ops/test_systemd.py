"""Under systemd: what roles report to it, and whether the units are valid and leave a process few rights."""

from __future__ import annotations

import re
import secrets
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.ops.programs import OPS, program, run
from tests.processes.fleet import ONCUE, Fleet

from oncue.domain.instants import SECOND, Duration
from oncue.executors.environment import without_ours
from oncue.process import systemd
from oncue.testing.clock import FakeClock

UNITS = sorted(file.name for file in (OPS / "systemd").glob("*.service"))


class Manager:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.bind("\0" + address[1:] if address.startswith("@") else address)

    def told(self) -> list[str]:
        """All it was told so far."""
        heard: list[str] = []
        self._line.setblocking(False)
        while True:
            try:
                heard.append(self._line.recv(100).decode())
            except BlockingIOError:
                return heard

    def next(self) -> str:
        self._line.settimeout(60)
        return self._line.recv(100).decode()

    def close(self) -> None:
        self._line.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = f"@oncue-{secrets.token_hex(8)}" if request.param == "abstract" else str(tmp_path / "notify")
    with closing(Manager(name)) as made:
        yield made


async def test_heartbeats_begin_when_the_role_is_ready(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    clock = FakeClock()

    systemd.ready(clock)
    assert manager.told() == ["READY=1", "WATCHDOG=1"]

    await clock.advance(Duration(30 * SECOND))
    assert manager.told() == ["WATCHDOG=1"] * 3

    systemd.stopping()
    assert manager.told() == ["STOPPING=1"]


def test_without_a_watchdog_there_are_no_heartbeats(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)

    systemd.ready(FakeClock())

    assert manager.told() == ["READY=1"]


@pytest.mark.parametrize("address", ["", "/nobody/is/there", "@nobody-is-there", "vsock:2:1"])
def test_without_systemd_nothing_happens(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)

    systemd.ready(FakeClock())
    systemd.stopping()


def test_tasks_do_not_speak_for_their_worker() -> None:
    assert without_ours({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2", "LANG": "C"}) == {
        "LANG": "C"
    }


@pytest.mark.ops
@pytest.mark.parametrize("role", ["up", "api", "scheduler", "worker"])
def test_a_role_reports_its_life(role: str, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    with closing(Manager(str(tmp_path / "notify"))) as manager:
        try:
            member = fleet.start(role, env={"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "600000"})
            assert [manager.next() for _ in range(4)] == ["READY=1", *["WATCHDOG=1"] * 3]

            member.send(signal.SIGTERM)
            assert next(said for said in iter(manager.next, "") if said != "WATCHDOG=1") == "STOPPING=1"
            assert member.ended() == 0
        finally:
            fleet.close()


@pytest.mark.ops
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("commands", [False, True], ids=["no commands", "commands"])
def test_units_are_valid_and_tight(unit: str, commands: bool, tmp_path: Path) -> None:
    program("systemd-analyze")
    shutil.copytree(OPS / "systemd", tmp_path, dirs_exist_ok=True)
    if not commands:
        shutil.rmtree(tmp_path / "oncue-worker.service.d")
    for file in [*tmp_path.glob("*.service"), *tmp_path.glob("*/*.conf")]:
        file.write_text(file.read_text().replace("/opt/oncue/bin/oncue", str(ONCUE)))

    assert [line for line in run("systemd-analyze", "verify", tmp_path / unit).splitlines() if "oncue" in line] == []

    report = run("systemd-analyze", "security", "--offline=true", "--no-pager", tmp_path / unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", report)
    assert found is not None
    assert float(found[1]) <= (3.5 if commands and unit == "oncue-worker.service" else 1.5), report
