"""docs/command-line.md and the example tell the truth."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.client.server import client_of
from tests.examples.server import EXAMPLES, ROOT, Up
from tests.test_docs import blocks, table

from oncue.cli.job_file import read_job_file
from oncue.cli.main import COMMANDS, main

PAGE = ROOT / "docs" / "command-line.md"
ONE = re.compile(r"oncue (?!COMMAND)(?!.*--config )")  # a command that needs no file to be checked
HEAVY = {"httpx2", "rich", "yaml", "starlette", "uvicorn", "apsw", "asyncpg", "jsonschema_rs"}


def epilogs(command: click.Command) -> list[str]:
    """The examples of a command and of those below it."""
    below = (
        [command.get_command(click.Context(command), name) for name in command.list_commands(click.Context(command))]
        if isinstance(command, click.Group)
        else []
    )
    return [command.epilog or "", *(found for one in below if one is not None for found in epilogs(one))]


def typed() -> list[str]:
    """Every command of the page and of the help; `-` would read standard input, and is left out."""
    shown = [*blocks(PAGE, "sh"), *(epilog.replace("\\\n", "") for epilog in epilogs(main))]
    lines = [line.partition("  #")[0] for block in shown for line in block.splitlines()]
    commands = [part.strip() for line in lines for part in re.split(r" \| | && | [<>] ", line)]
    return [f"{command} ".replace(" - ", " x ").strip() for command in commands if ONE.match(command)]


@pytest.mark.parametrize("line", sorted(set(typed())))
def test_what_the_page_shows_can_be_typed(line: str) -> None:
    command: click.Command = main
    words = shlex.split(line)[1:]
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found

    command.make_context("oncue", words)  # raises what the command would say


def test_the_page_lists_every_command() -> None:
    listed = {name: set(re.findall(r"`(\w+)`", f"`{words}`")) for name, words in table(PAGE, "command")}
    there_are = [(name, main.get_command(click.Context(main), name)) for name in COMMANDS]

    assert set(listed) == {f"oncue {name}" for name in COMMANDS}
    for name, command in there_are:
        if isinstance(command, click.Group):
            assert listed[f"oncue {name}"] == set(command.commands)


def test_the_files_that_are_shown_can_be_applied(oncue_up: Up, tmp_path: Path) -> None:
    [shown] = blocks(PAGE, "yaml")
    (tmp_path / "jobs.yaml").write_text(shown)

    for file in (tmp_path / "jobs.yaml", EXAMPLES / "jobs.yaml"):
        wanted = read_job_file(file)
        assert wanted.named
        with client_of(oncue_up) as client:
            tried = client.jobs.apply(wanted.set, wanted.jobs, prune=True, dry_run=True)
        assert {step.action for step in tried.steps} == {"create"}


def test_help_waits_for_nothing_that_it_does_not_need() -> None:
    script = (
        "import sys; from click.testing import CliRunner; from oncue.cli.main import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()

    assert "oncue" in loaded
    assert set(loaded) & HEAVY == set()
