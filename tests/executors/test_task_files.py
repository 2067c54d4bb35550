"""Which files are watched for changes, and which changes are noticed."""

import os
import sys
from pathlib import Path

import pytest

from oncue.executors.task_files import TaskFiles


def write(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_file_is_watched_with_python_files_beside_and_below_it(tmp_path: Path) -> None:
    tasks, beside = write(tmp_path / "tasks.py", "1"), write(tmp_path / "beside.py")
    below = write(tmp_path / "shop" / "prices.py")
    files = TaskFiles([f"{tasks}:tasks"])
    assert (len(files), files.changed()) == (3, set())

    os.utime(tasks, ns=(1, 1))  # the same size
    beside.unlink()
    new = write(tmp_path / "shop" / "new.py")

    assert files.changed() == {tasks, beside, new}
    assert files.changed() == set()
    assert below not in files.changed()


def test_other_files_and_folders_that_hold_no_code_of_the_user_are_not(tmp_path: Path) -> None:
    tasks = write(tmp_path / "tasks.py")
    files = TaskFiles([str(tasks)])
    for name in ("notes.txt", ".oncue/x.py", "__pycache__/tasks.py", "node_modules/x.py", "data/deep/x.py"):
        write(tmp_path / name)
    for name in ("pyvenv.cfg", "x.py"):
        write(tmp_path / "env" / name)

    assert files.changed() == set()


def test_a_module_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("__init__.py", "billing/__init__.py", "billing/jobs.py", "web.py"):
        write(tmp_path / "shop_of_test" / name, "raise SystemExit")
    files = TaskFiles(["shop_of_test.billing.jobs:tasks", "no_such_module.at_all"])

    assert files.folders == [tmp_path / "shop_of_test"]
    assert len(files) == 4
    assert "shop_of_test" not in sys.modules


def test_a_folder_that_is_deleted_is_a_change_and_no_error(tmp_path: Path) -> None:
    tasks = write(tmp_path / "shop" / "tasks.py")
    files = TaskFiles([str(tasks)])
    tasks.unlink()
    tasks.parent.rmdir()

    assert files.changed() == {tasks}
