"""`oncue keys`: create, list and revoke API keys, through the API or directly in the database."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from oncue.cli.asking import LISTS, SERVER, asking, names_server, tell, tell_data, tell_whole_list
from oncue.cli.each import on_each
from oncue.cli.groups import Group
from oncue.cli.naming import id_among, several_ids
from oncue.cli.output import Form, Output
from oncue.cli.printing import say
from oncue.cli.refusing import refusals
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named
from oncue.cli.tables import Column, Kind, Table
from oncue.domain.errors import OncueError
from oncue.domain.instants import moment
from oncue.domain.shown_url import shown_url
from oncue.shapes.accounts import Key

if TYPE_CHECKING:
    from oncue.client import NewKey
    from oncue.engines.port import Key as StoredKey
    from oncue.settings import Settings

NAMES = {"user_id": "--user", "role": "--role", "note": "--note", "expires_in": "--expires"}

EXAMPLES = """\b
Examples:
  oncue keys create --user alice --role member --url http://127.0.0.1:8470
  oncue keys list
  oncue keys revoke 84359e35

KEY is the id of a key, not its secret, or the last 6 or more digits of the id. Several are accepted; - reads them from
standard input.
"""
CREATE = """\b
Examples:
  oncue keys create --user alice --role member --note laptop --expires 90d
  oncue keys create --user root --role admin --engine postgresql://db/oncue
  oncue keys create --url https://jobs.example.org --user alice --role viewer
  oncue keys create --user ci --role member --json | jq -r .key

With --engine, the command creates the key directly in the database, for when the first key is lost or no server runs.
With --url, --context, ONCUE_URL or a current context, the server creates the key; this needs an admin key. With none of
them, or if a server runs in this folder, the database is the one in the data directory. A database is created only with
--init.
"""


@click.group("keys", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Create, list and revoke API keys."""


def table_at(now: datetime) -> Table[Key]:
    def status(key: Key) -> str:
        if key.revoked_at is not None:
            return "revoked"
        return "expired" if key.expires_at is not None and key.expires_at <= now else "valid"

    return Table(
        "keys",
        lambda key: key.key_id,
        (
            Column("id", 8, lambda key: key.key_id, kind=Kind.ID),
            Column("user", 16, lambda key: key.user_id),
            Column("role", 6, lambda key: key.role),
            Column("status", 7, status, kind=Kind.STATUS),
            Column("used", 10, lambda key: None if key.last_used_on is None else key.last_used_on.isoformat()),
            Column("note", 16, lambda key: key.note),
            Column("created", 9, lambda key: key.created_at, at=120),
            Column("expires", 9, lambda key: key.expires_at, at=120),
            Column("revoked", 9, lambda key: key.revoked_at, at=200),
        ),
    )


@command.command("create", epilog=CREATE)
@options(options_named(WHERE), SERVER)
@click.option("--user", "user_id", required=True, help="Owner of the key; a new user is created.")
@click.option("--role", type=click.Choice(["admin", "member", "viewer"]), required=True, help="What the key may do.")
@click.option("--note", help="What the key is for.")
@click.option("--expires", "expires_in", metavar="DURATION", help="How long the key is valid, like 90d.")
@click.option("--init", is_flag=True, help="Create the database if there is none.")
def create(url: str | None, output: Output, init: bool, **given: Any) -> None:
    """Create an API key, shown only once."""
    if output.form is Form.IDS:
        raise click.UsageError("-q prints no key, and it is shown only once; use --json")
    asked = {name: given.pop(name) for name in NAMES}
    if given["engine"] or not names_server(url):
        _store(asked, given, output, init=init)
    elif init:
        raise click.UsageError("--init creates a database: it needs --engine, or no server at all.")
    else:
        _ask_for(url, asked, output)


def _ask_for(url: str | None, asked: dict[str, Any], output: Output) -> None:
    from oncue.client import people

    def show(made: NewKey, _: Output) -> None:
        _show(made.user_id, made.role, made.key)

    with asking(url, as_json=output.as_json, names=NAMES) as client:
        call = people.create_key(asked["user_id"], asked["role"], note=asked["note"], expires_in=asked["expires_in"])
        tell(client, call, show, output)


def _store(asked: dict[str, Any], given: dict[str, Any], output: Output, *, init: bool) -> None:
    from oncue.api.keys import read_key
    from oncue.app import add_key
    from oncue.engines.open import pending

    async def add(settings: Settings) -> tuple[str, StoredKey]:
        if not init and not (await pending(settings)).version:
            where = shown_url(settings.engine)
            raise OncueError(f"There is no database of oncue at {where}. Correct --engine, or create it with --init.")
        return await add_key(settings, **checked)

    with refusals(NAMES, as_json=output.as_json):
        checked = read_key({name: value for name, value in asked.items() if value is not None})
    text, key = storing(add, given, as_json=output.as_json, read_only=not init)
    if output.as_data:
        tell_data({"key_id": str(key.key_id), "user_id": key.user_id, "role": key.role.value, "key": text}, output)
    else:
        _show(key.user_id, key.role, text)


def _show(user: str, role: str, text: str) -> None:
    say(f"{'An' if role == 'admin' else 'A'} {role} key of {user}, shown only once:\n\n  export ONCUE_API_KEY={text}")


@command.command("list", epilog="\b\nExamples:\n  oncue keys list\n  oncue keys list --json | jq '.keys[].user_id'")
@options(LISTS)
def list_(url: str | None, output: Output) -> None:
    """List API keys without their secrets (admin)."""
    from oncue.client import people

    with asking(url, as_json=output.as_json) as client:
        tell_whole_list(client, people.keys(), table_at(moment(output.now())), output)


@command.command("revoke", epilog="\b\nExamples:\n  oncue keys revoke 84359e35\n  oncue keys revoke 84359e35 1b9d6bcd")
@several_ids("KEY")
@options(SERVER)
def revoke(url: str | None, output: Output, given: tuple[str, ...]) -> None:
    """Revoke an API key (admin)."""

    def act(one: str) -> None:
        table = table_at(moment(output.now()))
        key_id = str(id_among(lambda: client.keys.list(), one, table, "oncue keys list"))
        client.keys.revoke(key_id)
        if output.as_data:
            tell_data({"key_id": key_id, "revoked": True}, output)
        else:
            say(f"revoked {key_id}")

    with asking(url, as_json=output.as_json) as client:
        on_each(given, act, output)
