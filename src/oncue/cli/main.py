"""The `oncue` command. A command's file is imported when it is asked for: none pays for what the others need."""

from __future__ import annotations

from importlib import import_module

import click

from oncue import __version__

# Each a file beside this one that holds a `command`, in the order in which they are listed.
COMMANDS = (
    "up",
    "jobs",
    "runs",
    "dead",
    "apply",
    "top",
    "preview",
    "keys",
    "api",
    "scheduler",
    "worker",
    "migrate",
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


EXAMPLES = """\b
Examples:
  oncue up --tasks tasks.py
  oncue jobs create --task hello --schedule "every 30s"
  oncue runs list --status dead
  oncue preview "0 9 * * 1-5" --timezone Europe/Berlin
  oncue COMMAND --help

\b
Exit codes:
  0  done
  1  refused or failed: standard error says which field is wrong, and what to write
  2  the command line was not understood
  3  no server answered

\b
Environment:
  ONCUE_URL      the server that client commands ask, else http://127.0.0.1:8470
  ONCUE_API_KEY  their key, else that of a server on this machine, from its data directory
"""


@click.group(cls=Commands, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="oncue", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run jobs right on cue, at least once, with nothing silent."""
    if ctx.obj is None:
        from oncue.clock import SystemClock

        ctx.obj = SystemClock()
