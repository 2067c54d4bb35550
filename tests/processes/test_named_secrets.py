"""A planted secret, after failures, retries and a crash: used by every kind of task, and nowhere to be found."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from tests.processes.fleet import Fleet, Member, read_proc, until

pytestmark = pytest.mark.kills

VALUE = "planted-7b1e-not-to-be-found"
OTHER = f"planted-{uuid4().hex}-of-the-environment"  # not the one of the same test on another engine, beside it
NAMED = {"secret": "token"}
AGAIN: dict[str, Any] = {"max_retries": 1, "retry": {"backoff": "100ms"}}
TASKS = Path(__file__).with_name("named_secret_tasks.py")


def test_a_planted_secret_is_nowhere_to_be_found(any_fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> None:
    fleet, member = any_fleet, started(any_fleet, tmp_path_factory.mktemp("secrets"))
    failing = [fleet.create(task, {"token": NAMED}, **AGAIN) for task in ("loop", "thread", "process")]
    failing += [
        fleet.create("http", {"url": "http://127.0.0.1:9/", "headers": {"Authorization": NAMED}}, **AGAIN),
        fleet.create("http", {"url": {"secret": "url"}, "body": NAMED, "method": "POST"}, **AGAIN),
        command(fleet, 'echo "$TOKEN"; echo "$TOKEN" >&2; exit 1', **AGAIN),
    ]
    missing = fleet.create("loop", {"token": {"secret": "unknown"}}, **AGAIN)
    found = fleet.create("environment", {"token": {"secret": "other"}})
    ended = fleet.at_rest([*failing, missing, found])
    crashing = fleet.create("kills_its_worker", {"token": NAMED}, **AGAIN)  # when no other run is lost with it
    ended |= fleet.at_rest([crashing])

    assert [ended[run]["status"] for run in failing] == ["dead"] * len(failing)
    assert {len(ended[run]["attempts"]) for run in failing} == {2}
    assert "•••" in ended[failing[0]]["error_message"]
    assert [ended[missing][field] for field in ("status", "error_type")] == ["dead", "SecretMissing"]
    assert len(ended[missing]["attempts"]) == 1
    assert ended[crashing]["result"] == "•••"
    assert ended[found]["result"] == {"value": "•••", "length": len(OTHER), "in": []}
    assert "printed •••" in fleet.text(f"/runs/{failing[0]}/logs")
    not_in_the_list_of_processes(fleet, member)
    member.send(signal.SIGTERM)
    assert member.ended() == 0
    assert '"output": "printed \\u2022\\u2022\\u2022"' in member.said
    for value in (VALUE, OTHER):
        assert value not in "".join(one.said for one in fleet.members)
        assert not in_store(fleet, value)
    assert in_store(fleet, "•••"), "what was told is there, masked"


def started(fleet: Fleet, secrets: Path) -> Member:
    (secrets / "admin").mkdir()
    (secrets / "admin" / "token").write_text(VALUE + "\n")
    (secrets / "admin" / "url").write_text(f"http://127.0.0.1:9/{VALUE}?key={VALUE}\n")
    options = ["--secrets-dir", str(secrets), "--allow-commands", "--http-allow", "127.0.0.1/32"]
    options += ["--access-log", "--log-errors", "--log-output", "--log-level", "debug", "--lease", "3s"]
    member = fleet.start("up", *options, tasks=TASKS, env={"ONCUE_SECRET_OTHER": OTHER})
    fleet.ready(workers=1)
    return member


def command(fleet: Fleet, text: str, **job: Any) -> str:
    payload = {"argv": ["sh", "-c", text], "env": {**fleet.environment, "TOKEN": NAMED}}
    return fleet.create("command", payload, **job)


def not_in_the_list_of_processes(fleet: Fleet, member: Member) -> None:
    """But in the environment of the command itself, which nothing but its own process has."""
    file = fleet.folder / "pid"
    run = command(fleet, f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 300")
    until(file.exists, "the command runs", fleet.tell)
    pid = int(file.read_text())
    until(lambda: b"sleep" in read_proc(pid, "cmdline"), "it is the command", fleet.tell)
    assert VALUE.encode() in read_proc(pid, "environ")
    above = parents(pid)
    assert member.pid in above
    assert not [parent for parent in above if VALUE.encode() in read_proc(parent, "environ")]
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert not [one for one in everybody if VALUE.encode() in read_proc(one, "cmdline")]
    assert not [one for one in everybody if OTHER.encode() in read_proc(one, "environ") and one != member.pid]
    fleet.call("POST", f"/runs/{run}/cancel")
    fleet.at_rest([run])


def parents(pid: int) -> list[int]:
    found: list[int] = []
    while pid > 1 and pid != os.getpid():
        pid = int(read_proc(pid, "stat").rpartition(b")")[2].split()[1])
        found.append(pid)
    return found


def in_store(fleet: Fleet, value: str) -> bool:
    if fleet.engine.startswith("sqlite"):
        files = [file for file in fleet.folder.rglob("*") if file.is_file()]
        return any(value.encode() in file.read_bytes() for file in files)
    rows = asyncio.run(all_rows(fleet.engine))
    assert rows
    return any(value in row or value.encode().hex() in row for row in rows)


async def all_rows(url: str) -> list[str]:
    """Every row of every table as text, in which bytes are written as hexadecimal digits."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("select schemaname, tablename from pg_tables where schemaname !~ '^pg_|^info'")
        rows: list[str] = []
        for schema, table in tables:
            found = await connection.fetch(f'select t::text from "{schema}"."{table}" t')
            rows += [row[0] for row in found]
        return rows
    finally:
        await connection.close()
