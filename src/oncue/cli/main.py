"""The `oncue` command. Each subcommand's file is imported on first use, so that starting stays quick."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from oncue import __version__
from oncue.__main__ import INTERRUPTED

# Each is a file in this folder that holds a `command`, in the order of the help page.
COMMANDS = (
    "up",
    "jobs",
    "runs",
    "dead",
    "apply",
    "top",
    "problems",
    "stats",
    "preview",
    "keys",
    "api",
    "scheduler",
    "worker",
    "migrate",
    "storage",
    "archive",
    "doctor",
    "config",
    "bench",
)


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"oncue.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


EXAMPLES = """\b
Examples:
  oncue up --tasks tasks.py
  oncue jobs create --task hello --schedule "every 30s"
  oncue runs list --status dead
  oncue preview "0 9 * * 1-5" --timezone Europe/Berlin
  oncue COMMAND --help

\b
Exit codes:
  0  success
  1  refused or failed; standard error names the wrong field and a valid value
  2  the command line has an error
  3  no server answered
  130  interrupted by Ctrl-C

\b
Environment:
  ONCUE_URL      the server for client commands (default: http://127.0.0.1:8470)
  ONCUE_API_KEY  the API key (default: the admin key in the data directory of a server on this machine)
"""


@click.group(cls=Commands, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="oncue", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run jobs on schedule, at least once, and record every outcome."""
    if ctx.obj is None:
        from oncue.clock import SystemClock

        ctx.obj = SystemClock()
