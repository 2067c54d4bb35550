"""`oncue keys`: API keys, made in the store itself by whoever may reach it."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.printing import print_json
from oncue.cli.roles import STORE, options, storing

EXAMPLES = """\b
Examples:
  oncue keys create --role admin
  oncue keys create --engine postgresql://user:password@db/oncue --user alice --role member
  export ONCUE_API_KEY=$(oncue keys create --json | jq -r .key)
"""


@click.group("keys")
def command() -> None:
    """API keys."""


@command.command("create", epilog=EXAMPLES)
@options(STORE)
@click.option("--user", default="admin", show_default=True, help="Whose key it is; made when new.")
@click.option("--role", type=click.Choice(["admin", "member", "viewer"]), default="admin", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
def create(user: str, role: str, as_json: bool, **given: Any) -> None:
    """Make a key, straight in the store: for when the first one is lost, or there is no server yet."""
    from oncue.app import add_key
    from oncue.engines.port import Role

    text, key = storing(lambda settings: add_key(settings, user, Role(role)), given, as_json=as_json)
    if as_json:
        print_json({"key_id": key.key_id, "user_id": key.user_id, "role": key.role, "key": text})
    else:
        click.echo(f"The key of {user}, {role}, shown this once:\n  {text}")
