"""What the server says of itself, and of the processes on its database."""

import pytest
from msgspec.structs import replace
from tests.api.conftest import Desk
from tests.test_docs import ROOT, table

import oncue
from oncue.api.application import Application
from oncue.domain.instants import HOUR, SECOND, rfc3339
from oncue.engines.port import Member
from oncue.settings import Settings

API = ROOT / "docs" / "api.md"


async def test_the_server_says_what_it_is_without_asking_the_database(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.get("/me")  # the key is known now
    monkeypatch.setattr(desk.app.api, "engine", Named(desk.store.engine.name, desk.store.engine.schema))

    shown = await desk.get("/server")

    assert [field for field, _ in table(API, "field of the server", "meaning")] == list(shown)
    assert (shown["version"], shown["engine"]) == (oncue.__version__, desk.store.engine.name)
    assert (shown["schema"], shown["time"]) == (desk.store.engine.schema, rfc3339(desk.store.now))
    assert (shown["roles"], shown["retention"]["runs"]) == (["admin", "member", "viewer"], "90d")
    assert shown["limits"]["payload_bytes"] == Settings().max_payload_bytes
    assert shown["limits"]["jobs_per_user"] is None
    assert shown["features"] == {
        "storage": "folder",
        "archive": False,
        "notifications": ["webhook", "slack", "teams", "discord"],
    }


async def test_what_is_configured_is_a_feature_without_its_address(desk: Desk) -> None:
    secret = "postgresql-password"
    settings = Settings(
        storage=f"s3://{secret}/x",
        archive=f"s3://{secret}/y",
        smtp=f"smtp://me:{secret}@mail",
        smtp_from="o@example.org",
        max_jobs_per_user=7,
    )
    desk.client._transport.app = Application(desk.store.engine, desk.store.clock, settings)  # type: ignore[attr-defined]

    answer = await desk.call("GET", "/v1/server")

    assert answer.json()["features"]["storage"] == "bucket"
    assert answer.json()["features"]["archive"] is True
    assert "email" in answer.json()["features"]["notifications"]
    assert answer.json()["limits"]["jobs_per_user"] == 7
    assert secret not in answer.text


@pytest.mark.parametrize(("key", "only"), [("viewer", True), ("ada", False), ("root", False)])
async def test_a_viewer_learns_that_it_only_reads(desk: Desk, key: str, only: bool) -> None:
    assert (await desk.get("/server", key))["read_only"] is only


async def test_processes_are_told_with_their_last_heartbeat(desk: Desk) -> None:
    store = desk.store
    first = Member(store.new_id(), "api", "0.9", 16, "a.example", started_at=store.now, beat_at=store.now)
    second = replace(first, member_id=store.new_id(), role="worker", started_at=store.at(SECOND))
    await store.members.beat(first, store.now)
    store.advance(31 * SECOND)
    await store.members.beat(second, store.now)

    killed, alive = (await desk.get("/processes", "viewer"))["processes"]

    assert [field for field, _ in table(API, "field of a process", "meaning")] == list(killed)
    assert (killed["process_id"], killed["role"], killed["alive"]) == (str(first.member_id), "api", False)
    assert (killed["version"], killed["schema"], killed["host"]) == ("0.9", 16, "a.example")
    assert (alive["seen_at"], alive["alive"]) == (rfc3339(store.now), True)
    store.advance(-HOUR)
    assert not any(one["alive"] for one in (await desk.get("/processes"))["processes"]), "a clock that was set back"


class Named:
    """An engine that knows its name only."""

    def __init__(self, name: str, schema: int) -> None:
        self.name = name
        self.schema = schema
