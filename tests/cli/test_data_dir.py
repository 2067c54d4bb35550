"""The data directory: git leaves out one that is made; one that cannot be made is refused with a line."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncue.cli.main import main


@pytest.mark.parametrize("role", ["up", "api", "scheduler", "migrate"])
def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path, role: str) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")

    answer = CliRunner().invoke(main, [role, "--data-dir", str(file)])

    assert answer.exit_code == 1
    assert isinstance(answer.exception, SystemExit)
    assert "--data-dir" in answer.output
    assert "cannot create the folder" in answer.output


@pytest.mark.parametrize("was_there", [False, True])
def test_git_leaves_out_a_data_directory_that_was_made(tmp_path: Path, was_there: bool) -> None:
    folder = tmp_path / "project" / "data"
    folder.mkdir(parents=True) if was_there else folder.parent.mkdir()
    (folder.parent / "tasks.py").touch()

    assert CliRunner().invoke(main, ["migrate", "--data-dir", str(folder)]).exit_code == 0

    subprocess.run(["git", "init", "-q"], cwd=folder.parent, check=True)
    subprocess.run(["git", "add", "."], cwd=folder.parent, check=True)
    staged = subprocess.run(["git", "ls-files"], cwd=folder.parent, check=True, capture_output=True, text=True).stdout
    assert "tasks.py" in staged
    assert ("oncue.db" in staged) is was_there
    assert (folder / ".gitignore").exists() is not was_there
