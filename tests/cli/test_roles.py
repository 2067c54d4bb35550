"""The commands that run a role: what their options become, and what is refused before anything starts."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from oncue.cli.main import COMMANDS, main
from oncue.cli.roles import settings_of
from oncue.domain.instants import DAY, SECOND


def test_without_an_engine_it_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    assert settings_of(engine=None, data_dir=str(tmp_path)).engine == f"sqlite:///{tmp_path}/oncue.db"


def test_lengths_of_time_are_read() -> None:
    given = settings_of(engine="sqlite:///x.db", data_dir=".", lease="3s", grace="1m", keep_history="30d")

    assert (given.lease, given.grace, given.keep_history) == (3 * SECOND, 60 * SECOND, 30 * DAY)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["worker", "--lease", "10ms"], "--lease: '10ms' must be between"),
        (["scheduler", "--keep-history", "soon"], "--keep-history: 'soon' is not a duration"),
        (["api", "--engine", "mysql://x"], "--engine: 'mysql' is no engine"),
        (["up", "--host", "256.0.0.1"], "--host: cannot listen on 256.0.0.1"),
        (["api", "--http-allow", "everything"], "--http-allow: "),
    ],
)
def test_bad_options_are_refused_by_name(arguments: list[str], said: str, tmp_path: Path) -> None:
    answer = CliRunner().invoke(main, [*arguments, "--data-dir", str(tmp_path)])

    assert answer.exit_code == 1
    assert said in answer.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_by_example(name: str) -> None:
    path = [name, "create"] if name == "keys" else [name]

    answer = CliRunner().invoke(main, [*path, "--help"])

    assert answer.exit_code == 0
    assert f"oncue {' '.join(path)}" in answer.output.partition("Examples:")[2]
