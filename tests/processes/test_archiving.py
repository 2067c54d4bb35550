"""The archive by real schedulers that are killed at any step of a piece, and a user who is forgotten meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.processes.fleet import LONG, Fleet, until
from tests.storage.old_history import SECRET, Old, fill, left_in_store

from oncue.cli.main import main
from oncue.domain.instants import HOUR
from oncue.engines.open import open_engine
from oncue.settings import Settings
from oncue.storage.compression import decompress

pytestmark = pytest.mark.kills

FAULTS = Path(__file__).parent.parent / "storage" / "faults"
# Puts: a large value and a file of each user, then the manifest. Positions: begun, written, read back, listed, marked.
OF_A_PIECE = [
    "before rows",
    "during put",
    "after put 2",
    "before position 2",
    "after position 2",
    "during get 7",
    "after put 5",
    "after position 4",
    "before mark",
    "after mark",
    "during drop 2",
]
OF_FORGETTING = ["after purge", "after erase", "after put", "before delete", "after position", "after finish"]
# Every step on SQLite; on PostgreSQL those at which its statements have a part.
ON_POSTGRES = ("after position 2", "before mark", "after mark", "during drop 2", "after erase", "after position")
# Each day; tests/services/test_archiving.py has every call, without processes.
DAILY = (
    *(("fleet", step) for step in ("during put", "after position 2", "after mark", "after erase")),
    *(("postgres_fleet", step) for step in ("before mark", "during drop 2", "after position")),
)


def steps_of(steps: list[str]) -> pytest.MarkDecorator:
    all_steps = [("fleet", step) for step in steps] + [("postgres_fleet", one) for one in steps if one in ON_POSTGRES]
    chosen = all_steps if LONG else [one for one in all_steps if one in DAILY]
    return pytest.mark.parametrize(("site", "step"), chosen, indirect=["site"])


class Site:
    """A fleet of schedulers with an archive in a folder, and old history in their database."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.archive = fleet.folder / "archive"
        self.settings = Settings(engine=fleet.engine, data_dir=str(fleet.folder))
        self.old: Old = asyncio.run(fill(self.settings))

    def scheduler(self, step: str = "") -> Any:
        quick = {"PYTHONPATH": str(FAULTS), "FAULT_QUICK": "1"}
        fault = {"FAULT_STEP": step, "FAULT_DIED": str(self.fleet.folder / "died")} if step else {}
        where = ("--archive", self.archive.as_uri(), "--retention", "1d")
        return self.fleet.start("scheduler", *where, env={**quick, **fault})

    def shown(self, *words: str) -> str:
        where = ["--engine", self.fleet.engine, "--archive", self.archive.as_uri()]
        done = CliRunner().invoke(main, ["archive", *words, *where])
        assert done.exit_code == 0, (words, done.output)
        return done.output

    def archived(self) -> list[str]:
        """The runs in the archive, as users get them."""
        return sorted(json.loads(line)["run_id"] for line in self.shown("export").splitlines())

    def in_store(self) -> list[str]:
        return asyncio.run(left_in_store(self.settings))

    def files(self) -> set[str]:
        return {str(path.relative_to(self.archive)) for path in (self.archive / "archive").rglob("*") if path.is_file()}

    def is_whole(self, *users: str) -> None:
        """The runs of these users are in it, each once; nothing else is; and every file is named by what is listed."""
        runs = sorted(run_id for user in users for run_id in self.old.runs[user])
        large = [one for user in users for one in self.old.large[user]]
        assert self.archived() == runs
        found = json.loads(self.shown("verify", "--json"))
        listed = json.loads(self.shown("list", "--json"))
        assert (found["rows"], found["large"], found["wrong"]) == (len(runs), len(large), [])
        assert sum(one["rows"] for one in listed) == len(runs)
        assert len({one["from_time"] for one in listed}) == len(listed), "no piece twice"
        assert len(self.files()) == found["files"] + found["large"] + len(listed), self.files()


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    return Site(request.getfixturevalue(request.param))


@steps_of(OF_A_PIECE)
def test_a_killed_scheduler_costs_no_row_and_archives_none_twice(site: Site, step: str) -> None:
    runs = site.old.all_runs
    assert site.scheduler(step).ended() == -9
    assert {*site.in_store(), *site.archived()} == {*runs}, "what was dropped is archived"

    site.scheduler()
    until(lambda: not site.in_store(), "all of it is archived and dropped", site.fleet.tell)
    site.is_whole("ada", "bob")


@steps_of(OF_FORGETTING)
def test_forgetting_goes_on_after_a_kill(site: Site, step: str) -> None:
    first = site.scheduler()
    until(lambda: not site.in_store(), "all of it is archived and dropped", site.fleet.tell)
    first.kill()
    asyncio.run(forget(site.settings))
    assert site.scheduler(step).ended() == -9

    site.scheduler()
    until(lambda: not asyncio.run(pending(site.settings)), "ada is forgotten", site.fleet.tell)
    site.is_whole("bob")
    assert [key for key in site.files() if tells(site.archive / key)] == []
    assert not list((site.fleet.folder / "objects").rglob("*/1/*/*"))


def tells(path: Path) -> bool:
    content = path.read_bytes()
    return SECRET in (decompress(content) if path.suffix == ".zst" else content)


async def forget(settings: Settings) -> None:
    """As an administrator asks for it. Ada also has a job with a large payload that has just ended."""
    await fill(settings, days=1, ago=HOUR)
    engine = await open_engine(settings)
    try:
        await engine.forgetting.begin("ada", await engine.now())
    finally:
        await engine.close()


async def pending(settings: Settings) -> bool:
    engine = await open_engine(settings)
    try:
        return bool(await engine.forgetting.pending())
    finally:
        await engine.close()
