"""`oncue apply`: files become declarations, and what the server answers is shown."""

import json
import os
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import Oncue, StandIn, command
from tests.cli.standin import Request, Said, Standin
from tests.client.server import client_of
from tests.examples.server import Up

from oncue.cli.job_file import read_job_file, read_job_sets
from oncue.cli.main import main
from oncue.client import Client

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
OLD, NEW = {"every": "5m", "timezone": "UTC"}, {"every": "10m", "timezone": "UTC"}
STEPS = [
    {"action": "change", "key": "greet", "job_id": "1", "owners": [], "changes": {
        "schedule": {"old": OLD, "new": NEW}, "tags": {"old": ["a"], "new": []}}},
    {"action": "adopt", "key": "b\x1b[31m", "job_id": "2", "owners": ["other"], "changes": {}},
    {"action": "unchanged", "key": "c", "job_id": "3", "owners": [], "changes": {}},
    {"action": "prune", "key": "d", "job_id": "4", "owners": [], "changes": {}},
]  # fmt: skip
SHOWN = """\
change 1, adopt 1, unchanged 1, prune 1
           key     what
change     greet   schedule: {"every":"5m","timezone":"UTC"} → {"every":"10m","timezone":"UTC"}
                   tags: ["a"] → (none)
adopt      b [31m  from the set other
unchanged  c
prune      d
"""


class Server:
    """Answers every declaration with the same steps, or refuses it."""

    def __init__(self) -> None:
        self.steps: list[Any] = STEPS
        self.warnings: list[Any] = []
        self.errors: dict[str, list[dict[str, str]]] = {}

    def __call__(self, request: Request) -> Said:
        body = request.body
        if errors := self.errors.get(body["set"]):
            return 422, {"title": "Unprocessable Content", "status": 422, "detail": "wrong", "errors": errors}
        return 200, {**body, "steps": self.steps, "warnings": self.warnings}


@pytest.fixture
def answers() -> Server:
    return Server()


@pytest.fixture
def server(stand_in: StandIn, answers: Server) -> Standin:
    return stand_in(answers)


def write(text: str, name: str = "jobs.yaml") -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)


def apply(*options: str) -> Result:
    return command("apply", "jobs.yaml", *options)


def asked(server: Standin) -> list[tuple[str, list[str | None], bool]]:
    """The declarations that were sent: set, keys, and whether it was only a dry run."""
    bodies = [request.body for request in server.requests]
    return [(body["set"], [job.get("key") for job in body["jobs"]], body["dry_run"]) for body in bodies]


class TestAsking:
    def test_a_file_is_one_declaration(self, server: Standin) -> None:
        write(TWO)

        assert apply().exit_code == 0
        [request] = server.requests
        assert request.line == "POST /v1/jobs/apply"
        assert {name: value for name, value in request.body.items() if name != "jobs"} == {
            "set": "shop", "prune": False, "adopt": False, "stamp": None, "dry_run": False
        }  # fmt: skip
        assert request.body["jobs"][0]["payload"] == {"name": "you", "retry_on": "no", "at": "2027-01-01T00:00:00Z"}

    def test_options_are_passed_on(self, server: Standin) -> None:
        write(TWO)

        apply("--prune", "--adopt", "--stamp", "17", "--dry-run")
        CliRunner(env={"ONCUE_BUILD": "18"}).invoke(main, ["apply", "jobs.yaml"])

        first, second = (request.body for request in server.requests)
        assert (first["prune"], first["adopt"], first["stamp"], first["dry_run"]) == (True, True, 17, True)
        assert second["stamp"] == 18

    def test_files_of_one_set_are_one_declaration_and_of_several_none_is_applied_unless_all_may(
        self, server: Standin, answers: Server
    ) -> None:
        write("{set: shop, jobs: [{key: a}]}", "jobs/1.yaml")
        write("{set: shop, jobs: [{key: b}]}", "jobs/2.yml")
        write('{"set": "mail", "jobs": [{"key": "c"}]}', "jobs/3.json")
        write("no YAML: [", "jobs/notes.txt")
        both = [("shop", ["a", "b"], True), ("mail", ["c"], True)]

        assert command("apply", "jobs").exit_code == 0
        assert asked(server) == [*both, ("shop", ["a", "b"], False), ("mail", ["c"], False)]
        server.requests.clear()
        answers.errors = {"mail": [{"path": "jobs.0.task", "code": "unknown_task", "message": "is not registered"}]}
        result = command("apply", "jobs")
        assert (result.exit_code, result.stderr) == (1, "jobs/3.json:1: c: task: is not registered\n")
        assert asked(server) == both

    def test_standard_input_names_its_set(self, server: Standin) -> None:
        assert command("apply", "-", stdin=TWO).exit_code == 0
        assert asked(server) == [("shop", ["greet", "check/site"], False)]
        unnamed = command("apply", "-", stdin="- {key: a}")
        told = "standard input:1: set: must be the name of the set, like shop\n"
        assert (unnamed.exit_code, unnamed.stderr) == (1, told)

    def test_a_file_that_does_not_name_its_set_prunes_nothing(self, server: Standin) -> None:
        write("- {key: a, task: hello, schedule: every 1h}")

        result = apply("--prune")

        assert result.exit_code == 1
        assert [dry for *_, dry in asked(server)] == [True], "for what else is wrong"
        assert "--prune needs the name of the set in jobs.yaml" in result.stderr
        assert apply().exit_code == 0


class TestAnswers:
    def test_steps_are_shown_field_by_field_without_control_characters(self, server: Standin) -> None:
        write(TWO)

        assert apply().stdout == SHOWN
        assert apply("--dry-run").stdout.startswith("change 1, adopt 1, unchanged 1, prune 1 (dry run: nothing was app")
        assert json.loads(apply("--json").stdout)["steps"] == STEPS

    @pytest.mark.parametrize(("steps", "code"), [(STEPS, 1), (STEPS[2:3], 0), ([], 0)])
    def test_check_tells_by_its_exit_code_whether_anything_would_change(
        self, server: Standin, answers: Server, steps: list[Any], code: int
    ) -> None:
        answers.steps = steps
        write(TWO)

        assert apply("--check").exit_code == code
        assert [dry for *_, dry in asked(server)] == [True]
        assert apply().exit_code == 0

    def test_errors_name_jobs_by_their_keys(self, server: Standin, answers: Server) -> None:
        write(TWO + "  - {task: hello}\n")
        answers.errors["shop"] = [
            {"path": path, "code": "x", "message": "is wrong"}
            for path in ("jobs.1.schedule.every", "jobs.2.key", "jobs.0", "jobs.9.key", "prune", "")
        ]

        result = apply()

        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.splitlines() == [
            "jobs.yaml:11: check/site: schedule.every: is wrong",
            "jobs.yaml:13: jobs.2: key: is wrong",
            "jobs.yaml:4: greet: is wrong",
            "jobs.9.key: is wrong",
            "--prune: is wrong",
            "is wrong",
        ]

    def test_a_reused_stamp_is_warned_of(self, server: Standin, answers: Server) -> None:
        answers.warnings = [{"path": "stamp", "code": "same_stamp"}]
        write(TWO)

        result = apply("--stamp", "5")

        assert (result.exit_code, result.stdout) == (0, SHOWN)
        assert "stamp 5" in result.stderr

    def test_jobs_that_no_live_worker_can_run_are_warned_of_by_name(self, server: Standin, answers: Server) -> None:
        answers.warnings = [{"path": "jobs.1.queue", "code": "no_worker", "message": "No live worker takes it."}]
        write(TWO)

        result = apply()

        assert (result.exit_code, result.stdout) == (0, SHOWN)
        assert result.stderr == "warning: jobs.yaml:9: check/site: queue: No live worker takes it.\n"


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


WRONG = """\
set: {name}
colour: red
jobs:
  - key: {name}
    task: hello
    schedule:
      cron: "61 25 * * *"
      timezone: Europe/Berln
      tz: UTC
    overlap: sometimes
    task: another
  - <<: &shared
      task: hello
      max_retries: many
    key: {name}
    schedule: every 5 minutes
    retries: 3
  - *shared
"""
TOLD = """\
{file}, line 11, column 5: 'task' appears twice
{file}:2: colour: unknown field; a file has set and jobs
{file}:9: {name}: schedule.tz: unknown field 'tz'; check the spelling
{file}:10: {name}: overlap: 'sometimes' is not one of queue, skip, allow, replace
{file}:8: {name}: schedule.timezone: 'Europe/Berln' is not an IANA time zone like "Europe/Berlin" or "UTC"; did you \
mean "Europe/Berlin"?
{file}:7: {name}: schedule.cron: minute: 61 is not between 0 and 59
{file}:7: {name}: schedule.cron: hour: 25 is not between 0 and 23
{file}:15: {name}: key: '{name}' is also the key of {file}:4; keys must be unique
{file}:14: {name}: max_retries: 'many' is not a whole number from 0 to 10000
{file}:17: {name}: retries: unknown field 'retries'; did you mean 'max_retries'?
{file}:16: {name}: schedule.every: '5 minutes' is not a duration like "250ms", "30s", "5m", "2h", "7d" or "PT1H"
{file}:12: jobs.2: key: is required: apply finds each job by its key
{file}:14: jobs.2: max_retries: 'many' is not a whole number from 0 to 10000
"""


def test_all_that_is_wrong_with_several_files_is_told_at_once_with_their_lines(oncue: Oncue) -> None:
    write(WRONG.format(name="one"), "one.yaml")
    write(WRONG.format(name="two"), "two.yaml")
    write("- [", "three.yaml")

    for option in ("--check", "--prune", "--json"):
        result = oncue("apply", "one.yaml", "three.yaml", "two.yaml", option)

        assert (result.exit_code, result.stdout) == (1, "")
        if option == "--json":
            continue
        lines = sorted(result.stderr.splitlines())
        three = "three.yaml, line 1, column 4: expected the node content, but found '<stream end>'"
        told = [TOLD.format(file=f"{name}.yaml", name=name).splitlines() for name in ("one", "two")]
        assert lines == sorted([three, *told[0], *told[1]])
    documents = json.loads("[" + result.stderr.replace("\n}\n{", "\n},{").replace("}\n{", "},{") + "]")
    assert [len(one["errors"]) for one in documents] == [5, 11, 11]
    assert documents[1]["errors"][1] == {
        "path": "jobs.0.overlap",
        "code": "unknown_value",
        "message": "'sometimes' is not one of queue, skip, allow, replace",
        "place": "one.yaml:10",
    }
    assert oncue("jobs", "list", "--tag", "applied:one", "--json").stdout.count("job_id") == 0


def test_very_many_problems_are_counted(oncue: Oncue) -> None:
    write("set: many\ncolour: 1\njobs:\n" + "- {key: a, key: b, overlap: x, timeout: 5}\n" * 5_000)

    result = oncue("apply", "jobs.yaml")

    lines = result.stderr.splitlines()
    assert (result.exit_code, len(lines)) == (1, 202)
    assert lines[100] == "and 4,901 more problems"
    assert re.fullmatch(r"and (at least )?[\d,]+ more problems", lines[201])


def test_a_job_that_is_no_object_is_named(oncue: Oncue) -> None:
    write("- hello\n- {key: a, task: hello}\n-\n")

    result = oncue("apply", "jobs.yaml")

    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "jobs.yaml:1: jobs.0: must be an object with the fields of a job",
        "jobs.yaml:3: jobs.2: must be an object with the fields of a job",
    ]


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
            ("set: a\njobs: []\ncolour: red", "jobs.yaml:3: colour: unknown field; a file has set and jobs"),
            ("set: [a]\njobs: []", "jobs.yaml:1: set: must be the name of the set, like shop, not a list"),
            ("- key: a\n  task: b\n  task: c", "jobs.yaml, line 3, column 3: 'task' appears twice"),
            ("- {1: a}", "jobs.yaml, line 1, column 4: the name 1 is not text"),
            ("- key: [a", "jobs.yaml, line 1"),
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
            ("- {key: a, ? !!str [b] : c}", "jobs.yaml, line 1, column 14: the name of a field is not text"),
            (f"- {{key: a, payload: {{x: {'9' * 5_000}}}}}", "jobs.yaml: Exceeds the limit"),
            (f"- {'[' * 600}", "jobs.yaml: is nested too deeply"),
            ("- !!python/object:os.system a", "jobs.yaml, line 1"),
        ],
        ids=lambda one: one[:50],
    )
    def test_what_is_wrong_is_told_with_its_place(self, server: Standin, text: str, said: str) -> None:
        write(text)

        result = apply()

        assert result.exit_code == 1
        assert result.stderr.startswith(said)
        assert all(dry for *_, dry in asked(server))

    def test_a_file_that_is_not_there(self, server: Standin) -> None:
        result = command("apply", "nowhere.yaml")

        assert result.exit_code == 1
        assert "nowhere.yaml: cannot be read" in result.stderr

    def test_an_empty_argument_is_not_this_folder(self, server: Standin) -> None:
        write("set: a\njobs: []")

        result = command("apply", "", "jobs.yaml")

        assert (result.exit_code, "an argument is empty" in result.stderr) == (2, True)
        assert server.requests == []

    @pytest.mark.parametrize("name", ["x" * 300 + ".yaml", "x" * 300 + "-y", "x" * 300 + ".py"])
    def test_a_name_that_no_file_can_have_is_refused(self, server: Standin, name: str) -> None:
        result = command("apply", name)

        assert (result.exit_code, result.stderr.splitlines()[-1].endswith("cannot be read: File name too long")) == (
            1,
            True,
        )

    def test_what_cannot_be_sent_is_refused_with_its_job_and_field(self, server: Standin) -> None:
        write(r'[{"key": "a"}, {"key": "b", "task": "t", "payload": {"x": ["\ud800"], "n": 99999999999999999999}}]')

        result = apply()

        assert (result.exit_code, result.stderr.splitlines()) == (
            1,
            [
                "jobs.yaml:1: b: payload.x.0: has a NUL or half a surrogate pair, which cannot be stored; remove it",
                "jobs.yaml:1: b: payload.n: does not fit into 64 bits; write it as a string",
            ],
        )
        assert server.requests == []

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

    def test_parts_can_be_shared_and_overridden(self, tmp_path: Path) -> None:
        file = tmp_path / "x.yaml"
        file.write_text("- &a {key: a, task: t, queue: q}\n- &b {<<: *a, key: b}\n- {<<: *b, key: c, queue: r}")

        assert read_job_file(file).jobs[2] == {"key": "c", "task": "t", "queue": "r"}

    def test_the_set_is_called_like_the_file_unless_it_says_otherwise(self, tmp_path: Path) -> None:
        file = tmp_path / "shop.yaml"
        file.write_text("[]")
        assert (read_job_file(file).set, read_job_file(file).named) == ("shop", False)
        file.write_text("{set: other, jobs: []}")
        assert (read_job_file(file).set, read_job_file(file).named) == ("other", True)

    def test_files_with_the_same_name_are_no_set(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "jobs.yaml").write_text("- {key: x}")

        _, [problem] = read_job_sets([str(tmp_path / "a"), str(tmp_path / "b")])
        assert "name the set in both files" in problem.message
        (tmp_path / "empty").mkdir()
        _, [problem] = read_job_sets([str(tmp_path / "empty")])
        assert "has no file that ends with" in problem.message


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


CODE = """
import oncue
tasks = oncue.Tasks({name})

@tasks.task(schedule=oncue.cron("0 9 * * 1-5", "Europe/Berlin"), payload={{"to": "ops"}})
def {task}(to: str) -> None: ...

{task}.using(key="{task}-eu").declare("every 1h", to="eu")
"""


def write_code(task: str, name: str, file: str) -> None:
    """A Python file that declares two schedules; each test has its own, because a module is imported once."""
    write(CODE.format(task=task, name=name), file)
    os.utime(file, (1_700_000_000, 1_700_000_000))


class TestCode:
    def test_a_file_or_module_is_a_declaration_with_the_time_of_its_file_as_the_stamp(self, server: Standin) -> None:
        write_code("one", '"shop"', "shop_code.py")

        assert command("apply", "shop_code.py", "--prune").exit_code == 0
        assert command("apply", "shop_code:tasks", "--stamp", "7").exit_code == 0
        first, second = (request.body for request in server.requests)
        assert (first["set"], first["prune"], first["stamp"]) == ("shop", True, 1_700_000_000)
        assert first["jobs"] == [
            {"key": "one", "task": "one", "schedule": {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"},
             "payload": {"to": "ops"}},
            {"key": "one-eu", "task": "one", "schedule": "every 1h", "payload": {"to": "eu"}},
        ]  # fmt: skip
        assert (second["jobs"], second["prune"], second["stamp"]) == (first["jobs"], False, 7)

    def test_without_a_name_each_schedule_is_its_own_set_and_none_is_pruned(self, server: Standin) -> None:
        write_code("two", "", "unnamed_code.py")

        assert command("apply", "unnamed_code.py", "--check").exit_code == 1
        assert asked(server) == [("key:two", ["two"], True), ("key:two-eu", ["two-eu"], True)]
        refused = command("apply", "unnamed_code.py", "--prune")
        assert refused.stderr.splitlines() == [
            f"set: --prune needs the name of the set in unnamed_code.py:{line}, like Tasks('shop')" for line in (5, 8)
        ]

    def test_an_error_names_the_place_in_the_code(self, server: Standin, answers: Server) -> None:
        write_code("three", '"shop"', "wrong_code.py")
        answers.errors = {"shop": [{"path": "jobs.1.task", "code": "unknown_task", "message": "is not registered"}]}

        refused = command("apply", "wrong_code.py")
        assert refused.stderr == "wrong_code.py:8: three-eu: task: is not registered\n"

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("nowhere.tasks", "FILE: there is no module 'nowhere.tasks'"),
            ("nowhere.py", "FILE: there is no file nowhere.py"),
            ("nowhere.yaml", "nowhere.yaml: cannot be read"),
            ("idle_code.py", "idle_code.py: declares no schedule"),
        ],
    )
    def test_what_declares_nothing_is_refused(self, source: str, said: str) -> None:
        write("import oncue\ntasks = oncue.Tasks()\n@tasks.task\ndef idle(): ...\n", "idle_code.py")

        refused = command("apply", source)
        assert (refused.exit_code, refused.stderr.startswith(said)) == (1, True), refused.stderr


def test_what_a_real_server_reads_back_is_seen_to_be_unchanged(oncue: Oncue) -> None:
    name = str(uuid4())
    jobs = [{"task": "hello", "key": f"{name}-{n}", **one} for n, one in enumerate(DEFINITIONS)]
    write(json.dumps({"set": name, "jobs": [*jobs, {"task": "hello", "key": f"{name}-t", "tags": None}]}))

    refused = oncue("apply", "jobs.yaml", "--check")
    assert (refused.exit_code, refused.stdout.splitlines()[0]) == (1, "create 8 (dry run: nothing was applied)")
    assert oncue("apply", "jobs.yaml").stdout.startswith("create 8\n")
    again = oncue("apply", "jobs.yaml", "--check")
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "unchanged 8 (dry run: nothing was applied)")
    write(json.dumps({"set": name, "jobs": []}))
    assert oncue("apply", "jobs.yaml", "--prune").stdout.startswith("prune ")


def test_a_dry_run_refuses_what_apply_would(oncue: Oncue) -> None:
    one, two = "{key: one, task: no_such_task, schedule: 0 9 * * *}", "{key: two, task: hello, tags: 5}"
    write(f"set: acc\njobs:\n- {one}\n- {two}\n")

    for options in ((), ("--dry-run",), ("--check",)):
        result = oncue("apply", "jobs.yaml", *options)
        assert (result.exit_code, result.stdout) == (1, "")
        assert [re.split("[;.,] ", line)[0] for line in result.stderr.splitlines()] == [
            "jobs.yaml:3: one: task: task 'no_such_task' is not registered",
            "jobs.yaml:4: two: tags: must be a list of strings",
        ]
