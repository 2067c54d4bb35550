"""`oncue apply`: what a file says becomes true, and nothing else is touched."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.cli.conftest import StandIn, command
from tests.cli.standin import KeptJobs, Standin
from tests.cli.terminal import on_a_terminal
from tests.client.server import client_of
from tests.examples.server import Up

from oncue.cli.job_changes import Action, steps
from oncue.cli.job_file import read_job_file
from oncue.client import jobs
from oncue.domain.errors import Invalid
from oncue.testing.clock import SOME_DAY

TWO = """
set: shop
jobs:
  - key: greet
    task: hello
    schedule: {cron: "0 2 * * *", timezone: Europe/Berlin}
    payload: {name: you, retry_on: no, at: 2027-01-01T00:00:00Z}
    tags: [nightly]
  - key: check/site
    task: http
    schedule: every 5m
    payload: {url: "https://example.org"}
"""
OF_SHOP = "applied:shop"


@pytest.fixture
def kept() -> KeptJobs:
    return KeptJobs()


@pytest.fixture
def server(stand_in: StandIn, kept: KeptJobs) -> Standin:
    return stand_in(kept)


def write(text: str) -> None:
    Path("jobs.yaml").write_text(text)


def apply(*options: str) -> Result:
    return command("apply", "jobs.yaml", *options)


def actions(*options: str) -> list[tuple[str, str]]:
    result = apply("--json", *options)
    assert result.exit_code == 0, result.stderr
    return [(step["action"], step["key"]) for step in json.loads(result.stdout)["steps"]]


def changes_asked(server: Standin) -> list[str]:
    return [line for line in server.lines if not line.startswith("GET")]


class TestApplying:
    def test_what_is_not_there_is_made_and_then_left_alone(self, server: Standin, kept: KeptJobs) -> None:
        write(TWO)

        assert actions() == [("create", "greet"), ("create", "check/site")]
        assert changes_asked(server) == ["PUT /v1/jobs/by-key/greet", "PUT /v1/jobs/by-key/check%2Fsite"]
        assert kept.jobs["greet"]["tags"] == ["nightly", OF_SHOP]
        assert kept.jobs["greet"]["payload"] == {"name": "you", "retry_on": "no", "at": "2027-01-01T00:00:00Z"}
        server.requests.clear()
        assert actions() == [("unchanged", "greet"), ("unchanged", "check/site")]
        assert changes_asked(server) == []

    def test_a_change_is_told_field_by_field(self, server: Standin, kept: KeptJobs) -> None:
        write(TWO)
        apply()
        write(
            TWO.replace("every 5m", "every 10m").replace("name: you", "name: all").replace("    tags: [nightly]\n", "")
        )

        result = apply()

        assert result.exit_code == 0
        assert result.stdout.splitlines() == [
            "change 2",
            "        key         what",
            'change  greet       tags: ["nightly","applied:shop"] → ["applied:shop"]',
            '                    payload: {"name":"you","retry_on":"no","at":"2027-01-01T00:00:00Z"} → '
            '{"name":"all","retry_on":"no","at":"2027-01-01T00:00:00Z"}',
            "change  check/site  schedule: "
            '{"every":"5m","timezone":"UTC","dst_gap":"shift","dst_fold":"first"} → "every 10m"',
        ]
        assert kept.jobs["check/site"]["schedule"]["every"] == "10m"

    def test_a_field_that_is_taken_out_is_as_usual_again(self, server: Standin, kept: KeptJobs) -> None:
        write(TWO.replace("task: hello", "task: hello\n    timeout: 5m"))
        apply()
        write(TWO)

        result = apply()

        assert 'timeout: "5m" → (as is usual)' in result.stdout
        assert kept.jobs["greet"]["timeout"] == "30s"

    def test_a_dry_run_shows_the_same_and_does_nothing(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("old", tags=[OF_SHOP])
        kept.add("greet", tags=[OF_SHOP])
        server.requests.clear()
        write(TWO)

        assert actions("--dry-run", "--prune") == [("change", "greet"), ("create", "check/site"), ("prune", "old")]
        assert changes_asked(server) == []
        assert "(dry run: nothing was done)" in apply("--dry-run").stdout

    def test_a_refusal_names_the_job_and_the_rest_is_applied(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("old", tags=[OF_SHOP])
        write(TWO.replace("task: hello", "task: helo"))

        result = apply("--prune")

        assert result.exit_code == 1
        assert "REFUSED: task: no worker has announced this task" in result.stdout
        assert "not pruned" in result.stdout
        assert kept.jobs["check/site"]["task"] == "http"
        assert kept.jobs["old"]["status"] == "active"

    def test_what_was_there_under_that_key_is_told_to_be_replaced(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("greet")
        write(TWO)

        assert "a job with this key was there, and was replaced" in apply().stdout

    def test_many_have_a_bar_on_a_terminal(self, server: Standin, kept: KeptJobs) -> None:
        write("".join(f"- {{key: job-{n}, task: hello, schedule: every 1h}}\n" for n in range(30)))

        shown = on_a_terminal("apply", "jobs.yaml")

        assert "applying" in shown
        assert "create 30" in shown
        assert len(kept.jobs) == 30


class TestPruning:
    def test_only_what_this_set_made_is_cancelled(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("old", tags=[OF_SHOP])
        kept.add("of another set", tags=["applied:shop2"])
        kept.add("by hand")
        write(TWO)

        assert ("prune", "old") in actions("--prune")
        assert {key: job["status"] for key, job in kept.jobs.items()} == {
            "old": "cancelled",
            "of another set": "active",
            "by hand": "active",
            "greet": "active",
            "check/site": "active",
        }
        assert ("prune", "old") not in actions("--prune")  # it is gone already

    def test_without_prune_nothing_is_cancelled(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("old", tags=[OF_SHOP])
        write(TWO)

        apply()

        assert kept.jobs["old"]["status"] == "active"

    def test_a_file_that_does_not_name_its_set_prunes_nothing(self, server: Standin) -> None:
        write("- {key: a, task: hello, schedule: every 1h}")

        result = apply("--prune")

        assert (result.exit_code, server.requests) == (1, [])
        assert "name the set in the file" in result.stderr
        assert apply().exit_code == 0

    def test_jobs_of_several_users_are_not_mixed(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("old", tags=[OF_SHOP])["user_id"] = "bob"
        kept.add("older", tags=[OF_SHOP])
        write(TWO)

        result = apply("--prune")

        assert result.exit_code == 1
        assert "belong to ada, bob: say whose are meant" in result.stderr
        assert ("prune", "old") not in actions("--prune", "--user", "ada")


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("set: a\njobs: 3", "jobs.yaml: is a list of jobs, or an object"),
            ("set: a\njobs: []\ncolour: red", "colour: there is no such field"),
            ("set: [a]\njobs: []", "set: is the name"),
            ("- {task: hello}", "jobs.0.key: give each job a stable key"),
            ("- {key: a}\n- {key: a}", "jobs.1.key: 'a' comes twice"),
            ("- hello", "jobs.0: is an object"),
            ("- {key: a, tags: ['applied:x']}", "jobs.0.tags: tags that begin with applied:"),
            ("- key: a\n  task: b\n  task: c", "jobs.yaml, line 3, column 3: 'task' comes twice"),
            ("- {1: a}", "jobs.yaml, line 1, column 4: the name 1 is not text"),
            ("- key: [a", "jobs.yaml, line 1"),
            ("- !!python/object:os.system a", "jobs.yaml, line 1"),
            ("- {key: a, task: hello, schedule: 99 * * * *}", "a.schedule"),
            ("- {key: a, task: hello, colour: red}", "a.colour: there is no field"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_place(self, server: Standin, text: str, said: str) -> None:
        write(text)

        result = apply()

        assert result.exit_code == 1
        assert result.stderr.startswith(said)
        assert changes_asked(server) == []

    def test_a_file_that_is_not_there(self, server: Standin) -> None:
        result = command("apply", "nowhere.yaml")

        assert result.exit_code == 1
        assert "nowhere.yaml: cannot be read" in result.stderr

    def test_values_mean_what_they_say(self, tmp_path: Path) -> None:
        file = tmp_path / "x.yaml"
        file.write_text(
            "- {key: a, on: [no, yes], b: 012, c: 1e3, d: null, e: 2027-01-01, f: ~, g: -1.5, h: 1_000, i: t}"
        )

        [job] = read_job_file(file).jobs

        expected = {"key": "a", "on": ["no", "yes"], "b": "012", "c": 1000, "d": None, "e": "2027-01-01", "f": None}
        assert job == expected | {"g": -1.5, "h": "1_000", "i": "t"}

    def test_parts_can_be_shared_and_overridden(self, tmp_path: Path) -> None:
        file = tmp_path / "x.yaml"
        file.write_text("- &a {key: a, task: t, queue: q}\n- &b {<<: *a, key: b}\n- {<<: *b, key: c, queue: r}")

        assert read_job_file(file).jobs[2] == {"key": "c", "task": "t", "queue": "r"}

    def test_the_set_is_called_like_the_file_unless_it_says_otherwise(self, tmp_path: Path) -> None:
        file = tmp_path / "shop.yaml"
        file.write_text("[]")
        assert (read_job_file(file).tag, read_job_file(file).named) == (OF_SHOP, False)
        file.write_text("{set: other, jobs: []}")
        assert (read_job_file(file).tag, read_job_file(file).named) == ("applied:other", True)


DEFINITIONS: list[dict[str, Any]] = [
    {"schedule": "0 9 * * 1-5"},
    {"schedule": {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "dst_gap": "skip", "jitter": "90s"}},
    {"schedule": "every 90s", "timeout": "120s", "catch_up_window": "PT1H"},
    {"schedule": {"every": "1h", "start_at": "2027-01-01T00:00:00+01:00", "end_at": "2028-01-01T00:00:00Z"}},
    {"schedule": {"calendar": {"hour": 9, "days_of_week": ["mon", "fri"]}, "max_runs": 5}},
    {"schedule": "2036-01-31T09:00:00.1234Z"},
    {
        "schedule": "@daily",
        "payload": {"name": "ü"},
        "labels": ["b", "a"],
        "rate": {"limit": 1, "per": "60s"},
        "concurrency": {"key": "k", "limit": 2},
        "resources": {"cpu": 0.5, "memory_mb": 10},
        "retry": {"backoff": "1000ms"},
        "start_within": "600s",
        "priority": "low",
        "group": "g",
        "preemptible": True,
    },
]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: str(one["schedule"]))
def test_what_a_real_server_reads_back_is_seen_to_be_unchanged(oncue_up: Up, definition: dict[str, Any]) -> None:
    asked = {"task": "hello", "key": "k", **definition}
    with client_of(oncue_up) as client:
        job = client.jobs.create(**{**asked, "tags": ["applied:x"]})  # type: ignore[typeddict-item]
        there = client.ask(jobs.show(job.job_id).plain())
        client.jobs.cancel(job.job_id)
        defaults = {task.name: task.defaults for task in client.tasks.list()}

    [step] = steps([asked], [there], "applied:x", defaults, SOME_DAY, prune=True)

    assert (step.action, step.changes) == (Action.UNCHANGED, {})


def test_a_finished_job_is_not_made_again_and_a_cancelled_one_is() -> None:
    kept = KeptJobs()
    wanted = [{"key": "a", "task": "hello", "schedule": "every 1h"}]
    there = kept.add("a", tags=["applied:x"])
    defaults = {"hello": {"timeout": "30s"}}

    def action(status: str) -> Action:
        return steps(wanted, [{**there, "status": status}], "applied:x", defaults, SOME_DAY, prune=False)[0].action

    assert action("paused") is Action.UNCHANGED
    assert action("finished") is Action.UNCHANGED
    assert action("cancelled") is Action.CREATE


def test_everything_that_is_wrong_is_told_at_once() -> None:
    wanted = [{"key": "a", "schedule": "every 1h"}, {"key": "b", "task": "hello", "schedule": "nonsense"}]

    with pytest.raises(Invalid) as refused:
        steps(wanted, [], "applied:x", {}, SOME_DAY, prune=False)

    assert [one.path for one in refused.value.problems] == ["a.task", "b.schedule"]
