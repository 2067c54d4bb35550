"""`oncue db`: which roles of the database may enqueue jobs in their own transactions, and for which user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from oncue.cli.groups import Group
from oncue.cli.outbox import AS_JSON, in_store
from oncue.cli.printing import print_json, print_table, say
from oncue.cli.roles import options
from oncue.cli.settings_options import WHERE, options_named
from oncue.domain.errors import NotFound, OncueError
from oncue.domain.instants import rfc3339
from oncue.domain.plain_text import printable

if TYPE_CHECKING:
    from oncue.engines.outbox_values import Grant
    from oncue.engines.port import Engine

EXAMPLES = """\b
Examples:
  oncue db grant web --user shop --role member --engine postgresql://db/shop?schema=oncue
  oncue db list
  oncue db revoke web
"""


@click.group("db", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Let roles of the database enqueue jobs."""


@command.command("grant", epilog="\b\nExamples:\n  oncue db grant web --user shop --role member")
@options(options_named(WHERE))
@click.argument("db_role", metavar="ROLE")
@click.option("--user", "user_id", required=True, help="Owner of the jobs; a new user is created.")
@click.option("--role", type=click.Choice(["admin", "member"]), required=True, help="What the jobs may be.")
@AS_JSON
def grant(db_role: str, user_id: str, role: str, as_json: bool, **given: Any) -> None:
    """Let a role of the database enqueue jobs.

    It gets the right to call the function `enqueue`, and no right on any table. Its jobs belong to this user.
    """

    async def grant(engine: Engine) -> Grant:
        from oncue.engines.account_values import Role

        now = await engine.now()
        uid = await engine.accounts.user(user_id, now)
        try:
            await engine.outbox.grant(db_role, uid, Role(role), now)
        except NotFound:
            name = printable(db_role)
            raise OncueError(f"The database has no role {name!r}. Create it first: create role … login.") from None
        return next(one for one in await engine.outbox.grants() if one.db_role == db_role)

    made = in_store(grant, given, as_json=as_json)
    if as_json:
        print_json(_shown(made))
    else:
        say(f"The database role {printable(db_role)} may enqueue jobs of {printable(made.user_id)} as {made.role}.")


@command.command("revoke", epilog="\b\nExamples:\n  oncue db revoke web")
@options(options_named(WHERE))
@click.argument("db_role", metavar="ROLE")
@AS_JSON
def revoke(db_role: str, as_json: bool, **given: Any) -> None:
    """Take that right away; committed jobs are created."""

    async def revoke(engine: Engine) -> bool:
        if not await engine.outbox.revoke(db_role):
            raise OncueError(f"The database role {printable(db_role)!r} has no grant; see `oncue db list`.")
        return True

    in_store(revoke, given, as_json=as_json)
    if as_json:
        print_json({"db_role": db_role})
    else:
        say(f"The database role {printable(db_role)} may not enqueue jobs any more.")


@command.command("list", epilog="\b\nExamples:\n  oncue db list --json")
@options(options_named(WHERE))
@AS_JSON
def list_(as_json: bool, **given: Any) -> None:
    """List roles that may enqueue jobs."""
    found = in_store(lambda engine: engine.outbox.grants(), given, as_json=as_json)
    shown = [_shown(one) for one in found]
    if as_json:
        print_json({"grants": shown})
        return
    rows = [tuple(map(printable, one.values())) for one in shown]
    print_table(f"{len(rows)} grants", ("database role", "user", "role", "granted"), rows)


def _shown(one: Grant) -> dict[str, str]:
    return {
        "db_role": one.db_role,
        "user_id": one.user_id,
        "role": one.role.value,
        "granted_at": rfc3339(one.granted_at),
    }
