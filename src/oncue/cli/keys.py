"""`oncue keys`: create, list and revoke API keys, through the API or directly in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from oncue.cli.asking import LISTS, SERVER, asking, tell, tell_data, tell_whole_list
from oncue.cli.output import Output
from oncue.cli.printing import say
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named
from oncue.cli.tables import Column, Kind, Table
from oncue.shapes.accounts import Key

if TYPE_CHECKING:
    from oncue.client import NewKey

EXAMPLES = """\b
Examples:
  oncue keys create --user alice --role member --url http://127.0.0.1:8470
  oncue keys list
  oncue keys revoke KEY_ID
"""
CREATE = """\b
Examples:
  oncue keys create --role admin
  oncue keys create --engine postgresql://user:password@db/oncue --user alice --role member
  oncue keys create --url https://jobs.example.org --user alice --role viewer
  export ONCUE_API_KEY=$(oncue keys create --json | jq -r .key)

With --url or ONCUE_URL, and without --engine, the server creates the key; this needs an admin key. Otherwise the
command creates the key directly in the database, for when the first key is lost or no server runs yet.
"""


@click.group("keys", epilog=EXAMPLES)
def command() -> None:
    """Create, list and revoke API keys."""


KEYS: Table[Key] = Table(
    "keys",
    lambda key: key.key_id,
    (
        Column("id", 8, lambda key: key.key_id, kind=Kind.ID),
        Column("user", 20, lambda key: key.user_id),
        Column("role", 6, lambda key: key.role),
        Column("created", 9, lambda key: key.created_at),
        Column("revoked", 9, lambda key: key.revoked_at),
    ),
)


@command.command("create", epilog=CREATE)
@options(options_named(WHERE), SERVER)
@click.option("--user", default="admin", show_default=True, help="Owner of the key; a new user is created.")
@click.option("--role", type=click.Choice(["admin", "member", "viewer"]), default="admin", show_default=True)
def create(user: str, role: str, url: str | None, output: Output, **given: Any) -> None:
    """Create an API key, shown only once."""
    if url is not None and not given["engine"]:
        _ask_for(url, user, role, output)
    else:
        _store(user, role, given, output)


def _ask_for(url: str, user: str, role: str, output: Output) -> None:
    from oncue.client import keys

    def show(made: NewKey, _: Output) -> None:
        _show(made.user_id, made.role, made.key)

    with asking(url, as_json=output.as_json, names={"user_id": "--user", "role": "--role"}) as client:
        tell(client, keys.create(user, role), show, output)


def _store(user: str, role: str, given: dict[str, Any], output: Output) -> None:
    from oncue.app import add_key
    from oncue.engines.port import Role

    text, key = storing(lambda settings: add_key(settings, user, Role(role)), given, as_json=output.as_json)
    if output.as_data:
        tell_data({"key_id": str(key.key_id), "user_id": key.user_id, "role": key.role.value, "key": text}, output)
    else:
        _show(user, role, text)


def _show(user: str, role: str, text: str) -> None:
    say(f"The key of {user}, {role}, shown only once:\n  {text}")


@command.command("list", epilog="\b\nExamples:\n  oncue keys list\n  oncue keys list --json | jq '.keys[].user_id'")
@options(LISTS)
def list_(url: str | None, output: Output) -> None:
    """List API keys without their secrets (admin)."""
    from oncue.client import keys

    with asking(url, as_json=output.as_json) as client:
        tell_whole_list(client, keys.listed(), KEYS, output)


@command.command("revoke", epilog="\b\nExamples:\n  oncue keys revoke KEY_ID")
@click.argument("key_id")
@options(SERVER)
def revoke(url: str | None, output: Output, key_id: str) -> None:
    """Revoke an API key (admin)."""
    with asking(url, as_json=output.as_json) as client:
        client.keys.revoke(key_id)
        if output.as_data:
            tell_data({"key_id": key_id, "revoked": True}, output)
        else:
            say(f"revoked {key_id}")
