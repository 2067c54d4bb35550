"""The lifespan of a set: entered once for all its tasks, before any of them runs, and left at the end."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncue import Context, Tasks
from oncue.domain.errors import OncueError
from oncue.executors.loading import load_tasks
from oncue.tasks import Task
from oncue.tasks.lifespan import lifespans
from oncue.testing.logs import capture_logs


class Told:
    """Two sets with a lifespan each; `seen` has what happened."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fails: set[str] = set()
        self.first, self.second = Tasks("first", lifespan=self.of_first), Tasks("second", lifespan=self.of_second)
        for tasks in (self.first, self.first, self.second):
            tasks.task(f"task{len(list(self.tasks()))}")(self.look)

    @asynccontextmanager
    async def of_first(self) -> AsyncIterator[str]:
        async with self.of("first") as state:
            yield state

    @asynccontextmanager
    async def of_second(self) -> AsyncIterator[str]:
        async with self.of("second") as state:
            yield state

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[str]:
        if name in self.fails:
            raise ConnectionRefusedError("no server there")
        self.seen.append(f"{name} begins")
        yield name
        self.seen.append(f"{name} ends")
        if f"{name} ends" in self.fails:
            raise ValueError("not now")

    def look(self, ctx: Context[str]) -> str:
        return ctx.state

    def tasks(self) -> Iterator[Task]:
        yield from self.first
        yield from self.second


async def test_each_set_has_its_own_once() -> None:
    told = Told()
    async with lifespans(told.tasks()):
        assert told.seen == ["first begins", "second begins"]
        assert [task.state for task in told.tasks()] == ["first", "first", "second"]

    assert told.seen[2:] == ["second ends", "first ends"]
    assert [task.state for task in told.tasks()] == [None, None, None]


async def test_a_call_finds_the_state_of_its_process() -> None:
    tasks = Tasks(lifespan=Told().of_first)
    look = tasks.task(lambda ctx: ctx.state)
    async with lifespans(tasks):
        assert look() == "first"

    assert look() is None


async def test_tasks_without_one_need_nothing() -> None:
    tasks = Tasks()
    tasks.task(lambda ctx: None)
    async with lifespans(tasks):
        assert [task.state for task in tasks] == [None]


async def test_one_that_raises_says_where_and_why_and_those_before_it_end() -> None:
    told = Told()
    told.fails.add("second")

    with pytest.raises(
        OncueError, match=r"test_lifespan.py:\d+: the lifespan of the tasks raised ConnectionRefused.*: no server"
    ):
        async with lifespans(told.tasks()):
            pytest.fail("nothing runs without it")
    assert told.seen == ["first begins", "first ends"]


async def test_one_that_raises_at_its_end_keeps_no_other_from_ending() -> None:
    told = Told()
    told.fails.add("second ends")
    with capture_logs() as logs:
        async with lifespans(told.tasks()):
            pass

    assert told.seen[2:] == ["second ends", "first ends"]
    assert [line["kind"] for line in logs] == ["lifespan_failed"]


def test_sets_that_are_loaded_together_keep_their_own(tmp_path: Path) -> None:
    (tmp_path / "with_lifespan.py").write_text(
        "from oncue import Tasks\ntasks = Tasks(lifespan=print)\ntasks.task('a')(lambda: 1)"
    )
    (tmp_path / "without_lifespan.py").write_text(
        "from oncue import Tasks\ntasks = Tasks()\ntasks.task('b')(lambda: 1)"
    )
    loaded = load_tasks([str(tmp_path / "with_lifespan.py"), str(tmp_path / "without_lifespan.py")])

    assert {task.name: task.shared.lifespan for task in loaded} == {"a": print, "b": None}
