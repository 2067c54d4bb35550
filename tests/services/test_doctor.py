"""What `oncue doctor` says of a cluster, a database and a machine: each diagnosis is provoked once."""

import os
import resource
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace
from tests.cli.test_hostile_words import EVIL, obeyed

from oncue.clock import SystemClock
from oncue.domain.diagnosis import Diagnosis, State
from oncue.domain.errors import Invalid, StoreUnavailable
from oncue.domain.ids import ClassId, WorkerId
from oncue.domain.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from oncue.domain.load import Load, show_load
from oncue.domain.placement import ClassKey, Offer, Resources, show_offer
from oncue.engines.open import open_engine, pending
from oncue.engines.port import ClassGauge, Gauges, Member, Turn, Worker
from oncue.engines.schema import Pending
from oncue.engines.sql import migrations
from oncue.engines.sqlite import migrate as sqlite_migrate
from oncue.engines.sqlite.engine import SqliteEngine
from oncue.engines.sqlite.store import connect
from oncue.services import machine_checks
from oncue.services.cluster_checks import diagnose_cluster
from oncue.services.doctor import clocks, diagnose, log_problems, schema, writable
from oncue.settings import Settings
from oncue.testing.clock import SOME_DAY

LEASE = Duration(15 * SECOND)
MEMBER = Member(uuid4(), "up", "0.2.0", 10, "here", SOME_DAY, SOME_DAY)
WORKER = Worker(WorkerId(uuid4()), "w", "here", LEASE, SOME_DAY, SOME_DAY, classes=(ClassId(1),))
WELL = Gauges(
    at=SOME_DAY,
    counts={("t", "dead"): 2, ("t", "requeued"): 1, ("t", "discarded"): 1},
    classes=(ClassGauge(ClassId(1), ClassKey("t"), open=3),),
    more_classes=False,
    paused={},
    next_plan=Instant(SOME_DAY + SECOND),
    held_since=None,
    orphans=0,
    members=(MEMBER,),
    workers=(WORKER,),
    oldest_transaction=None,
    history_from=None,
    findings={},
    turns={"self-audit": Turn(SOME_DAY, b"")},
)


def before(length: int) -> Instant:
    return Instant(SOME_DAY - length)


def due(length: int, class_id: int = 1, **key: Any) -> ClassGauge:
    return ClassGauge(ClassId(class_id), ClassKey("t", **key), open=3, due=2, more=True, oldest_due=before(length))


def busy(**load: Any) -> tuple[Worker, ...]:
    return (replace(WORKER, load=show_load(Load(**load))),)


def offering() -> tuple[Worker, ...]:
    offer = Offer(frozenset({"t"}), frozenset({"default"}), frozenset({"eu"}), Resources(4_000, 4_000, 10))
    return (replace(WORKER, info=show_offer(offer), classes=()),)


def wrong(found: list[Diagnosis]) -> list[Diagnosis]:
    return [one for one in found if one.state is not State.OK]


def test_a_cluster_that_is_well() -> None:
    found = diagnose_cluster(WELL)

    assert wrong(found) == []
    assert {one.check for one in found} == {
        "processes", "scheduler", "workers", "late runs", "dead letters", "findings"
    }  # fmt: skip
    assert not any(one.remedy for one in found)


@pytest.mark.parametrize(
    ("change", "check", "state", "seen"),
    [
        ({"members": (MEMBER, replace(MEMBER, role="api", version="0.1.0"))}, "processes", "warning",
         "1 api of version 0.1.0, 1 up of version 0.2.0"),
        ({"members": (MEMBER, replace(MEMBER, role="api", beat_at=before(31 * SECOND)))}, "heartbeats", "warning",
         "api on here (31 s)"),
        ({"members": (replace(MEMBER, role="api"),)}, "scheduler", "problem", "no scheduler runs"),
        ({"next_plan": before(6 * SECOND)}, "scheduler", "problem", "planning is 6 s late"),
        ({"turns": {"self-audit": Turn(before(61 * SECOND), b"")}}, "self-audit", "problem", "no step for 61 s"),
        ({"workers": ()}, "workers", "problem", "no live worker"),
        ({"workers": (replace(WORKER, beat_at=before(16 * SECOND)),)}, "workers", "problem", "no live worker"),
        ({"workers": (replace(WORKER, draining=True),)}, "workers", "problem", "every live worker is draining: no run"),
        ({"workers": busy(slots={"thread": 2, "loop": 9}, used={"thread": 2})}, "workers", "warning",
         "1 of 1 have no capacity left: w (all 2 thread slots used)"),
        ({"workers": busy(slots={"thread": 2}, busy=0.95)}, "workers", "warning", "w (event loop 95% busy)"),
        ({"classes": (ClassGauge(ClassId(2), ClassKey("other"), open=1),)}, "tasks", "problem", "the task: other"),
        ({"workers": offering(), "classes": (ClassGauge(ClassId(2), ClassKey("t", "slow"), open=1),)}, "placement",
         "problem", "no live worker can take: t (queue slow)"),
        ({"workers": offering(), "classes": (ClassGauge(ClassId(2), ClassKey("t", labels=("gpu", "eu")), open=1),)},
         "placement", "problem", "t (labels eu, gpu)"),
        ({"workers": offering(), "classes": (ClassGauge(ClassId(2), ClassKey("t", size=Resources(9_000)), open=1),)},
         "placement", "problem", "t (too large)"),
        ({"classes": (due(SECOND),), "paused": {"default": SOME_DAY}}, "paused queues", "warning", "default (2+)"),
        ({"classes": (due(61 * SECOND), due(90 * SECOND))}, "late runs", "problem",
         "queue default: 4+ due, the oldest for 90 s"),
        ({"counts": {("t", "dead"): 3, ("t", "requeued"): 1, ("u", "dead"): 1}}, "dead letters", "warning",
         "2 of t, 1 of u"),
        ({"findings": {"lane": 2, "sums": 1}}, "findings", "problem", "2 of lane, 1 of sums"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_cluster_is_said_once(change: dict[str, Any], check: str, state: str, seen: str) -> None:
    [found] = wrong(diagnose_cluster(replace(WELL, **change)))

    assert (found.check, found.state.value) == (check, state)
    assert seen in found.seen
    assert found.remedy


@pytest.mark.parametrize(
    "change",
    [
        {"members": (replace(MEMBER, beat_at=before(29 * SECOND)),)},
        {"next_plan": before(4 * SECOND)},
        {"turns": {}},
        {"turns": {"self-audit": Turn(before(59 * SECOND), b""), "other": Turn(before(HOUR), b"")}},
        {"workers": busy(slots={"thread": 2, "process": 0}, used={"thread": 1}, busy=0.5)},
        {"classes": (due(59 * SECOND),)},
        {"paused": {"default": SOME_DAY}},
        {"workers": (*offering(), WORKER), "classes": (due(SECOND, queue="slow"), due(SECOND, 2, labels=("eu",)))},
    ],
)
def test_what_is_normal_is_not_reported(change: dict[str, Any]) -> None:
    assert wrong(diagnose_cluster(replace(WELL, **change))) == []


def test_names_of_users_command_no_terminal_and_no_shell() -> None:
    evil = ClassGauge(ClassId(2), ClassKey(EVIL, f"$(reboot) {EVIL}"), 1, 1, False, before(HOUR))
    gauges = replace(
        WELL,
        classes=(evil,),
        counts={(EVIL, "dead"): 1},
        members=(MEMBER, replace(MEMBER, host=EVIL, role=EVIL, version=EVIL, beat_at=before(HOUR))),
        workers=(replace(busy(slots={"loop": 1}, used={"loop": 1})[0], name=EVIL),),
    )
    found = wrong(diagnose_cluster(gauges))

    assert {one.check for one in found} == {"heartbeats", "workers", "tasks", "late runs", "dead letters"}
    for one in found:
        assert obeyed(one.seen + one.remedy) == set()
        assert "\n" not in one.seen + one.remedy
    [late] = [one for one in found if one.check == "late runs"]
    assert "--queue '$(reboot) a" in late.remedy


def test_many_names_are_cut_short() -> None:
    classes = tuple(ClassGauge(ClassId(n), ClassKey(f"t{n}"), open=1) for n in range(2, 10))
    [found] = wrong(diagnose_cluster(replace(WELL, classes=classes)))

    assert found.seen.endswith(": t2, t3, t4, t5, t6 and 3 more")


# ------------------------------------------------------------------------------------------- the database and its clock


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (schema(Pending(0, 0, (1, 3), ())), "problem"),
        (schema(Pending(8, 1, (10,), ())), "problem"),
        (schema(Pending(10, 1, (), (11,))), "ok"),
        (writable(Duration(249 * MILLISECOND)), "ok"),
        (writable(Duration(250 * MILLISECOND)), "warning"),
        (clocks(Duration(SECOND), Duration(0)), "ok"),
        (clocks(Duration(1001 * MILLISECOND), Duration(0)), "warning"),
        (clocks(Duration(-1001 * MILLISECOND), Duration(0)), "warning"),
        (clocks(Duration(3 * SECOND), Duration(4 * SECOND)), "ok"),  # the answer took too long to know
    ],
)
def test_of_a_database(found: Diagnosis, state: str) -> None:
    assert found.state.value == state
    assert bool(found.remedy) is (state != "ok")


class Set(SystemClock):
    """The clock of a machine that is two seconds ahead."""

    def now(self) -> Instant:
        return Instant(super().now() + 2 * SECOND)


@pytest.fixture
def settings(sqlite_template: Path, tmp_path: Path) -> Settings:
    path = tmp_path / "oncue.db"
    shutil.copy(sqlite_template, path)
    path.chmod(0o600)
    return Settings(engine=f"sqlite:///{path}", data_dir=str(tmp_path))


async def test_a_real_store_and_a_clock_that_is_wrong(settings: Settings) -> None:
    found = {one.check: one for one in await diagnose(settings, Set())}

    assert {check for check, one in found.items() if one.state is not State.OK} == {"clock", "scheduler", "workers"}
    assert found["database"].seen.startswith("a write took ")
    assert "2.000 s ahead of" in found["clock"].seen
    assert {"schema", "file", "file system", "late runs", "data directory", "limits"} <= found.keys()


async def test_a_schema_that_is_old_is_left_alone(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    more = [*migrations("oncue.engines.sqlite"), (99, "create table more (a int);")]
    monkeypatch.setattr(sqlite_migrate, "migrations", lambda _: more)

    found = await diagnose(settings, SystemClock())

    assert [(one.check, one.state.value) for one in wrong(found)] == [("schema", "problem")]
    assert "missing migrations: 99" in found[0].seen
    assert "`oncue migrate`" in found[0].remedy
    assert (await pending(settings)).expand == (99,)


async def test_a_store_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    settings = Settings(engine=f"sqlite:///{folder / 'x.db'}?key=geheim", data_dir=str(folder))

    [found, *others] = await diagnose(settings, SystemClock())

    assert (found.check, found.state) == ("database", State.PROBLEM)
    assert "there is no database at" in found.seen
    assert "geheim" not in found.seen
    assert wrong(others) == []
    assert not folder.exists()


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database" * 100)

    [found] = wrong(await diagnose(Settings(engine=f"sqlite:///{tmp_path / 'x.db'}"), SystemClock()))

    assert (found.check, found.state) == ("database", State.PROBLEM)
    assert "is not a SQLite database" in found.seen
    assert "retry" not in found.seen
    assert "server" not in found.remedy


async def test_a_schema_that_is_damaged_leaves_the_other_checks(settings: Settings) -> None:
    db = connect(Path(settings.engine.removeprefix("sqlite:///")), 100)
    db.execute("drop table workers")
    db.close()

    found = await diagnose(settings, SystemClock())

    [damage] = wrong(found)
    assert (damage.check, damage.seen) == ("cluster", "this check failed: no such table: workers")
    assert {"database", "clock", "file", "data directory", "limits"} <= {one.check for one in found}


def test_a_schema_that_is_newer_than_this_program() -> None:
    assert schema(Pending(12, 1, (), (), newest=10)).seen.endswith("; this program knows versions up to 10")


async def test_a_server_that_is_away() -> None:
    [found] = wrong(await diagnose(Settings(engine="postgresql://me:secret@127.0.0.1:1/none"), SystemClock()))

    assert (found.check, found.state) == ("database", State.PROBLEM)
    assert "127.0.0.1:1 is unavailable" in found.seen
    assert "secret" not in found.seen


async def test_an_engine_that_does_not_exist_is_a_wrong_setting() -> None:
    with pytest.raises(Invalid, match="is not a supported engine"):
        await diagnose(Settings(engine="mysql://x"), SystemClock())


async def test_an_outage_half_way_leaves_what_was_seen(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(self: SqliteEngine) -> list[Diagnosis]:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(SqliteEngine, "diagnose", away)
    found = await diagnose(settings, SystemClock())

    assert [one.check for one in found[:4]] == ["schema", "database", "clock", "database"]
    assert found[3].seen == "gone"


async def test_a_start_logs_what_is_wrong_and_nothing_else(
    settings: Settings, logged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chmod(settings.engine.removeprefix("sqlite:///"), 0o644)  # noqa: PTH101
    engine = await open_engine(settings)
    try:
        await log_problems(engine, settings, SystemClock())
        assert [(line["log_level"], line["kind"], line["check"]) for line in logged] == [("warning", "doctor", "file")]
        assert "mode 644" in logged[0]["seen"]
        assert "chmod 600" in logged[0]["remedy"]

        async def away() -> list[Diagnosis]:
            raise StoreUnavailable("gone")

        monkeypatch.setattr(engine, "diagnose", away)
        await log_problems(engine, settings, SystemClock())
        assert len(logged) == 1
    finally:
        await engine.close()


# --------------------------------------------------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("folder", "key", "state"),
    [
        (0o755, 0o600, State.OK),
        (0o700, None, State.OK),
        (0o700, 0o640, State.PROBLEM),
        (0o775, 0o600, State.WARNING),
        (0o777, 0o604, State.PROBLEM),
    ],
)
def test_permissions_of_local_files(tmp_path: Path, folder: int, key: int | None, state: State) -> None:
    if key is not None:
        (tmp_path / "admin.key").touch()
        (tmp_path / "admin.key").chmod(key)
    tmp_path.chmod(folder)

    [found] = machine_checks.files(tmp_path)

    assert found.state is state
    assert ("chmod" in found.remedy) is (state is not State.OK)


def test_a_machine_without_local_files(tmp_path: Path) -> None:
    assert list(machine_checks.files(tmp_path / "none")) == []


def test_limits() -> None:
    states = [machine_checks.limits(n).state for n in (resource.RLIM_INFINITY, 4_096, 4_095)]

    assert states == [State.OK, State.OK, State.WARNING]


def test_memory() -> None:
    assert [machine_checks.memory(n).state for n in (256, 255)] == [State.OK, State.WARNING]


def test_a_shell_as_process_1() -> None:
    assert [one.state for one in machine_checks.first_process("bash")] == [State.WARNING]
    assert list(machine_checks.first_process("systemd")) == []
    assert list(machine_checks.first_process("oncue")) == []
