"""`oncue context`: the servers that were signed in to, and which of them commands use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from oncue.cli.asking import tell_data
from oncue.cli.groups import Group
from oncue.cli.output import MANY, ONE, Form, Output
from oncue.cli.printing import say
from oncue.cli.roles import options
from oncue.cli.tables import Column, Table, lines_of, print_lines

if TYPE_CHECKING:
    from oncue.client.contexts import Contexts

EXAMPLES = """\b
Examples:
  oncue login https://jobs.example.org --name prod
  oncue context list
  oncue context use prod
  oncue context remove prod

A context is a server's address and key under a name. Commands use the one of --context or ONCUE_CONTEXT, else the
current one; --url, ONCUE_URL and a server that runs in this folder go before the current one. Programs use a context by
name only. They are kept in ~/.config/oncue/config.toml.
"""


class Named(msgspec.Struct, frozen=True):
    name: str
    url: str
    user_id: str
    current: bool


CONTEXTS: Table[Named] = Table(
    "contexts",
    lambda one: one.name,
    (
        Column("current", 7, lambda one: "*" if one.current else ""),
        Column("name", 20, lambda one: one.name),
        Column("url", 30, lambda one: one.url),
        Column("user", 16, lambda one: one.user_id),
    ),
)


@click.group("context", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """List and choose servers you signed in to."""


@command.command("list", epilog="\b\nExamples:\n  oncue context list\n  oncue context list -q")
@options(MANY)
def list_(output: Output) -> None:
    """List the servers you signed in to."""
    known = _read()
    found = [Named(name, one.url, one.user, name == known.current) for name, one in known.contexts.items()]
    if output.form is Form.IDS:
        for one in found:
            say(one.name)
    elif output.as_data:
        tell_data({"contexts": msgspec.to_builtins(found)}, output)
    elif output.for_people and not found:
        say("No contexts. `oncue login URL` creates one.", err=True)
    else:
        print_lines(lines_of(CONTEXTS, found, output))


@command.command("use", epilog="\b\nExamples:\n  oncue context use prod")
@click.argument("name")
@options(ONE)
def use(name: str, output: Output) -> None:
    """Choose the server that commands use."""
    known = _read()
    url = _named(known, name)
    _write(msgspec.structs.replace(known, current=name, noted=False))
    _say(name, output, f"The current context is {name}: {url}")


@command.command("remove", epilog="\b\nExamples:\n  oncue context remove prod")
@click.argument("name")
@options(ONE)
def remove(name: str, output: Output) -> None:
    """Forget a server and its key."""
    known = _read()
    _named(known, name)
    left = {one: context for one, context in known.contexts.items() if one != name}
    current = None if known.current == name else known.current
    _write(msgspec.structs.replace(known, current=current, contexts=left))
    _say(name, output, f"Removed {name}. Its key is still valid; `oncue keys revoke` revokes it.")


def _say(name: str, output: Output, words: str) -> None:
    if output.as_data:
        tell_data({"name": name}, output)
    else:
        say(words)


def _read() -> Contexts:
    from oncue.client.contexts import read_contexts

    try:
        return read_contexts()
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def _named(known: Contexts, name: str) -> str:
    try:
        return known.named(name).url
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def _write(contexts: Contexts) -> None:
    from oncue.client.contexts import write_contexts

    try:
        write_contexts(contexts)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
