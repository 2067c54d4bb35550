"""A data directory that cannot be one is refused with a line."""

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
