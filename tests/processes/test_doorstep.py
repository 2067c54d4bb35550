"""From `oncue up` to the first job: it says that it is ready when it is, and the first key is made once."""

from __future__ import annotations

import re
import subprocess
from stat import S_IMODE

import pytest
from tests.processes.fleet import ONCUE, Fleet, Member, free_port, until

pytestmark = pytest.mark.kills

MANY = 5
CREATED = re.compile(r'"kind": ?"admin_key_created".*"file": ?"([^"]+)"')


def test_a_job_made_as_soon_as_up_is_ready_is_taken_and_run(any_fleet: Fleet) -> None:
    fleet = any_fleet
    up = fleet.start("up")
    seen: list[int] = []

    def ready() -> bool:
        seen.append(fleet.raw("GET", "/readyz")[0])
        return seen[-1] == 200

    until(ready, "it is ready", fleet.tell)
    status, job, _ = fleet.raw("POST", "/v1/jobs", {"task": "mark"})

    assert status == 201, job
    assert set(seen) <= {0, 503, 200}
    assert fleet.at_rest([job["job_id"]])
    until(lambda: "oncue listens at" in up.said, "it says so", fleet.tell)


def test_the_address_is_told_when_a_job_can_be_made(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.start("up")
    until(lambda: "oncue listens at" in fleet.members[0].said, "it says so", fleet.tell)

    assert fleet.raw("POST", "/v1/jobs", {"task": "mark"})[0] == 201


def test_an_api_alone_takes_jobs_of_tasks_whose_workers_are_gone(any_fleet: Fleet) -> None:
    fleet = any_fleet
    worker = fleet.start("worker")
    first = fleet.start("api")
    fleet.ready(workers=1)
    for member in (worker, first):
        member.kill()
    fleet.start("api")
    until(lambda: fleet.raw("GET", "/readyz")[0] == 200, "it is ready", fleet.tell)

    assert fleet.raw("POST", "/v1/jobs", {"task": "mark"})[0] == 201


def test_a_task_that_another_process_announces_is_known_at_once(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.start("api")
    until(lambda: fleet.raw("GET", "/readyz")[0] == 200, "it is ready", fleet.tell)
    fleet.start("worker")

    def announced() -> bool:
        refused = fleet.raw("POST", "/v1/jobs", {"task": "no such task"})[0]  # so that it looks all the time
        known = [task["name"] for task in fleet.raw("GET", "/v1/tasks")[1]["tasks"]]
        return refused == 422 and "mark" in known

    until(announced, "it is announced", fleet.tell)

    assert fleet.raw("POST", "/v1/jobs", {"task": "mark"})[0] == 201


# ------------------------------------------------------------------------------------------------------- the first key


def started_together(fleet: Fleet, *, folders: int) -> list[Member]:
    """Several APIs at once on one fresh store, with a data directory for each, or one for all."""
    members = []
    for number in range(MANY):
        where = fleet.folder / f"data{number % folders}"
        members.append(fleet.start("api", "--data-dir", str(where), "--port", str(free_port())))
    until(lambda: all("oncue listens at" in member.said for member in members), "all are up", fleet.tell)
    until(lambda: all('"started"' in member.said for member in members), "all have said it", fleet.tell)
    return members


def test_of_many_on_one_folder_one_makes_and_tells_the_first_key(fleet: Fleet) -> None:
    one_first_key(fleet, folders=1)


def test_of_many_with_folders_of_their_own_one_makes_and_tells_the_first_key(any_fleet: Fleet) -> None:
    one_first_key(any_fleet, folders=MANY)


def one_first_key(fleet: Fleet, *, folders: int) -> None:
    members = started_together(fleet, folders=folders)
    until(lambda: any(CREATED.search(member.said) for member in members), "the key is told of", fleet.tell)

    [file] = [found for member in members for found in CREATED.findall(member.said)]

    [kept] = fleet.folder.glob("data*/admin.key*")
    key = kept.read_text().strip()
    assert (str(kept), S_IMODE(kept.stat().st_mode)) == (file, 0o600)
    assert not any(key in member.said for member in members)
    for member in members:
        here = folders == 1 or CREATED.search(member.said)
        assert ("The admin key is in" if here else "API keys exist, but no key file is here") in member.said
    argv = [str(ONCUE), "keys", "create", "--engine", fleet.engine, "--user", "admin", "--role", "admin", "--json"]
    another = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=fleet.folder).stdout
    fleet._key = key
    port = re.search(r"listens at http://127\.0\.0\.1:(\d+)", members[0].said)
    assert port is not None
    fleet.port = int(port[1])
    assert sorted(one["role"] for one in fleet.raw("GET", "/v1/keys")[1]["keys"]) == ["admin", "admin"], another
