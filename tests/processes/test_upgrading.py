"""A store that an older release has filled goes on under load while its processes are replaced one by one by this
version's, by the older ones again, and by this version's for good: nothing is lost, doubled or forgotten.

The seed decides the older release, which process is replaced next, and whether it is told to stop or killed.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.processes.fleet import LONG, Fleet, Json, Member, children_of, moment, rfc3339, until
from tests.processes.releases import LANDED, PREVIOUS, Load, package_of, stop

pytestmark = [pytest.mark.kills, pytest.mark.first, pytest.mark.xdist_group("two versions")]

SEEDS = [int(seed) for seed in os.environ.get("ONCUE_TEST_SEEDS", "1" if not LONG else "1 2 3 4").split()]
LEASE = ("--lease", "4s")
ROLES = ("api", "scheduler", "worker")
Replaced = dict[tuple[str, int], Member]


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return cache(lambda commit: package_of(commit, tmp_path_factory.mktemp(commit)))


class Stored:
    """What the older release stored, and what it said of it."""

    def __init__(self, fleet: Fleet, *, large: bool) -> None:
        self.by_key = {f"once-{n}": create_once(fleet, f"once-{n}") for n in range(20)}
        self.ended = fleet.at_rest(self.by_key.values())
        self.dead = [fleet.create("fail", {}, max_retries=0, name=f"dead-{n}") for n in range(3)]
        fleet.at_rest(self.dead)
        self.ticks = [
            fleet.create("mark", schedule="every 1s", key="tick-allow", overlap="allow"),
            fleet.create("slow", {"seconds": 0.2}, schedule="every 1s", key="tick-queue", overlap="queue"),
        ]
        self.paused = fleet.create("mark", schedule="every 1s", name="paused")
        fleet.call("POST", f"/jobs/{self.paused}/pause", {})
        self.group = [fleet.create("slow", {"seconds": 0.3}, group="one by one") for _ in range(12)]
        self.later = [fleet.create("mark", schedule=rfc3339(time.time() + 2 + n)) for n in range(16)]
        self.large = [fleet.create("relay", {"lengths": [0.0] * 100_000})] if large else []  # in storage
        fields = {"key": "plain", "name": "as it was", "tags": ["a", "b"], "timeout": "90s", "max_retries": 7}
        self.plain = fleet.create("mark", schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, **fields)
        self.definition = fleet.call("GET", f"/jobs/{self.plain}")

    def check_while_it_goes_on(self, fleet: Fleet) -> None:
        """What must be there in either version, at any moment."""
        for key, job_id in list(self.by_key.items())[:3]:
            assert create_once(fleet, key) == job_id, "a repeated key answers the job that it made"
        assert {letter["run_id"] for letter in fleet.call("GET", "/dead-letters")["dead_letters"]} >= set(self.dead[1:])
        assert fleet.call("GET", f"/jobs/{self.paused}")["status"] == "paused"
        shown = fleet.call("GET", f"/jobs/{self.plain}")
        unlike = {name: shown.get(name) for name, value in self.definition.items() if shown.get(name) != value}
        assert unlike.keys() <= {"schedule", "dashboard_url"}, (unlike, self.definition)
        for run_id, run in list(self.ended.items())[:3]:
            assert fleet.run(run_id)["status"] == run["status"] == "succeeded"


def create_once(fleet: Fleet, key: str) -> str:
    """The id of the job that this idempotency key made, now or before."""
    connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=30)
    headers = {"Authorization": f"Bearer {fleet.key}", "Content-Type": "application/json", "Idempotency-Key": key}
    connection.request("POST", "/v1/jobs", json.dumps({"task": "mark", "payload": {}}), headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert answer.status in (200, 201), (key, answer.status, body)
    job_id: str = body["job_id"]
    return job_id


def replaced(
    members: Replaced, apis: list[Fleet], code: Path | None, chance: Random, load: Load, look: Callable[[Fleet], None]
) -> None:
    """Each process is replaced by one of this code, in the order and the way that chance decides."""
    for role, n in chance.sample(sorted(members), len(members)):
        if chance.random() < 0.4:
            members[role, n].kill()
        else:
            stop(members[role, n])
        apis[n].code = code
        members[role, n] = apis[n].start(role, *(LEASE if role == "worker" else ()))
        is_up(apis[n], members[role, n])
        load.goes_on(apis[0], jobs=5)
        look(chance.choice(apis))


def is_up(fleet: Fleet, member: Member) -> None:
    """It has said that it runs, or started its worker process; before that a SIGTERM ends it as it ends any program."""
    until(lambda: member.said or children_of(member.pid), f"{member.role} has started", fleet.tell)
    if member.role == "api":
        until(lambda: fleet.raw("GET", "/readyz")[0] == 200, "the API is ready", fleet.tell)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_filled_store_survives_an_upgrade_and_the_way_back(
    any_fleet: Fleet, release: Callable[[str], Path], seed: int
) -> None:
    chance = Random(seed)
    commit = LANDED if seed % 2 else PREVIOUS
    older = release(commit)
    each = 1 if any_fleet.engine.startswith("sqlite") else 2
    apis = [any_fleet.of(older) for _ in range(each)]
    members = {
        (role, n): apis[n].start(role, *(LEASE if role == "worker" else ())) for n in range(each) for role in ROLES
    }
    for api in apis:
        api.ready(workers=each)
    stored = Stored(apis[0], large=commit == LANDED)
    load = Load(*apis)
    with load.going():
        load.goes_on(apis[0])
        for code in (None, older, None):
            replaced(members, apis, code, chance, load, stored.check_while_it_goes_on)
    fleet = apis[0]
    everything_ran(fleet, [*load.made, *stored.later, *stored.large, *stored.group])
    one_after_the_other(fleet, stored.group)
    nothing_is_forgotten(fleet, stored)
    for job_id in stored.ticks:
        each_second_has_an_outcome(fleet, job_id)


def everything_ran(fleet: Fleet, run_ids: list[str]) -> None:
    """Once for each attempt; and there is more than one only if its worker was killed."""
    ended = fleet.at_rest(run_ids)
    starts = Counter(event["run"] for event in fleet.events("start"))
    for run_id, run in ended.items():
        lost = sum(one["outcome"] == "lost" for one in run["attempts"])
        assert run["status"] == "succeeded", run
        assert 1 <= starts[run_id] <= 1 + lost, (run, fleet.events(run=run_id))


def one_after_the_other(fleet: Fleet, run_ids: list[str]) -> None:
    inside: str | None = None
    for event in sorted((e for e in fleet.events() if e["run"] in run_ids), key=lambda e: e["at"]):
        if event["kind"] == "start":
            killed = inside is not None and any(e["outcome"] == "lost" for e in fleet.run(inside)["attempts"])
            assert inside in (None, event["run"]) or killed, (inside, event)
            inside = event["run"]
        else:
            inside = None


def nothing_is_forgotten(fleet: Fleet, stored: Stored) -> None:
    for run_id in stored.by_key.values():
        assert fleet.run(run_id)["status"] == "succeeded"
        assert len(fleet.events("start", run_id)) == 1, "a repeated key runs nothing again"
    assert fleet.events("start", stored.paused) == []
    before = len(fleet.events("start"))
    fleet.call("POST", f"/jobs/{stored.paused}/resume", {})
    until(lambda: any(e["job"] == stored.paused for e in fleet.events("start")[before:]), "resumed", fleet.tell)
    fleet.call("DELETE", f"/jobs/{stored.paused}")
    again: Json = fleet.call("POST", "/dead-letters/requeue", {"run_ids": stored.dead[:1]})
    until(lambda: sum(e["job"] == stored.dead[0] for e in fleet.events("start")) == 2, f"requeued: {again}", fleet.tell)


def each_second_has_an_outcome(fleet: Fleet, job_id: str) -> None:
    """A run, or an entry of the occurrence history; and no second has two."""
    fleet.call("DELETE", f"/jobs/{job_id}")
    until(lambda: not [o for o in occurrences(fleet, job_id) if o["outcome"] == "waiting"], "all ended", fleet.tell)
    seconds: list[int] = []
    # A run that ends while the page is read may be listed twice.
    for one in {one["run_id"] or one["scheduled_for"]: one for one in occurrences(fleet, job_id)}.values():
        first = round(moment(one["scheduled_for"]))
        last = first if one["until"] is None else round(moment(one["until"]))
        seconds += range(first, last + 1)
    assert sorted(seconds) == list(range(min(seconds), max(seconds) + 1)), sorted(seconds)
    starts = Counter(round(e["due"]) for e in fleet.events("start") if e["job"] == job_id)
    lost = {e["run"] for e in fleet.events("start") if e["job"] == job_id and e["attempt"] > 1}
    doubled = [second for second, n in starts.items() if n > 1]
    assert len(doubled) <= len(lost), doubled


def occurrences(fleet: Fleet, job_id: str) -> list[Json]:
    found: list[Any] = []
    token = ""
    while True:
        page = fleet.call("GET", f"/jobs/{job_id}/occurrences?limit=1000{token}")
        found += page["occurrences"]
        if not page["next_page_token"]:
            return found
        token = f"&page_token={page['next_page_token']}"
