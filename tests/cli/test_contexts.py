"""Servers by name: `oncue login`, `oncue context`, `--context`."""

import json
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import StandIn, command
from tests.cli.standin import Request, Said, Standin

from oncue.client.address import find_address

ME = {"user_id": "alice", "role": "member", "key_id": "01990000-0000-7000-8000-0000000000c1"}


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ONCUE_CONTEXT", raising=False)
    return tmp_path / "config" / "oncue" / "config.toml"


@pytest.fixture
def server(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> Standin:
    def answer(request: Request) -> Said:
        if request.headers.get("Authorization") == "Bearer oc_bad":
            return 401, {"title": "Unauthorized", "detail": "Invalid API key."}
        return 200, ME if request.path == "/v1/me" else {"jobs": [], "audit": [], "next_page_token": None}

    made = stand_in(answer)
    for name in ("ONCUE_URL", "ONCUE_API_KEY"):
        monkeypatch.delenv(name)
    return made


def login(server: Standin, name: str, key: str = "oc_1") -> None:
    result = command("login", server.url, "--name", name, stdin=f"{key}\n")
    assert result.exit_code == 0, result.output


def test_after_a_login_commands_find_server_and_key(server: Standin, config: Path) -> None:
    result = command("login", f"{server.url}/", stdin="oc_1\n")

    name = server.url.removeprefix("http://").replace(":", "-")
    assert result.stdout == f"Signed in to {server.url} as alice (member). The current context is {name}.\n"
    assert "oc_1" not in result.output
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700
    assert command("jobs", "list").exit_code == 0
    assert [one.headers["Authorization"] for one in server.requests] == ["Bearer oc_1"] * 2
    assert [path.name for path in config.parent.iterdir()] == ["config.toml"]


def test_a_bad_key_is_not_kept(server: Standin, config: Path) -> None:
    assert command("login", server.url, stdin="oc_bad\n").exit_code == 1
    assert command("login", server.url, stdin="\n").exit_code == 2
    assert command("login", server.url, "--name", "a b", stdin="oc_1\n").exit_code == 2
    assert command("login", "http://127.0.0.1:1", stdin="oc_1\n").exit_code == 3
    assert command("login", "ftp://x", stdin="oc_1\n").exit_code == 2
    assert not config.exists()


def test_contexts_are_listed_chosen_and_removed(server: Standin, config: Path) -> None:
    login(server, "one", "oc_1")
    login(server, "two", "oc_2")

    def listed() -> list[tuple[str, bool]]:
        found = json.loads(command("context", "list", "--json").stdout)["contexts"]
        return [(one["name"], one["current"]) for one in found]

    assert listed() == [("one", False), ("two", True)]
    assert "oc_" not in command("context", "list").output + command("context", "list", "--json").output
    assert command("context", "use", "one").stdout == f"The current context is one: {server.url}\n"
    assert listed() == [("one", True), ("two", False)]
    assert command("context", "list", "-q").stdout == "one\ntwo\n"
    assert command("context", "remove", "one").exit_code == 0
    assert listed() == [("two", False)]
    assert "oc_1" not in config.read_text()
    unknown = command("context", "use", "three")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "no context has the name 'three': there are two" in unknown.stderr


def test_an_option_goes_before_a_variable_before_the_current_context(
    server: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(server, "one", "oc_1")
    login(server, "two", "oc_2")

    def key_used(*options: str) -> str:
        assert command("jobs", "list", *options).exit_code == 0
        return server.requests[-1].headers["Authorization"].removeprefix("Bearer ")

    assert key_used() == "oc_2"
    assert key_used("--context", "one") == "oc_1"
    monkeypatch.setenv("ONCUE_CONTEXT", "one")
    assert key_used() == "oc_1"
    assert key_used("--context", "two") == "oc_2"
    monkeypatch.setenv("ONCUE_API_KEY", "oc_3")
    assert key_used() == "oc_3"
    assert key_used("--context", "one") == "oc_1"
    monkeypatch.setenv("ONCUE_URL", "http://127.0.0.1:1")
    assert key_used("--context", "one") == "oc_1"
    assert command("jobs", "list").exit_code == 3
    both = command("jobs", "list", "--context", "one", "--url", server.url)
    assert (both.exit_code, "give one of them" in both.stderr) == (2, True)


def test_a_key_goes_to_the_address_of_its_context_only(server: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    login(server, "one", "oc_1")

    assert find_address("https://elsewhere.example").key is None
    assert find_address(server.url).key == "oc_1"
    assert find_address(f"{server.url}.evil.example").key is None
    monkeypatch.setenv("ONCUE_URL", "https://elsewhere.example")
    assert find_address().key is None


def test_a_damaged_file_is_told_and_a_missing_home_is_none(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("current = ")
    result = command("context", "list")
    assert (result.exit_code, f"{config} is damaged" in result.stderr) == (2, True)
    assert "is damaged" in command("jobs", "list").stderr
    config.write_text('current = "gone"')
    assert "no context has the name 'gone'" in command("jobs", "list").stderr

    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", "/nonexistent")
    assert find_address().url == "http://127.0.0.1:8470"


def test_keys_are_made_by_the_server_of_the_context(server: Standin) -> None:
    login(server, "one")
    server.answer = lambda _: (201, {**ME, "key": "oc_new"})

    made = command("keys", "create", "--user", "bob", "--role", "viewer")

    assert made.stdout.endswith("export ONCUE_API_KEY=oc_new\n")
    refused = command("keys", "create", "--user", "bob", "--role", "viewer", "--init")
    assert (refused.exit_code, len(server.requests)) == (2, 2)


def test_the_audit_log_is_listed_by_what_was_asked_for(server: Standin) -> None:
    login(server, "one")
    line = {
        "at": "2026-11-16T08:00:00.000Z",
        "user_id": "alice",
        "action": "job.edit",
        "object_id": "0190c2a5-7c00-7000-8000-000000000001",
        "detail": {"a": "\x1b[31m"},
    }
    server.answer = lambda _: (200, {"audit": [line], "next_page_token": None})
    about = "0190c2a5-7c00-7000-8000-000000000001"

    filters = ("--action", "job.edit", "--user", "alice", "--from", "2026-11-01T00:00:00Z")
    shown = command("audit", "--job", about, *filters)

    assert server.requests[-1].query == {
        "object_id": about,
        "action": "job.edit",
        "user_id": "alice",
        "start_time": "2026-11-01T00:00:00.000Z",
        "limit": "50",
    }
    assert "job.edit" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert command("audit", "-q").stdout == f"{about}\n"
    assert command("audit", "--job", about, "--object", about).exit_code == 2
    server.answer = lambda _: (200, {"audit": [line], "next_page_token": "t2"})
    assert command("audit", "--limit", "1").stderr.startswith("More entries of the audit log exist;")


def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(
    server: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("oc_se\ncret", "oc_secrét", "oc_se cret"):
        monkeypatch.setenv("ONCUE_API_KEY", key)
        result = command("jobs", "list", "--url", server.url)
        assert (result.exit_code, "copy it again" in result.stderr, "cret" in result.stderr) == (2, True, False)
    assert server.requests == []


def test_an_address_that_is_none_is_not_taken_for_a_wrong_name() -> None:
    assert "'jobs' is not the address of a server" in command("login", "jobs", stdin="oc_1\n").stderr


@pytest.mark.parametrize("ask", ["export", "jobs export x"])
def test_exports_know_servers_by_name(server: Standin, ask: str) -> None:
    result = command(*ask.split(), "--context", "nope")

    assert (result.exit_code, "no context has the name 'nope'" in result.stderr) == (2, True)
