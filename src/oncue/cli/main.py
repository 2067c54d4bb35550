"""The `oncue` command. Each subcommand's file is imported on first use, so that starting stays quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from oncue import __version__
from oncue.__main__ import INTERRUPTED
from oncue.cli.groups import Group
from oncue.cli.printing import say
from oncue.domain.meanings import option_meant

# Each is a file in this folder that holds a `command`, in the order of the help page.
SECTIONS = {
    "Run oncue": ("dev", "up", "api", "scheduler", "worker", "relay"),
    "Work": ("enqueue", "jobs", "runs", "dead", "bulk"),
    "Jobs as code": ("apply", "export", "import", "preview"),
    "Look": (
        "top",
        "events",
        "problems",
        "errors",
        "stats",
        "upcoming",
        "audit",
        "tasks",
        "queues",
        "workers",
        "doctor",
    ),
    "Administer": (
        "keys",
        "login",
        "context",
        "config",
        "migrate",
        "backup",
        "restore",
        "db",
        "outbox",
        "storage",
        "archive",
        "completion",
        "bench",
    ),
}
FILES = {"import": "importing"}  # where a file cannot have the name of its command
COMMANDS = tuple(name for names in SECTIONS.values() for name in names)


class _OneLine(click.UsageError):
    """An error of the command line, in one line that says what to type."""

    def __init__(self, wrong: click.UsageError) -> None:
        super().__init__(_message(wrong), wrong.ctx)

    def show(self, file: Any = None) -> None:
        said = self.message.rstrip()
        end = "" if said.endswith((".", "?", "!")) else "."
        where = "oncue" if self.ctx is None else self.ctx.command_path
        say(f"Error: {said}{end} See `{where} --help`.", err=True)


def _message(wrong: click.UsageError) -> str:
    plural = "" if wrong.ctx is None else f"{wrong.ctx.info_name}s"
    if plural in COMMANDS and "unexpected extra argument" in wrong.message:
        return f"{wrong.message.rstrip('.')}; did you mean `oncue {plural}`?"
    if not isinstance(wrong, click.NoSuchOption):
        return " ".join(wrong.format_message().split())  # click lists choices on lines of their own
    known = [] if wrong.ctx is None else [opt for one in wrong.ctx.command.get_params(wrong.ctx) for opt in one.opts]
    meant = option_meant(wrong.option_name, known)
    return f"No option {wrong.option_name!r}" + (f"; did you mean {meant}?" if meant else "")


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except (click.exceptions.NoArgsIsHelpError, _OneLine):
        raise
    except click.UsageError as wrong:
        raise _OneLine(wrong) from None


def _refuse_other_bytes(group: click.Group, ctx: click.Context, args: Sequence[str]) -> None:
    """Refuse what is not UTF-8, which could be neither sent nor printed, before anything happens."""
    found: click.Command | None = group
    for text in args:
        if isinstance(found, click.Group):
            found = found.get_command(ctx, text)
    params = () if found is None else found.params
    options = {opt for one in params if isinstance(one, click.Option) and not one.is_flag for opt in one.opts}
    for before, text in zip(("", *args), args, strict=False):
        try:
            text.encode()
        except UnicodeEncodeError:
            name, equals, value = text.partition("=") if text.startswith("--") else ("", "", text)
            where = name if equals else before if before in options else "an argument"
            shown = os.fsencode(value if equals else text).decode(errors="backslashreplace")
            message = f"{where} is not UTF-8: '{shown}'; convert the text, as with iconv, or rename the file"
            raise click.UsageError(message, ctx) from None


class Commands(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"oncue.cli.{FILES.get(cmd_name, cmd_name)}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by section; all sections have columns of the same width."""
        widest = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            found = {name: self.get_command(ctx, name) for name in names}
            rows = [(name.ljust(widest), one.get_short_help_str(70)) for name, one in found.items() if one is not None]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing:
            _refuse_other_bytes(self, ctx, args)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it without a word."""
        try:
            with _in_one_line():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except click.Abort:  # Ctrl-C where a command asks something
            say("", err=True)
            sys.exit(INTERRUPTED)


EXAMPLES = """\b
Examples:
  oncue up --tasks tasks.py
  oncue enqueue hello name=you --wait
  oncue jobs create --task hello --schedule "every 30s" --name greeting
  oncue jobs run greeting --wait
  oncue runs list --status dead --from "1h ago"
  oncue preview "0 9 * * 1-5" --timezone Europe/Berlin
  oncue COMMAND --help

\b
Exit codes:
  0  success
  1  refused or failed; standard error names the wrong field and a valid value
  2  the command line has an error
  3  no server answered
  4  the run did not end within --timeout; it continues
  130  interrupted by Ctrl-C

\b
Environment:
  ONCUE_URL      the server's address (default: that of the server in this folder,
                 else of the current context, else http://127.0.0.1:8470)
  ONCUE_API_KEY  the API key (default: that of the server in this folder)
  ONCUE_CONTEXT  a server of `oncue login`, by name
"""


@click.group("oncue", cls=Commands, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="oncue", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run jobs on schedule, at least once, and record every outcome."""
    if ctx.obj is None:
        from oncue.clock import SystemClock

        ctx.obj = SystemClock()
