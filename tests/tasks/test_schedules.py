"""Schedules declared in code: which jobs they are, which sets they belong to, their stamp, and errors with a line."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from oncue import Context, Tasks, at, cron, every
from oncue.domain.errors import Invalid
from oncue.executors.loading import load_tasks
from oncue.tasks.schedules import DeclaredSet

HERE = "tests/tasks/test_schedules.py"


def line_after(text: str) -> int:
    """The number of the line after the first that has this text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 2) if text in line)


def jobs(tasks: Tasks[Any]) -> dict[str, dict[str, Any]]:
    return {job["key"]: job for one in tasks.declared() for job in one.jobs}


def test_a_declared_schedule_is_a_job_with_the_tasks_name_as_its_key() -> None:
    tasks = Tasks("shop")

    @tasks.task(
        schedule=cron("0 9 * * 1-5", "Europe/Berlin"),
        overlap="skip",
        catch_up="last",
        payload={"to": "ops"},
    )
    async def digest(ctx: Context, to: str) -> None: ...

    @tasks.task("clean.up", schedule="every 1h", rate="10/1m")
    def clean(days: int = 3) -> None: ...

    found = jobs(tasks)
    assert found["digest"] == {
        "key": "digest",
        "task": "digest",
        "schedule": {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"},
        "overlap": "skip",
        "catch_up": "last",
        "payload": {"to": "ops"},
    }
    assert found["clean.up"] == {
        "key": "clean.up", "task": "clean.up", "schedule": "every 1h", "rate": {"limit": 10, "per": "1m"},
    }  # fmt: skip
    assert digest.defaults == {"overlap": "skip", "catch_up": "last"}, "of all jobs of the task: without the schedule"


def test_a_task_may_declare_more_than_one() -> None:
    tasks = Tasks("shop")

    @tasks.task(schedule=every("1h"), payload={"to": "ops"}, queue="mail")
    def digest(to: str) -> None: ...

    eu = digest.using(key="digest-eu", queue="eu", name="EU").declare("0 7 * * *", to="eu")
    digest.using(key="once").declare(at(datetime(2027, 1, 31, 9, tzinfo=UTC)), "once")

    found = jobs(tasks)
    assert list(found) == ["digest", "digest-eu", "once"]
    assert found["digest-eu"] == {
        "key": "digest-eu", "task": "digest", "schedule": "0 7 * * *", "queue": "eu", "name": "EU",
        "payload": {"to": "eu"},
    }  # fmt: skip
    assert found["once"]["payload"] == {"to": "once"}
    assert eu.options["key"] == "digest-eu", "eu.run_now() is for this job"


def test_a_named_set_holds_all_and_without_a_name_each_schedule_stands_alone() -> None:
    named, also_named, unnamed = Tasks("shop"), Tasks("shop"), Tasks()
    for tasks, names in ((named, "ab"), (also_named, "c"), (unnamed, "de")):
        for name in names:
            tasks.task(name, schedule=every("1h"))(lambda: None)
    both = Tasks()
    for tasks in (named, also_named, unnamed, Tasks("empty")):
        both.include(tasks)

    found = both.declared(build=7)
    assert [(one.name, one.named, [job["key"] for job in one.jobs], one.stamp) for one in found] == [
        ("shop", True, ["a", "b", "c"], 7),
        ("empty", True, [], 7),
        ("key:d", False, ["d"], 7),
        ("key:e", False, ["e"], 7),
    ]
    twice = Tasks()
    twice.task("a", schedule=every("1h"))(lambda: None)
    clash = Tasks()
    clash._schedules += [*named._schedules, *twice._schedules]
    with pytest.raises(Invalid, match=r"test_schedules.py:\d+: 'a' is also the key of the schedule at .*keys must"):
        clash.declared()


@pytest.mark.parametrize(("of_the_set", "of_the_task"), [(1_000, 2_000), (2_000, 1_000)])
def test_the_stamp_is_that_of_the_newest_file(tmp_path: Path, of_the_set: int, of_the_task: int) -> None:
    set_of, task_of = f"stamped_set_{of_the_set}", f"stamped_task_{of_the_set}"
    (tmp_path / f"{set_of}.py").write_text(f"import oncue\ntasks = oncue.Tasks('shop')\nimport {task_of}\n")
    task = f"@{set_of}.tasks.task(schedule='every 1h')\ndef one(): ...\n"
    (tmp_path / f"{task_of}.py").write_text(f"import {set_of}\n{task}")
    os.utime(tmp_path / f"{set_of}.py", (of_the_set, of_the_set))
    os.utime(tmp_path / f"{task_of}.py", (of_the_task, of_the_task))

    tasks = load_tasks([str(tmp_path / f"{set_of}.py")])

    def stamp() -> int | None:
        [one] = tasks.declared()
        return one.stamp

    assert stamp() == 2_000
    os.utime(tmp_path / f"{set_of}.py", (3_000, 3_000))
    assert stamp() == 2_000, "it was saved after it was loaded: the next process has that code"
    assert tasks.declared(build=5)[0].stamp == 5


WRONG = """
import oncue
tasks = oncue.Tasks("shop")
@tasks.task(schedule=oncue.cron("0 25 * * *", "Mars"))
def a(to: str) -> None: ...
a.declare("every 1h", to="x")
a.using(key="b").declare("every 5 minutes", to="x")
"""


class TestMistakes:
    def refused(self, options: dict[str, Any], function: Any) -> str:
        with pytest.raises(Invalid) as refused:
            Tasks().task(**options)(function)
        return str(refused.value)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"schedule": every("1h")}, "payload is missing a required argument: 'to'; pass it with payload=, or give"),
            ({"schedule": every("1h"), "payload": {"ot": "x"}}, "payload is missing a required argument: 'to'"),
            ({"schedule": every("1h"), "payload": {"to": "x", "cc": 1}}, "payload got an unexpected keyword"),
            ({"schedule": every("1h"), "payload": {"to": 7}}, "payload does not fit the signature of task 'late'"),
            ({"schedule": every("1h"), "payload": ["x"]}, "payload must be a dictionary"),
            ({"schedule": cron, "payload": {"to": "x"}}, "schedule must be cron(…), every(…), at(…) or text"),
            ({"payload": {"to": "x"}}, "payload is the payload of a declared schedule; add schedule="),
            ({"schedule": "61 * * * *", "payload": {"to": "x"}}, "schedule"),
            ({"schedule": 7, "payload": {"to": "x"}}, "schedule"),
            ({"schedule": "in 10m", "payload": {"to": "x"}}, "schedule would be another instant with each start"),
        ],
    )  # fmt: skip
    def test_a_wrong_schedule_is_an_error_where_it_is_declared(self, options: dict[str, Any], said: str) -> None:
        def late(ctx: Context, to: str) -> None: ...

        assert self.refused(options, late).startswith(f"{HERE}:{line_after('options: dict[str, Any], said: str)')}")
        assert f": task 'late': {said}" in self.refused(options, late)

    def test_all_that_is_wrong_with_code_is_told_when_it_is_loaded(self, tmp_path: Path) -> None:
        """Also by a second call, for which the module is loaded already."""
        first, second = tmp_path / "wrong_shop.py", tmp_path / "wrong_mail.py"
        first.write_text(WRONG)
        second.write_text("import oncue\ntasks = oncue.Tasks()\n@tasks.task(timeout='x', tries=3)\ndef b(): ...\n")
        sources = [str(first), str(second), "nowhere.py"]

        for _ in range(2):
            with pytest.raises(Invalid) as refused:
                load_tasks(sources)

            told = [problem.message for problem in refused.value.problems]
            assert [re.split("; | like ", message)[0].removeprefix(f"{tmp_path}/") for message in told] == [
                "wrong_shop.py:4: task 'a': payload is missing a required argument: 'to'",
                f"wrong_shop.py:6: task 'a': key 'a' is also the key of the schedule at {first}:4",
                "wrong_shop.py:7: task 'a': schedule.every '5 minutes' is not a duration",
                f"wrong_mail.py cannot be imported: {second}:3: task 'b': tries is not an option of tasks",
                told[4],
            ]
            assert "schedule.timezone 'Mars'" in told[0]
            assert "schedule.cron hour: 25 is not" in told[0]
            assert "timeout 'x' is not a duration" in told[3]
            assert "there is no file nowhere.py" in told[4]

    def test_a_second_schedule_needs_a_key(self) -> None:
        tasks = Tasks()

        @tasks.task(schedule=every("1h"))
        def twice(to: str = "") -> None: ...

        said = rf"^{HERE}:\d+: task 'twice': key 'twice' is also the key of the schedule at {HERE}:\d+; write using"
        with pytest.raises(Invalid, match=said):
            twice.declare(every("2h"), to="other")
        with pytest.raises(Invalid, match=rf"^{HERE}:\d+: task 'twice': payload got an unexpected"):
            twice.using(key="b").declare(every("2h"), cc="other")  # type: ignore[call-arg]
        with pytest.raises(Invalid, match="key is longer than 88 characters; shorten it, or name the set"):
            twice.using(key="b" * 93).declare(every("2h"))
        assert list(jobs(tasks)) == ["twice"], "what is refused is not declared"

    def test_the_name_of_a_set_fits_a_tag(self) -> None:
        for name in ("", "x" * 93, 7, "a\0b", "a\u202eb"):  # as the API would refuse it
            with pytest.raises(Invalid, match=rf"^{HERE}:\d+: Tasks: name "):
                Tasks(name)  # type: ignore[call-overload]
        assert Tasks("x" * 92).declared() == (DeclaredSet("x" * 92, True, Tasks("y").declared()[0].stamp, (), ()),)
