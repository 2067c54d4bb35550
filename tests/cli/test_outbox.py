"""`oncue db` and `oncue outbox`: who may enqueue in transactions of their own, and what was not created of it."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import StandIn
from tests.cli.standin import Request, Said

from oncue.cli.main import main


class Shop:
    """A store in a schema of an application's database, and a role of the application."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.db_role = f"web-{secrets.token_hex(4)}"  # a name that has to be quoted
        self._where = ("--engine", f"{url}?schema=shop", "--data-dir", str(folder))

    def oncue(self, *argv: str) -> Result:
        return CliRunner().invoke(main, [*argv, *self._where])

    def ask(self, statement: str, *given: Any) -> Any:
        async def ask() -> Any:
            session = await asyncpg.connect(self.url)
            try:
                return await session.fetchval(statement, *given)
            finally:
                await session.close()

        return asyncio.run(ask())

    def enqueue(self, task: str = "later") -> UUID:
        """As the superuser, who has a grant as well."""
        found: UUID = self.ask("select shop.enqueue($1, require_task => false)", task)
        return found


@pytest.fixture
def shop(postgres_url: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(postgres_url, tmp_path)
    shop.ask(f'create role "{shop.db_role}"')
    assert shop.oncue("migrate").exit_code == 0
    yield shop
    shop.ask(f'drop owned by "{shop.db_role}"')
    shop.ask(f'drop role "{shop.db_role}"')


def test_a_grant_is_made_listed_and_revoked(shop: Shop) -> None:
    done = shop.oncue("db", "grant", shop.db_role, "--user", "shop", "--role", "member")
    assert (done.exit_code, done.output) == (
        0,
        f"The database role {shop.db_role} may enqueue jobs of shop as member.\n",
    )
    [grant] = json.loads(shop.oncue("db", "list", "--json").output)["grants"]
    assert (grant["db_role"], grant["user_id"], grant["role"]) == (shop.db_role, "shop", "member")
    may = "select has_function_privilege($1, 'shop.enqueue(text, jsonb, jsonb, text, boolean)', 'execute')"
    assert shop.ask(may, shop.db_role)

    assert shop.oncue("db", "revoke", shop.db_role).exit_code == 0
    assert not shop.ask(may, shop.db_role)
    again = shop.oncue("db", "revoke", shop.db_role)
    assert (again.exit_code, "has no grant" in again.output) == (1, True)


def test_a_role_that_is_not_there_gets_none(shop: Shop) -> None:
    refused = shop.oncue("db", "grant", "nobody at all", "--user", "shop", "--role", "member")

    assert refused.exit_code == 1
    assert "The database has no role 'nobody at all'" in refused.output


def test_what_waits_is_listed_retried_and_discarded(shop: Shop) -> None:
    assert shop.oncue("db", "grant", "postgres", "--user", "shop", "--role", "member").exit_code == 0
    first, second = shop.enqueue(), shop.enqueue()
    shop.ask("update shop.outbox set retry_at = 4611686018427387904, why = 'no such task' where job_id = $1", first)

    found = json.loads(shop.oncue("outbox", "list", "--json").output)["outbox"]
    assert [(one["job_id"], one["status"], one["payload"]) for one in found] == [
        (str(first), "refused", {}),
        (str(second), "waiting", {}),
    ]
    table = shop.oncue("outbox", "list", "--refused").output
    assert "no such task" in table
    assert str(second) not in table

    assert json.loads(shop.oncue("outbox", "retry", "--all", "--json").output) == {"retried": 1}
    assert json.loads(shop.oncue("outbox", "list", "--refused", "--json").output)["outbox"] == []
    assert shop.oncue("outbox", "discard", str(first), str(second), "-y").output == "2 discarded.\n"
    assert json.loads(shop.oncue("outbox", "list", "--json").output)["outbox"] == []


def test_a_server_lists_it_page_by_page(stand_in: StandIn) -> None:
    def answer(request: Request) -> Said:
        second = "page_token" in request.query
        row = {"job_id": str(UUID(int=1 + second)), "status": "refused", "task": "ship", "why": "over quota"}
        return 200, {"outbox": [row], "next_page_token": None if second else "next"}

    standin = stand_in(answer)

    found = json.loads(CliRunner().invoke(main, ["outbox", "list", "--refused", "--json"]).stdout)["outbox"]
    table = CliRunner().invoke(main, ["outbox", "list", "--limit", "1"]).stdout

    assert [one["job_id"] for one in found] == [str(UUID(int=1)), str(UUID(int=2))]
    assert (str(UUID(int=1)) in table, str(UUID(int=2)) in table, "over quota" in table) == (True, False, True)
    assert {request.path for request in standin.requests} == {"/v1/outbox"}
    assert standin.requests[0].query["status"] == "refused"


def test_discarding_asks_first(shop: Shop) -> None:
    assert shop.oncue("db", "grant", "postgres", "--user", "shop", "--role", "member").exit_code == 0
    job_id = shop.enqueue()

    assert shop.oncue("outbox", "discard", str(job_id)).exit_code == 1
    assert len(json.loads(shop.oncue("outbox", "list", "--json").output)["outbox"]) == 1


@pytest.mark.parametrize("argv", [("retry",), ("retry", "--all", str(UUID(int=1))), ("discard", "-y")])
def test_which_ones_has_to_be_said(tmp_path: Path, argv: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(main, ["outbox", *argv, "--engine", f"sqlite:///{tmp_path}/x.db"])

    assert refused.exit_code == 2
    assert "name jobs, or use --all" in refused.output


def test_a_file_has_none(tmp_path: Path) -> None:
    where = ("--engine", f"sqlite:///{tmp_path}/x.db", "--data-dir", str(tmp_path))
    assert CliRunner().invoke(main, ["migrate", *where]).exit_code == 0
    for command in (("outbox", "list"), ("db", "list"), ("db", "grant", "web", "--user", "a", "--role", "member")):
        refused = CliRunner().invoke(main, [*command, *where])
        assert (refused.exit_code, "needs PostgreSQL" in refused.output) == (1, True)


def test_the_doctor_tells_of_it(shop: Shop) -> None:
    def seen() -> dict[str, Any]:
        found = json.loads(shop.oncue("doctor", "--json").output)
        return next(one for one in found if one["check"] == "outbox")

    assert seen()["state"] == "ok"
    assert shop.oncue("db", "grant", "postgres", "--user", "shop", "--role", "member").exit_code == 0
    shop.enqueue()
    shop.ask("update shop.outbox set at = at - 61000000")
    assert (seen()["state"], "1 waiting, the oldest for 6" in seen()["seen"]) == ("warning", True)
