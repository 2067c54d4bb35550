"""`oncue tasks`: list, show and register the tasks that jobs can name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from oncue.cli.asking import LISTS, SERVER, asking, tell, tell_data, tell_whole_list
from oncue.cli.completing import payload_schema, task_names
from oncue.cli.each import on_each
from oncue.cli.groups import Group
from oncue.cli.naming import read_lines
from oncue.cli.output import Output
from oncue.cli.printing import print_fields, say, text
from oncue.cli.refusing import refusals
from oncue.cli.roles import options
from oncue.cli.showing import time
from oncue.cli.tables import Column, Table
from oncue.shapes.fleet import TaskInfo

if TYPE_CHECKING:
    from oncue.client import Client

EXAMPLES = """\b
Examples:
  oncue tasks list
  oncue tasks show hello
  oncue tasks register shop.tasks

TASK is a name. Several are accepted; - reads them from standard input.
"""


def _defaults(task: TaskInfo) -> str:
    return " ".join(f"{name}:{text(value)}" for name, value in task.defaults.items())


def _parameters(task: TaskInfo) -> str:
    """Format as `to, subject, cc?`: optional ones with a question mark."""
    schema = payload_schema(task.schema)
    required = schema.get("required", ())
    return ", ".join(f"{name}{'' if name in required else '?'}" for name in schema.get("properties", {}))


TASKS: Table[TaskInfo] = Table(
    "tasks",
    lambda task: task.name,
    (
        Column("name", 28, lambda task: task.name),
        Column("parameters", 20, _parameters),
        Column("workers", 8, lambda task: task.workers),
        Column("defaults", 16, _defaults, pipes=lambda task: task.defaults),
        Column("roles", 14, lambda task: ",".join(task.roles), at=120),
        Column("registered", 10, lambda task: task.announced_at, at=120),
        Column("schema", 40, lambda task: task.schema, at=200),
    ),
)


@click.group("tasks", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """List, show and register tasks."""


@command.command("list", epilog="\b\nExamples:\n  oncue tasks list\n  oncue tasks list -q")
@options(LISTS)
def list_(url: str | None, output: Output) -> None:
    """List registered tasks."""
    from oncue.client import fleet

    with asking(url, as_json=output.as_json) as client:
        tell_whole_list(client, fleet.tasks(), TASKS, output)


@command.command("show", epilog="\b\nExamples:\n  oncue tasks show hello\n  oncue tasks show hello --json | jq .schema")
@click.argument("given", metavar="TASK...", nargs=-1, required=True, callback=read_lines, shell_complete=task_names)
@options(SERVER)
def show(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Show a task, its parameters and defaults."""
    with asking(url, as_json=output.as_json) as client:
        on_each(given, lambda name: _show(client, name, output), output)


def _show(client: Client, name: str, output: Output) -> None:
    import msgspec

    from oncue.client import ClientError, fleet

    all_of_them = client.ask(fleet.tasks().plain())["tasks"]
    found = next((task for task in all_of_them if task["name"] == name), None)
    if found is None:
        raise ClientError(
            f"No task is called {name!r}. Check the spelling, or start a worker that has it; see `oncue tasks list`."
        )
    if output.as_data:
        tell_data(found, output)
        return
    task = msgspec.convert(found, TaskInfo)
    print_fields(
        f"task {text(task.name)}",
        [
            ("parameters", text(_parameters(task))),
            ("defaults", text(_defaults(task))),
            ("roles", text(", ".join(task.roles))),
            ("workers", str(task.workers)),
            ("registered", time(task.announced_at, output)),
            ("schema", msgspec.json.format(msgspec.json.encode(task.schema)).decode()),
        ],
    )


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
        tell(client, fleet.register_tasks(found), _registered, output)


def _registered(tasks: tuple[TaskInfo, ...], output: Output) -> None:
    say(f"Registered {', '.join(task.name for task in tasks) or 'no task'}.")
