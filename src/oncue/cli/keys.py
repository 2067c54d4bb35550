"""`oncue keys`: create, list and revoke API keys, through the API or directly in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from oncue.cli.asking import SERVER, URL, asking, tell
from oncue.cli.printing import print_json, print_table, say, time
from oncue.cli.roles import options, storing
from oncue.cli.settings_options import WHERE, options_named

if TYPE_CHECKING:
    from oncue.client import Key, NewKey

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


@command.command("create", epilog=CREATE)
@options(options_named(WHERE), (URL,))
@click.option("--user", default="admin", show_default=True, help="Owner of the key; a new user is created.")
@click.option("--role", type=click.Choice(["admin", "member", "viewer"]), default="admin", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the key as an object.")
def create(user: str, role: str, url: str | None, as_json: bool, **given: Any) -> None:
    """Create an API key; it is shown only once."""
    if url is not None and not given["engine"]:
        _ask_for(url, user, role, as_json=as_json)
    else:
        _store(user, role, given, as_json=as_json)


def _ask_for(url: str, user: str, role: str, *, as_json: bool) -> None:
    from oncue.client import keys

    def show(made: NewKey) -> None:
        _show(made.user_id, made.role, made.key)

    with asking(url, as_json=as_json, names={"user_id": "--user", "role": "--role"}) as client:
        tell(client, keys.create(user, role), show, as_json=as_json)


def _store(user: str, role: str, given: dict[str, Any], *, as_json: bool) -> None:
    from oncue.app import add_key
    from oncue.engines.port import Role

    text, key = storing(lambda settings: add_key(settings, user, Role(role)), given, as_json=as_json)
    if as_json:
        print_json({"key_id": key.key_id, "user_id": key.user_id, "role": key.role, "key": text})
    else:
        _show(user, role, text)


def _show(user: str, role: str, text: str) -> None:
    say(f"The key of {user}, {role}, shown only once:\n  {text}")


@command.command("list", epilog="\b\nExamples:\n  oncue keys list\n  oncue keys list --json | jq '.keys[].user_id'")
@options(SERVER)
def list_(url: str | None, as_json: bool) -> None:
    """List API keys without their secrets (admin)."""
    from oncue.client import keys

    def show(found: tuple[Key, ...]) -> None:
        rows = [(one.key_id, one.user_id, one.role, time(one.created_at), time(one.revoked_at)) for one in found]
        print_table(
            "1 key" if len(found) == 1 else f"{len(found)} keys", ("key_id", "user", "role", "created", "revoked"), rows
        )

    with asking(url, as_json=as_json) as client:
        tell(client, keys.listed(), show, as_json=as_json)


@command.command("revoke", epilog="\b\nExamples:\n  oncue keys revoke KEY_ID")
@click.argument("key_id")
@options(SERVER)
def revoke(url: str | None, as_json: bool, key_id: str) -> None:
    """Revoke an API key (admin)."""
    with asking(url, as_json=as_json) as client:
        client.keys.revoke(key_id)
        if as_json:
            print_json({"key_id": key_id, "revoked": True})
        else:
            say(f"revoked {key_id}")
