"""`oncue relay` as users type it: jobs from an outbox in an application's own database."""

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import StandIn
from tests.cli.standin import Request, Said

import oncue
from oncue.cli.main import main


def relay(*argv: str) -> Result:
    return CliRunner().invoke(main, ["relay", *argv])


@pytest.fixture
def shop(tmp_path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.executescript(CliRunner().invoke(main, ["outbox", "ddl"]).stdout)
    return connection


def test_it_sends_what_is_there_and_says_what_was_refused(shop: sqlite3.Connection, stand_in: StandIn) -> None:
    def answer(request: Request) -> Said:
        if request.body["task"] == "ship":
            return 201, {"job_id": "0190c2a5-7c00-7000-8000-000000000000", "task": "ship", "status": "active"}
        return 422, {"title": "Unprocessable Content", "errors": [{"path": "task", "message": "is not registered"}]}

    standin = stand_in(answer)
    with shop:
        sent = oncue.enqueue(shop, "ship", payload={"order": 7}, options={"queue": "mail"})
        stays = oncue.enqueue(shop, "shipp")

    done = relay("--from", "sqlite:///app.db", "--once")

    assert (done.exit_code, done.stdout) == (1, "1 created.\n")
    assert f"{stays} (shipp) refused: task: is not registered" in done.stderr
    assert [(one.body, one.headers["Idempotency-Key"]) for one in standin.requests if one.body["task"] == "ship"] == [
        ({"queue": "mail", "task": "ship", "payload": {"order": 7}}, str(sent))
    ]
    listed = relay("--from", "sqlite:///app.db", "--list")
    assert (str(stays) in listed.stdout, "is not registered" in listed.stdout, str(sent) in listed.stdout) == (
        True,
        True,
        False,
    )
    as_json = json.loads(relay("--from", "sqlite:///app.db", "--list", "--json").stdout)["outbox"]
    assert [(one["row"], one["why"]) for one in as_json] == [(str(stays), "task: is not registered")]


def test_as_json_each_pass_is_a_line(shop: sqlite3.Connection, stand_in: StandIn) -> None:
    stand_in(lambda _: (422, {"title": "Unprocessable Content", "errors": [{"path": "task", "message": "is unknown"}]}))
    with shop:
        row = oncue.enqueue(shop, "shipp")

    [line] = relay("--from", "sqlite:///app.db", "--once", "--json").stdout.splitlines()

    assert json.loads(line) == {
        "created": 0,
        "refused": [{"row": str(row), "task": "shipp", "why": "task: is unknown"}],
    }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("sqlite:///nowhere.db", "there is no file nowhere.db"),
        ("sqlite:///empty.db", "the database has no table oncue_outbox: create it as `oncue outbox ddl` prints it"),
        ("mysql://db/app", "name the application's database as sqlite:///app.db"),
    ],
)
def test_a_database_without_an_outbox_is_refused(tmp_path: Path, source: str, said: str) -> None:
    sqlite3.connect(tmp_path / "empty.db").execute("create table users (id int)")

    refused = relay("--from", source, "--url", "http://127.0.0.1:1")

    assert (refused.exit_code, said in refused.stderr) == (1, True)


def test_without_a_server_nothing_is_lost(shop: sqlite3.Connection) -> None:
    with shop:
        oncue.enqueue(shop, "ship")

    away = relay("--from", "sqlite:///app.db", "--once", "--url", "http://127.0.0.1:1")

    assert away.exit_code == 3
    assert shop.execute("select count(*) from oncue_outbox").fetchone() == (1,)


def test_rows_of_any_types_are_listed(shop: sqlite3.Connection) -> None:
    with shop:
        for task, at in ((b"\xff", 2**63 - 1), ("ship", "yesterday")):
            oncue.enqueue(shop, "ship")
            shop.execute("update oncue_outbox set id = ?, task = ?, at = ? where task = 'ship'", (b"\1", task, at))
            shop.execute("update oncue_outbox set id = task")

    for options in ((), ("--json",)):
        listed = relay("--from", "sqlite:///app.db", "--list", *options)
        assert (listed.exit_code, "yesterday" in listed.stdout, str(2**63 - 1) in listed.stdout) == (0, True, True)


def test_a_wrong_url_is_refused_without_its_password(stand_in: StandIn) -> None:
    stand_in(lambda _: (201, {}))

    refused = relay("--from", "postgresql://ada:gehe/im@db/shop", "--once")

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "--from: this URL cannot be read: write postgresql://user:password@host:port/database" in refused.stderr
    assert "gehe" not in refused.stderr
