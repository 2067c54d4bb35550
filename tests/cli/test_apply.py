"""`oncue apply`: what a file says becomes true, and nothing else is touched."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import Oncue, StandIn, command
from tests.cli.standin import KeptJobs, Standin
from tests.cli.terminal import on_a_terminal
from tests.client.server import client_of
from tests.examples.server import Up

from oncue.cli.job_changes import Action, steps
from oncue.cli.job_file import read_job_file
from oncue.cli.main import main
from oncue.client import Client, jobs
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

        assert 'timeout: "5m" → (default)' in result.stdout
        assert kept.jobs["greet"]["timeout"] == "30s"

    def test_a_dry_run_shows_the_same_and_does_nothing(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("old", tags=[OF_SHOP])
        kept.add("greet", tags=[OF_SHOP])
        server.requests.clear()
        write(TWO)

        assert actions("--dry-run", "--prune") == [("change", "greet"), ("create", "check/site"), ("prune", "old")]
        assert changes_asked(server) == []
        assert "(dry run: nothing was applied)" in apply("--dry-run").stdout

    def test_a_refusal_names_the_job_and_the_rest_is_applied(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("old", tags=[OF_SHOP])
        write(TWO.replace("task: hello", "task: helo"))

        result = apply("--prune")

        assert result.exit_code == 1
        assert "REFUSED: task: no worker has announced this task" in result.stdout
        assert "skipped because another job was refused" in result.stdout
        assert kept.jobs["check/site"]["task"] == "http"
        assert kept.jobs["old"]["status"] == "active"

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
        assert "needs the name of the set" in result.stderr
        assert apply().exit_code == 0


class TestTakingOver:
    @pytest.mark.parametrize(
        ("tags", "whose"),
        [(["applied:shop2"], "belongs to the set 'shop2'"), (["nightly"], "was not created by apply")],
    )
    def test_a_job_that_is_not_of_this_set_is_not_touched_and_nothing_else_is_either(
        self, server: Standin, kept: KeptJobs, tags: list[str], whose: str
    ) -> None:
        kept.add("check/site", tags=tags)
        kept.add("old", tags=[OF_SHOP])
        before = {**kept.jobs}
        write(TWO)

        result = apply("--prune")

        assert result.exit_code == 1
        assert "create 1, take over 1, prune 1\n" in result.stdout
        assert f"REFUSED: the job with this key {whose}; adopt it with --take-over" in result.stdout
        assert result.stdout.count("skipped because another job was refused") == 2
        assert (changes_asked(server), kept.jobs) == ([], before)

    def test_a_dry_run_shows_it_and_how_it_would_end(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("greet", tags=["applied:shop2"])
        write(TWO)

        result = apply("--dry-run", "--json")

        [greet, check] = json.loads(result.stdout)["steps"]
        assert result.exit_code == 1
        assert (greet["action"], greet["job_id"]) == ("take over", kept.jobs["greet"]["job_id"])
        assert greet["changes"]["tags"] == {"old": ["applied:shop2"], "new": ["nightly", OF_SHOP]}
        assert "--take-over" in greet["error"]
        assert (check["action"], check["error"]) == ("create", None)
        assert actions("--dry-run", "--take-over") == [("take over", "greet"), ("create", "check/site")]
        assert changes_asked(server) == []

    def test_when_it_is_meant_it_belongs_to_this_set_from_then_on(self, server: Standin, kept: KeptJobs) -> None:
        kept.add("greet", tags=["applied:shop2"])
        write(TWO)

        assert actions("--take-over") == [("take over", "greet"), ("create", "check/site")]
        assert kept.jobs["greet"]["tags"] == ["nightly", OF_SHOP]
        assert actions() == [("unchanged", "greet"), ("unchanged", "check/site")]

    @pytest.mark.parametrize("status", ["finished", "cancelled"])
    def test_what_is_over_can_be_taken_from_nobody(self, server: Standin, kept: KeptJobs, status: str) -> None:
        kept.add("greet", tags=["applied:shop2"])["status"] = status
        write(TWO)

        assert actions("--dry-run") == [("create", "greet"), ("create", "check/site")]


class TestWhoseJobs:
    def test_an_administrator_applies_to_nobody_elses(self, server: Standin, kept: KeptJobs) -> None:
        kept.me["role"] = "admin"
        kept.add("old", tags=[OF_SHOP])["user_id"] = "bob"
        kept.add("older", tags=[OF_SHOP])
        write(TWO)

        found = actions("--prune")

        assert [key for action, key in found if action == "prune"] == ["older"]
        assert kept.jobs["old"]["status"] == "active"

    def test_a_member_does_not_ask_for_a_user(self, server: Standin) -> None:
        write(TWO)

        apply()

        assert {"user_id"} & {name for request in server.requests for name in request.query} == set()


def test_an_administrator_and_a_member_have_a_job_each(oncue: Oncue, oncue_up: Up) -> None:
    text = "set: {name}\njobs:\n  - {{key: {name}, task: hello, schedule: every {every}}}\n"
    name = str(uuid4())
    write(text.format(name=name, every="1h"))
    with client_of(oncue_up) as admin:
        key = admin.keys.create(name, "member").key
        with Client(oncue_up.address, key) as member:
            made = CliRunner(env={"ONCUE_API_KEY": key}).invoke(main, ["apply", "jobs.yaml"])
            assert made.exit_code == 0, made.stderr
            write(text.format(name=name, every="2h"))

            assert oncue("apply", "jobs.yaml", "--prune").exit_code == 0
            assert oncue("apply", "jobs.yaml", "--prune").stdout.startswith("unchanged 1\n")

            hers, his = member.jobs.get_by_key(name), admin.jobs.get_by_key(name)
            assert (hers.status, hers.schedule["every"], his.schedule["every"]) == ("active", "1h", "2h")
            for job in (hers, his):
                admin.jobs.cancel(job.job_id)


def test_a_payload_of_a_megabyte_is_applied_once(oncue: Oncue, oncue_up: Up) -> None:
    """Catches the usual limit of a payload in the database, and lists, which omit large ones."""
    key = str(uuid4())
    write(json.dumps({"set": key, "jobs": [{"key": key, "task": "hello", "payload": {"name": "x" * 1_000_000}}]}))

    assert oncue("apply", "jobs.yaml").exit_code == 0
    assert oncue("apply", "jobs.yaml").stdout.startswith("unchanged 1\n")


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("set: a\njobs: 3", "jobs.yaml: must be a list of jobs, or an object"),
            ("set: a\njobs: []\ncolour: red", "colour: unknown field 'colour'"),
            ("set: [a]\njobs: []", "set: must be the name"),
            ("- {task: hello}", "jobs.0.key: is required"),
            ("- {key: a}\n- {key: a}", "jobs.1.key: 'a' appears twice"),
            ("- hello", "jobs.0: must be an object"),
            ("- {key: a, tags: ['applied:x']}", "jobs.0.tags: must not contain a tag that begins with applied:"),
            ("- key: a\n  task: b\n  task: c", "jobs.yaml, line 3, column 3: 'task' appears twice"),
            ("- {1: a}", "jobs.yaml, line 1, column 4: the name 1 is not text"),
            ("- key: [a", "jobs.yaml, line 1"),
            ("- {key: a, task: hello, tags: nightly}", "jobs.0.tags: must be a list"),
            ("- {key: a, task: hello, tags: 5}", "jobs.0.tags: must be a list"),
            ("- {key: a, task: hello, tags: [5]}", "a.tags"),
            ("- {key: a, payload: {x: !!int abc}}", "jobs.yaml, line 1, column 25: 'abc' is not a JSON int"),
            ("- {key: a, payload: {x: !!int 0x10}}", "jobs.yaml, line 1, column 25: '0x10' is not a JSON int"),
            ("- {key: a, payload: {x: !!bool yes}}", "jobs.yaml, line 1, column 25: 'yes' is not a JSON bool"),
            ("- {key: a, payload: {x: !!null no}}", "jobs.yaml, line 1, column 25: 'no' is not a JSON null"),
            ("- {key: a, payload: {x: !!float .inf}}", "jobs.yaml, line 1, column 25: '.inf' is not a JSON float"),
            ("- {key: a, payload: {x: !!set {b, c}}}", "jobs.yaml, line 1, column 25"),
            ("- {key: a, payload: {x: !!binary aGk=}}", "jobs.yaml, line 1, column 25"),
            ("- {key: a, payload: {x: !!timestamp 2027-01-01}}", "jobs.yaml, line 1, column 25"),
            ("- {key: a, payload: {x: !!omap [b: 1]}}", "jobs.yaml, line 1, column 25"),
            ("- {key: a, payload: {x: !!pairs [b: 1]}}", "jobs.yaml, line 1, column 25"),
            ("- {key: a, ? !!str [b] : c}", "jobs.yaml, line 1, column 14: the name"),
            (f"- {{key: a, payload: {{x: {'9' * 5_000}}}}}", "jobs.yaml: Exceeds the limit"),
            (f"- {'[' * 600}", "jobs.yaml: is nested too deeply"),
            ("- !!python/object:os.system a", "jobs.yaml, line 1"),
            ("- {key: a, task: hello, schedule: 99 * * * *}", "a.schedule"),
            ("- {key: a, task: hello, colour: red}", "a.colour: unknown field"),
        ],
        ids=lambda one: one[:50],
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

        expected: dict[str, Any] = {
            "key": "a",
            "on": ["no", "yes"],
            "b": "012",
            "c": 1000,
            "d": None,
            "e": "2027-01-01",
            "f": None,
        }
        assert job == expected | {"g": -1.5, "h": "1_000", "i": "t"}

    def test_what_is_said_to_be_of_a_kind_is(self, tmp_path: Path) -> None:
        file = tmp_path / "x.yaml"
        file.write_text(
            "- {key: !!str 5, b: !!int 5, c: !!float 5, d: !!bool true, e: !!null ~, f: !!seq [a], g: !!map {}}"
        )

        assert read_job_file(file).jobs == ({"key": "5", "b": 5, "c": 5.0, "d": True, "e": None, "f": ["a"], "g": {}},)

    @pytest.mark.parametrize("tags", ["tags:", "tags: []", "tags: null"])
    def test_no_tags_are_none(self, server: Standin, kept: KeptJobs, tags: str) -> None:
        write(f"set: shop\njobs:\n  - key: a\n    task: hello\n    schedule: every 1h\n    {tags}\n")

        assert actions() == [("create", "a")]
        assert kept.jobs["a"]["tags"] == [OF_SHOP]

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
        job = client.jobs.create(**{**asked, "tags": ["applied:x"]})  # type: ignore[typeddict-item]  # a plain dict
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
