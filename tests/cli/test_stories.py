"""Whole stories of the client commands, against a real `oncue up`."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.cli.conftest import Oncue

NOBODY = "0198c0de-0000-7000-8000-000000000000"


def told(oncue: Oncue, *arguments: str) -> Any:
    result = oncue(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_job_is_made_run_and_read(oncue: Oncue) -> None:
    job = told(oncue, "jobs", "create", "--task", "hello", "--schedule", "0 9 1 1 *", "--timezone", "Europe/Berlin",
               "--payload", '{"name": "you"}', "--name", "greeting", "--tag", "a", "--tag", "b", "--queue", "default",
               "--max-retries", "0", "--field", "start_within=10m", "--field", 'retry={"factor": 3}')  # fmt: skip
    assert (job["schedule"]["cron"], job["schedule"]["timezone"]) == ("0 9 1 1 *", "Europe/Berlin")
    assert (job["payload"], job["tags"], job["start_within"]) == ({"name": "you"}, ["a", "b"], "10m")
    assert (job["max_retries"], job["retry"]["factor"]) == (0, 3)

    run = told(oncue, "jobs", "run", job["job_id"], "--wait", "--timeout", "30s")
    assert (run["status"], run["result"], run["job_id"]) == ("succeeded", "Hello, you!", job["job_id"])
    shown = oncue("runs", "show", run["run_id"]).stdout
    assert "\nstatus:         succeeded\n" in shown
    assert "\nattempts\nnumber\toutcome\tstarted\t" in shown
    listed = oncue("runs", "list", "--job", "greeting", "-o", "table").stdout.splitlines()
    assert [line.split()[:3] for line in listed[1:]] == [[run["run_id"][-8:], "greeting", "succeeded"]]
    assert "greeting you" in oncue("runs", "logs", run["run_id"]).stdout
    assert "greeting you" in oncue("runs", "logs", run["run_id"], "--follow").stdout
    assert "greeting you" in told(oncue, "runs", "logs", run["run_id"])["log"]
    assert told(oncue, "runs", "explain", run["run_id"])["reason"] == "finished"

    shown = oncue("jobs", "show", job["job_id"]).stdout
    assert shown.startswith(f"job {job['job_id']}\nname: ")
    assert "cron 0 9 1 1 *, timezone Europe/Berlin" in shown
    assert "succeeded" in shown


def test_an_edit_of_its_cron_leaves_its_time_zone(oncue: Oncue) -> None:
    job = told(oncue, "jobs", "create", "--task", "hello", "--schedule", "0 9 1 1 *", "--timezone", "Europe/Berlin")

    after = told(oncue, "jobs", "edit", job["job_id"], "--schedule", "0 10 1 1 *")["schedule"]
    assert (after["cron"], after["timezone"]) == ("0 10 1 1 *", "Europe/Berlin")
    after = told(oncue, "jobs", "edit", job["job_id"], "--timezone", "Asia/Tokyo")["schedule"]
    assert (after["cron"], after["timezone"]) == ("0 10 1 1 *", "Asia/Tokyo")


def test_a_job_is_paused_explained_resumed_and_cancelled(oncue: Oncue) -> None:
    job_id = told(oncue, "jobs", "create", "--task", "hello", "--schedule", "every 1h")["job_id"]

    assert oncue("jobs", "pause", job_id).stdout == f"Paused job {job_id} of task hello.\n"
    assert oncue("jobs", "explain", job_id).stdout.startswith("paused: ")
    assert told(oncue, "jobs", "resume", job_id, "--missed", "all")["status"] == "active"
    assert told(oncue, "jobs", "occurrences", job_id) == {
        "occurrences": [],
        "next_page_token": None,
        "looked_back_to": None,
    }
    assert told(oncue, "jobs", "cancel", job_id)["status"] == "cancelled"


def test_a_job_is_purged(oncue: Oncue) -> None:
    job_id, other = [
        told(oncue, "jobs", "create", "--task", "hello", "--schedule", "every 1h")["job_id"] for _ in range(2)
    ]
    assert oncue("jobs", "run", job_id, "--wait").exit_code == 0

    assert oncue("jobs", "cancel", job_id, "--purge").stdout == f"Purged job {job_id}.\n"
    assert told(oncue, "jobs", "cancel", other, "--purge", "--yes")["status"] == "cancelled"

    gone = oncue("jobs", "show", job_id)
    assert (gone.exit_code, "Not found" in gone.stderr) == (1, True)
    assert job_id not in oncue("runs", "list", "--json").stdout


def test_a_job_can_be_named_instead_of_its_id(oncue: Oncue) -> None:
    made = [
        told(oncue, "jobs", "create", "--task", "hello", "--schedule", "every 1h", "--name", "called so")["job_id"]
        for _ in range(2)
    ]

    none = oncue("jobs", "show", "called")
    several = oncue("jobs", "pause", "called so").stderr
    told(oncue, "jobs", "cancel", made[0])
    paused = told(oncue, "jobs", "pause", "called so")
    resumed = told(oncue, "jobs", "resume", made[1][-8:])
    told(oncue, "jobs", "cancel", "called so")
    ended = oncue("jobs", "show", "called so", "-q")

    assert several.startswith("Several jobs match 'called so'. Use the id of one, such as:\nID")
    assert all(job_id[-8:] in several for job_id in made)
    assert (paused["job_id"], paused["status"], resumed["status"]) == (made[1], "paused", "active")
    assert (ended.stdout, ended.stderr) == (f"{made[1]}\n", f'Job {made[1][-8:]} "called so" has ended: cancelled.\n')
    assert none.exit_code == 1
    assert none.stderr.startswith("No job matches 'called'. Did you mean 'called so'? Use an id, the last 6")


def test_a_definition_from_a_file_and_from_standard_input(oncue: Oncue) -> None:
    definition = '{"task": "hello", "schedule": "every 1h", "name": "from a file"}'

    result = oncue("jobs", "create", "--file", "-", "--name", "mine", "--json", stdin=definition)
    by_payload = oncue("jobs", "create", "--task", "hello", "--payload", "@-", "--json", stdin='{"name": "in"}')

    assert json.loads(result.stdout)["name"] == "mine"
    assert json.loads(result.stdout)["schedule"]["every"] == "1h"
    assert json.loads(by_payload.stdout)["payload"] == {"name": "in"}


def test_a_run_that_failed_is_a_dead_letter_that_can_be_requeued(oncue: Oncue) -> None:
    made = told(oncue, "jobs", "create", "--task", "command", "--payload", '{"argv": ["false"]}', "--max-retries", "0")
    waited = oncue("runs", "wait", made["job_id"], "--timeout", "30s")

    assert waited.exit_code == 1
    assert "dead" in waited.stdout
    assert made["job_id"] in oncue("dead", "list").stdout
    letter = told(oncue, "dead", "show", made["job_id"])
    assert letter["payload"]["argv"] == ["false"]
    assert '{"argv":["false"]' in oncue("dead", "show", made["job_id"]).stdout
    again = told(oncue, "dead", "requeue", made["job_id"])
    assert again["count"] == 1
    assert oncue("runs", "wait", again["run_ids"][0]).exit_code == 1
    [second] = again["run_ids"]
    for verb in (("dead", "requeue"), ("runs", "retry")):
        followed = oncue(*verb, second, "--wait", "--timeout", "30s")
        assert (followed.exit_code, " is dead: " in followed.stdout) == (1, True)
        said, _, third = followed.stderr.splitlines()[0].removesuffix(".").rpartition(" ")
        assert said == f"Run {second} runs again as run"
        second = third
    as_json = oncue("runs", "retry", second, "--wait", "--json")
    last = json.loads(as_json.stdout)
    assert (as_json.exit_code, last["status"]) == (1, "dead")
    retried = oncue("runs", "retry", last["run_id"])
    assert retried.stdout.startswith(f"Run {last['run_id']} runs again as run ")


class TestRefusals:
    def test_fields_are_named_as_options_are(self, oncue: Oncue) -> None:
        result = oncue("jobs", "create", "--task", "helo", "--schedule", "99 * * * *", "--field", "colour=red")

        assert (result.exit_code, result.stdout) == (1, "")
        lines = sorted(line.partition(": ")[0] for line in result.stderr.splitlines())
        assert lines == ["--schedule", "--task", "colour"]

    def test_as_json_it_is_the_problem_on_standard_error(self, oncue: Oncue) -> None:
        result = oncue("jobs", "create", "--task", "helo", "--json")

        assert (result.exit_code, result.stdout) == (1, "")
        problem = json.loads(result.stderr)
        assert (problem["status"], [one["path"] for one in problem["errors"]]) == (422, ["task"])

    def test_what_is_not_there(self, oncue: Oncue) -> None:
        for arguments in (("jobs", "show", NOBODY), ("runs", "logs", NOBODY), ("dead", "show", NOBODY)):
            result = oncue(*arguments)
            assert (result.exit_code, result.stdout) == (1, "")
            assert "Not found. Check the id" in result.stderr

    def test_a_run_that_has_ended_cannot_be_cancelled(self, oncue: Oncue) -> None:
        job_id = told(oncue, "jobs", "create", "--task", "hello")["job_id"]
        assert oncue("runs", "wait", job_id).exit_code == 0

        assert "already ended: succeeded" in oncue("runs", "cancel", job_id).stderr
        refused = oncue("runs", "cancel", job_id, "--json")
        assert (refused.exit_code, json.loads(refused.stderr)["run_status"]) == (1, "succeeded")
        assert "not a dead letter" in oncue("dead", "show", job_id).stderr

    def test_an_unknown_task_is_named_with_the_likely_one(self, oncue: Oncue) -> None:
        for arguments in (("enqueue", "helo"), ("jobs", "create", "--task", "helo")):
            refused = oncue(*arguments)
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert "task 'helo' is not registered; did you mean 'hello'? Registered: " in refused.stderr
            assert refused.stderr.endswith("; check the spelling, or start a worker that has this task\n")

    def test_a_bad_key_is_told_with_where_keys_come_from(self, oncue: Oncue, monkeypatch: Any) -> None:
        monkeypatch.setenv("ONCUE_API_KEY", "oc_nobody")

        result = oncue("jobs", "show", NOBODY)

        assert result.exit_code == 1
        assert "ONCUE_API_KEY" in result.stderr


def test_tasks_are_registered_before_a_worker_has_them(oncue: Oncue, tmp_path: Path) -> None:
    name = f"mail-{uuid4()}"
    (tmp_path / "mail.py").write_text(
        "from oncue import Tasks\ntasks = Tasks()\n"
        f"@tasks.task({name!r}, timeout='5s')\ndef mail(ctx, to: str) -> None: ...\n"
    )

    assert oncue("jobs", "create", "--task", name, "--payload", '{"to": "a"}').exit_code == 1
    assert oncue("tasks", "register", "mail.py").stdout == f"Registered {name}.\n"
    job = told(oncue, "jobs", "create", "--task", name, "--payload", '{"to": "a"}', "--schedule", "@yearly")
    assert job["timeout"] == "5s"
    assert oncue("jobs", "create", "--task", name).exit_code == 1
    assert oncue("jobs", "cancel", job["job_id"]).exit_code == 0
    nothing = oncue("tasks", "register", "nowhere.py")
    assert nothing.exit_code == 1
    assert "nowhere.py" in nothing.stderr


def test_a_text_becomes_the_number_that_the_task_takes_and_stays_text_where_it_takes_text(
    oncue: Oncue, tmp_path: Path
) -> None:
    name = f"receipt-{uuid4()}"
    (tmp_path / "shop.py").write_text(
        "from typing import Annotated\nfrom msgspec import Meta\nfrom oncue import Tasks\ntasks = Tasks()\n"
        f"@tasks.task({name!r})\ndef receipt(ctx, order: int, note: str = '', no: str | int = '', paid: bool = False,\n"
        "            cents: float | None = None, tags: list[str] | None = None,\n"
        "            copies: Annotated[int, Meta(le=9)] = 1) -> None: ...\n"
    )
    assert oncue("tasks", "register", "shop.py").exit_code == 0

    given = ("order=1", "note=2", "no=3", "paid=true", "cents=1.5", 'tags=["4"]')
    job = told(oncue, "enqueue", name, *given, "--in", "1h")
    often = told(oncue, "jobs", "create", "--task", name, *given, "--schedule", "every 1h")
    not_json = oncue("enqueue", name, "order=one", "paid=yes", "tags=4", "note=2")
    incomplete = oncue("enqueue", name, "paid=true", "order=1.5", "nota=5")
    too_many = oncue("enqueue", name, "order=1", "copies=10")

    assert job["payload"] == {"order": 1, "note": "2", "no": "3", "paid": True, "cents": 1.5, "tags": ["4"]}
    assert often["payload"] == job["payload"]
    assert sorted(not_json.stderr.splitlines()) == [
        'order: "one" is not of type "integer"; write a whole number, like order:=7',
        'paid: "yes" is not of type "boolean"; write true or false, like paid:=true',
        """tags: "4" is not of types "array", "null"; write an array, like 'tags:=["a", "b"]'""",
    ]
    assert sorted(incomplete.stderr.splitlines()) == [
        f"nota: is not a parameter of task {name!r}",
        'order: "1.5" is not of type "integer"; write a whole number, like order:=7',
    ]
    assert too_many.stderr == "copies: 10 is greater than the maximum of 9\n"


def test_a_new_job_that_no_worker_can_run_says_so_instead_of_that_it_runs(oncue: Oncue) -> None:
    queue = f"q{uuid4()}"
    lacks = f"No live worker with the task 'hello' takes runs from the queue '{queue}'."
    words = f"{lacks} Start a worker with --tasks FILE.py --queues {queue}."

    now = oncue("enqueue", "hello", "--queue", queue)
    later = oncue("jobs", "create", "--task", "hello", "--queue", queue, "--schedule", "every 1h")
    as_json = told(oncue, "enqueue", "hello", "--queue", queue)
    fine = oncue("enqueue", "hello")

    assert now.stdout.endswith(f" of task hello. It waits for a worker. {words}\n")
    assert later.stdout.endswith(f" {words}\n")
    assert ". Runs every 1h, next " in later.stdout
    assert as_json["warnings"] == [{"path": "queue", "code": "no_worker", "message": words}]
    assert fine.stdout.endswith(" of task hello. Runs now.\n")
