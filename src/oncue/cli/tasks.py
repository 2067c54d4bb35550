"""`oncue tasks`: the tasks that jobs can name."""

from __future__ import annotations

import click

from oncue.cli.asking import SERVER, asking, tell
from oncue.cli.groups import Group
from oncue.cli.output import Output
from oncue.cli.printing import say
from oncue.cli.refusing import refusals
from oncue.cli.roles import options
from oncue.shapes.fleet import Task


@click.group("tasks", cls=Group, epilog="\b\nExamples:\n  oncue tasks register shop.tasks")
def command() -> None:
    """Work with registered tasks."""


REGISTER = """\b
Examples:
  oncue tasks register shop.tasks
  oncue tasks register tasks.py mail.py:tasks

SOURCE is what --tasks of a worker takes: a file or a module, with or without :attribute. Jobs of these tasks can be
created before the first worker that has them starts. A worker that starts later registers its tasks itself.
"""


@command.command("register", epilog=REGISTER)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@options(SERVER)
def register(url: str | None, output: Output, sources: tuple[str, ...]) -> None:
    """Register tasks without a worker (admin)."""
    import msgspec

    from oncue.client import fleet
    from oncue.executors.loading import load_tasks

    with refusals({"tasks": "SOURCE"}, as_json=output.as_json):
        found = [
            {"name": one.name, "schema": msgspec.Raw(one.schema()), "defaults": one.defaults, "roles": one.roles}
            for one in load_tasks(sources)
        ]
    with asking(url, as_json=output.as_json) as client:
        tell(client, fleet.register_tasks(found), _show, output)


def _show(tasks: tuple[Task, ...], output: Output) -> None:
    say(f"Registered {', '.join(task.name for task in tasks) or 'no task'}.")
