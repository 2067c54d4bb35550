"""`oncue completion`: let a shell complete commands, options, names of jobs, tasks and queues, parameters of a task."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from oncue.cli.groups import Group
from oncue.cli.output import json_option
from oncue.cli.printing import print_json, say
from oncue.cli.refusing import refuse

EXAMPLES = """\b
Examples:
  oncue completion install
  oncue completion install zsh
  oncue completion show fish > ~/.config/fish/completions/oncue.fish
"""
SHELLS = ("bash", "zsh", "fish")
START_FILES: Final = {"bash": ".bashrc", "zsh": ".zshrc"}  # fish finds its scripts by itself
WITHOUT_SPACE: Final = {  # after `order:=` its value follows; fish leaves the space out by itself
    "bash": {
        "COMPREPLY+=($value)": "COMPREPLY+=($value)\n            [[ $value == *= ]] && compopt -o nospace",
    },
    "zsh": {
        "local -a response": "local -a response\n    local -a glue",
        'if [[ "$type" == "plain" ]]; then': 'if [[ "$type" == "plain" ]]; then\n'
        """            [[ "$key" == *= ]] && glue=(-S '')""",
        "completions_with_descriptions -U": 'completions_with_descriptions -U "${glue[@]}"',
        "compadd -U": 'compadd -U "${glue[@]}"',
    },
}
MARK = "# completion of oncue"

SHELL = click.argument("shell", type=click.Choice(SHELLS), required=False)
JSON = json_option("Print the outcome as JSON.")


@click.group("completion", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Complete commands and names in your shell."""


@command.command("install", epilog="\b\nExamples:\n  oncue completion install\n  oncue completion install zsh")
@SHELL
@JSON
def install(shell: str | None, as_json: bool) -> None:
    """Install completion for your shell.

    Writes the script to ~/.local/share/oncue, and a line into .bashrc or .zshrc that loads it; for fish, the script to
    ~/.config/fish/completions. Repeating it updates the script. SHELL defaults to that of the variable SHELL.
    """
    shell = shell or _own_shell()
    script = _place(shell)
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_source(shell))
        if shell in START_FILES:
            _load_from(Path.home() / START_FILES[shell], f". '{script}'  {MARK}\n")
    except OSError as no:
        refuse(
            f"Cannot write {no.filename}: {no.strerror}. Use `oncue completion show {shell}` instead.", as_json=as_json
        )
    if as_json:
        print_json({"shell": shell, "file": str(script)})
    else:
        say(f"Installed {script}. Open a new {shell} to use it.")


@command.command("show", epilog="\b\nExamples:\n  oncue completion show bash\n  oncue completion show zsh > oncue.zsh")
@SHELL
@JSON
def show(shell: str | None, as_json: bool) -> None:
    """Print the completion script of a shell."""
    shell = shell or _own_shell()
    if as_json:
        print_json({"shell": shell, "script": _source(shell)})
    else:
        say(_source(shell), nl=False)


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"SHELL is {name or 'not set'}. Name one of {', '.join(SHELLS)}.")
    return name


def _place(shell: str) -> Path:
    if shell == "fish":
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "fish/completions/oncue.fish"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / f"oncue/completion.{shell}"


def _load_from(start_file: Path, line: str) -> None:
    there = start_file.read_text() if start_file.exists() else ""
    kept = [old for old in there.splitlines(keepends=True) if MARK not in old]
    if kept and not kept[-1].endswith("\n"):
        kept[-1] += "\n"
    start_file.write_text("".join([*kept, line]))


def _source(shell: str) -> str:
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None, "click knows these shells"
    source = made(click.Group(), {}, "oncue", "_ONCUE_COMPLETE").source()
    for line, replacement in WITHOUT_SPACE.get(shell, {}).items():
        assert line in source, "what click writes"
        source = source.replace(line, replacement)
    return source
