"""Where tasks are found, and what is said when they are not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue.domain.errors import Invalid
from oncue.executors.loading import absolute, load_tasks

ONE = """
from oncue import Tasks
tasks = Tasks()
@tasks.task("one")
def one(ctx): ...
"""
TWO = """
from oncue import Tasks
some, others, number = Tasks(), Tasks(), 5
again = some
@some.task("some")
def f(ctx): ...
@others.task("other")
def g(ctx): ...
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that is the current one; imports made in a test are forgotten after it."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(*sources: str) -> set[str]:
    return {task.name for task in load_tasks(sources)}


def refusal(*sources: str) -> tuple[str, str]:
    with pytest.raises(Invalid) as refused:
        load_tasks(sources)
    (problem,) = refused.value.problems
    assert problem.path == "tasks"
    return problem.code, problem.message


def test_a_syntax_error_is_named_with_its_file_line_and_text(folder: Path) -> None:
    (folder / "broken.py").write_text(ONE + "def x(:\n")

    code, message = refusal("broken.py")

    assert (code, "invalid syntax" in message) == ("import_failed", True)
    assert message.endswith(f"({folder / 'broken.py'}, line 6: def x(:)")


def test_no_source_has_no_tasks() -> None:
    assert names() == set()


def test_all_tasks_objects_of_a_file_each_once(folder: Path) -> None:
    (folder / "two_sets.py").write_text(TWO)

    assert names("two_sets.py") == {"some", "other"}
    assert names("./two_sets.py") == {"some", "other"}
    assert names(str(folder / "two_sets.py")) == {"some", "other"}


def test_only_the_named_one(folder: Path) -> None:
    (folder / "two_sets.py").write_text(TWO)

    assert names("two_sets.py:others") == {"other"}
    assert names("two_sets:some") == {"some"}


def test_one_object_named_by_two_sources_is_loaded_once(folder: Path) -> None:
    (folder / "one_task.py").write_text(ONE)

    assert names("one_task.py", "one_task:tasks") == {"one"}


def test_a_module_in_a_package_here(folder: Path) -> None:
    (folder / "some_package").mkdir()
    (folder / "some_package" / "jobs.py").write_text(ONE)

    assert names("some_package.jobs") == {"one"}


def test_a_file_elsewhere_finds_its_neighbours_and_is_known_by_its_name(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "neighbour_of_it.py").write_text("NAME = 'from the neighbour'")
    (folder / "deep" / "far_tasks.py").write_text(
        "from neighbour_of_it import NAME\nfrom oncue import Tasks\ntasks = Tasks()\n@tasks.task(NAME)\ndef f(ctx): ..."
    )

    assert names("deep/far_tasks.py") == {"from the neighbour"}
    assert sys.modules["far_tasks"].__file__ == str(folder / "deep" / "far_tasks.py")
    assert sys.path[-1] == str(folder / "deep")


def test_types_in_a_file_can_be_found_by_name(folder: Path) -> None:
    (folder / "typed_tasks.py").write_text(
        "from __future__ import annotations\nimport msgspec\nfrom oncue import Tasks\ntasks = Tasks()\n"
        "class Point(msgspec.Struct):\n    x: int\n@tasks.task('typed')\ndef f(ctx, at: Point): ..."
    )

    (task,) = load_tasks(["typed_tasks.py"])
    assert task.arguments(b'{"at":{"x":1}}')["at"].x == 1


def test_a_missing_file_and_a_missing_module_are_named() -> None:
    code, message = refusal("none.py")
    assert code == "no_such_file"
    assert "none.py" in message
    assert refusal("no_such_module_anywhere")[0] == "no_such_module"
    assert refusal("no_such_package_anywhere.module")[0] == "no_such_module"
    assert refusal("folder/none")[0] == "no_such_file"
    assert refusal("")[0] == "bad_source"


def test_a_module_that_misses_another_one_is_not_itself_missing(folder: Path) -> None:
    (folder / "needs_more.py").write_text("import no_such_module_anywhere")

    code, message = refusal("needs_more")
    assert code == "import_failed"
    assert "no_such_module_anywhere" in message


@pytest.mark.parametrize("source", ["broken_tasks.py", "broken_tasks"])
@pytest.mark.parametrize("code", ["raise RuntimeError('half written')", "def f(:", "import sys; sys.exit(3)"])
def test_what_fails_while_imported_is_told_chained_and_forgotten(folder: Path, source: str, code: str) -> None:
    (folder / "broken_tasks.py").write_text(f"\n{code}\n")
    with pytest.raises(Invalid, match=r"broken_tasks.* cannot be imported: \w+: ") as refused:
        load_tasks([source])

    assert refused.value.__cause__ is not None
    assert "broken_tasks" not in sys.modules
    (folder / "broken_tasks.py").write_text(ONE)
    assert names("broken_tasks.py") == {"one"}


def test_the_line_that_failed_is_told(folder: Path) -> None:
    (folder / "broken_tasks.py").write_text("\n\nraise RuntimeError('half written')\n")

    assert refusal("broken_tasks.py")[1].endswith("broken_tasks.py, line 3)")


def test_an_attribute_that_is_missing_or_something_else(folder: Path) -> None:
    (folder / "two_sets.py").write_text(TWO)

    assert refusal("two_sets.py:nothing")[0] == "bad_attribute"
    code, message = refusal("two_sets.py:number")
    assert code == "bad_attribute"
    assert "int" in message


def test_a_file_without_tasks_is_told_how_to_have_some(folder: Path) -> None:
    (folder / "empty_file.py").write_text("")
    code, message = refusal("empty_file.py")

    assert code == "no_tasks"
    assert "oncue.Tasks()" in message


def test_a_file_named_like_a_module_that_is_loaded_is_refused(folder: Path) -> None:
    (folder / "json.py").write_text(ONE)

    assert refusal("json.py")[0] == "name_taken"


def test_a_file_named_like_a_module_of_pythons_own_is_refused_loaded_or_not(folder: Path) -> None:
    (folder / "antigravity.py").write_text(ONE)

    assert refusal("antigravity.py")[0] == "name_taken"


@pytest.mark.parametrize("source", ["./tasks_beside_it.py", "tasks_beside_it"])
def test_files_beside_it_do_not_stand_for_what_is_pythons_own_or_installed(folder: Path, source: str) -> None:
    for name in ("wave", "colorsys", "pygments"):
        sys.modules.pop(name, None)
        (folder / f"{name}.py").write_text("raise RuntimeError('somebody else')")
    (folder / "tasks_beside_it.py").write_text(f"import wave, colorsys, pygments\n{ONE}")

    assert names(source) == {"one"}


def test_a_source_is_the_same_from_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "one_task.py").write_text(ONE)
    source = absolute("one_task.py:tasks")
    monkeypatch.chdir("/")

    assert names(source) == {"one"}
    assert absolute("shop.jobs:tasks") == "shop.jobs:tasks"


def test_two_tasks_of_one_name_are_refused(folder: Path) -> None:
    for name in ("first_file", "second_file"):
        (folder / f"{name}.py").write_text(ONE)

    with pytest.raises(Invalid, match="task 'one' is already defined at"):
        load_tasks(["first_file.py", "second_file.py"])
