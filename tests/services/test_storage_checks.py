"""What `oncue doctor` says of object storage, the archive and the spool: each diagnosis is provoked once."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from oncue.clock import SystemClock
from oncue.domain.diagnosis import State
from oncue.domain.errors import Invalid, StorageRefused
from oncue.domain.ids import UserNumber
from oncue.domain.instants import HOUR, Instant
from oncue.domain.reference import Reference
from oncue.services import doctor, storage_checks
from oncue.services.spool import Spooled
from oncue.services.storage_checks import diagnose_storage
from oncue.settings import Settings
from oncue.storage.objects import ObjectStorage


async def seen(folder: Path, **settings: Any) -> dict[str, tuple[State, str, str]]:
    found = await diagnose_storage(Settings(data_dir=str(folder), **settings), SystemClock())
    assert all(one.remedy or one.state is State.OK for one in found)
    return {one.check: (one.state, one.seen, one.remedy) for one in found}


async def test_a_folder_that_nobody_needed_yet_is_not_made(tmp_path: Path) -> None:
    assert await seen(tmp_path / "data") == {}
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("named", [True, False])
async def test_an_object_goes_in_and_out_and_nothing_stays(tmp_path: Path, named: bool) -> None:
    folder = tmp_path / "objects"
    (folder / "v1").mkdir(parents=True)
    found = await seen(tmp_path, **({"storage": folder.as_uri()} if named else {}))
    assert found["storage"][0] is State.OK
    assert [one.name for one in folder.rglob("*") if one.is_file()] == [".oncue"]


async def test_an_empty_folder_stays_empty(tmp_path: Path) -> None:
    """Catches a probe below a missing mount: workers would take the folder for the right one."""
    (folder := tmp_path / "objects").mkdir()
    state, seen_there, _ = (await seen(tmp_path, storage=folder.as_uri()))["storage"]
    assert (state, "check that it is mounted" in seen_there) == (State.OK, True)
    assert list(folder.iterdir()) == []


async def test_storage_that_is_away_or_does_not_let_us_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "objects").write_text("in the way")
    state, _, remedy = (await seen(tmp_path))["storage"]
    assert (state, remedy) == (State.PROBLEM, storage_checks.REACH_IT)

    async def refused(*_: object) -> None:
        raise StorageRefused("no")

    monkeypatch.setattr(ObjectStorage, "put", refused)
    state, _, remedy = (await seen(tmp_path))["storage"]
    assert (state, remedy) == (State.PROBLEM, storage_checks.LET_US_IN)


async def test_storage_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ObjectStorage, "put", never)
    monkeypatch.setattr(ObjectStorage, "size", never)
    monkeypatch.setattr(storage_checks, "TIME_LIMIT", 1_000)
    (tmp_path / "a" / "v1").mkdir(parents=True)
    found = await seen(tmp_path, storage=(tmp_path / "a").as_uri(), archive=(tmp_path / "b").as_uri())
    assert {check: state for check, (state, _, _) in found.items()} == {
        "storage": State.PROBLEM,
        "archive": State.PROBLEM,
    }


async def test_an_archive_answers_or_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert (await seen(tmp_path, archive=(tmp_path / "archive").as_uri()))["archive"][0] is State.OK
    state, _, remedy = (await seen(tmp_path, archive=(tmp_path / "file").as_uri()))["archive"]
    assert (state, remedy) == (State.PROBLEM, storage_checks.REACH_ARCHIVE)


async def test_results_that_wait_in_the_spool(tmp_path: Path) -> None:
    at = Instant(SystemClock().now() - HOUR)
    spooled = Spooled(uuid4(), 1, UserNumber(1), Reference.to("key", b"12345"), at)
    (folder := tmp_path / "spool").mkdir()
    (folder / "1-a").write_bytes(msgspec.json.encode(spooled) + b"\n12345")
    (folder / "2-a.part").write_bytes(b"half")

    state, words, _ = (await seen(tmp_path))["spool"]

    assert state is State.WARNING
    assert f"1 results with 5 bytes wait in {folder}, the oldest for 3,60" in words


async def test_the_doctor_looks_at_it_also_without_a_database(tmp_path: Path) -> None:
    (tmp_path / "objects" / "v1").mkdir(parents=True)
    settings = Settings(engine=f"sqlite:///{tmp_path}/none.db", data_dir=str(tmp_path))
    states = {one.check: one.state for one in await doctor.diagnose(settings, SystemClock())}
    assert (states["database"], states["storage"]) == (State.PROBLEM, State.OK)


async def test_a_setting_that_is_no_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        await doctor.diagnose(
            Settings(engine=f"sqlite:///{tmp_path}/none.db", data_dir=str(tmp_path), storage="nowhere"), SystemClock()
        )
