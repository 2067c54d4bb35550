"""`oncue login`: keep the address and the key of a server, so that other commands find it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
import msgspec

from oncue.cli.asking import asking, tell_data
from oncue.cli.output import ONE, Output
from oncue.cli.printing import say
from oncue.cli.roles import options
from oncue.local_server import is_here

if TYPE_CHECKING:
    from oncue.client import Me

EXAMPLES = """\b
Examples:
  oncue login https://jobs.example.org
  oncue login http://127.0.0.1:8470 --name local < .oncue/admin.key
  oncue jobs list --context local

The command asks for an API key, or reads it from standard input, checks it, and keeps it with the address in
~/.config/oncue/config.toml, which only you can read. The server becomes the current context: commands without --url,
--context, ONCUE_URL and ONCUE_CONTEXT use it, except in a folder in which a server runs.
"""


@click.command("login", epilog=EXAMPLES)
@click.argument("url", metavar="URL")
@click.option("--name", metavar="NAME", help="Name of the context. [default: the server's host]")
@options(ONE)
def command(url: str, name: str | None, output: Output) -> None:
    """Sign in to a server by name."""
    from oncue.client.contexts import NAME

    host = urlsplit(url).netloc.replace(":", "-")
    if not host:
        raise click.UsageError(f"{url!r} is not the address of a server; write it like http://127.0.0.1:8470")
    name = name or host
    if not NAME.fullmatch(name):
        raise click.UsageError("--name must have 1 to 100 letters, digits, dots, dashes or underscores.")
    key = _read_key()
    with asking(url, as_json=output.as_json, key=key) as client:
        me = client.me()
        _keep(name, client.url, key, me)
    if output.as_data:
        tell_data({"name": name, "url": client.url, "user_id": me.user_id, "role": me.role}, output)
    else:
        say(f"Signed in to {client.url} as {me.user_id} ({me.role}). The current context is {name}.")


def _read_key() -> str:
    if sys.stdin.isatty():
        typed: str = click.prompt("API key", hide_input=True, err=True)
    else:
        typed = sys.stdin.readline()
    if not typed.strip():
        raise click.UsageError("Standard input has no API key. Type it, or pass it like `< .oncue/admin.key`.")
    return typed.strip()


def _keep(name: str, url: str, key: str, me: Me) -> None:
    from oncue.client.contexts import Context, read_contexts, write_contexts

    if not url.startswith("https://") and not is_here(url):
        say(f"{url} is not encrypted: others on the network can read the key. Use https.", err=True)
    known = read_contexts()
    contexts = {**known.contexts, name: Context(url, key, me.user_id)}
    write_contexts(msgspec.structs.replace(known, current=name, contexts=contexts, noted=False))
