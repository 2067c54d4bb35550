"""Jobs and runs by the end of their id, by key or name; several at once; what was typed wrong."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.conftest import StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import on_a_terminal

from oncue.cli.main import main
from oncue.cli.time_option import local_zone
from oncue.domain.instants import SECOND
from oncue.testing.clock import FakeClock

J1 = "01990000-0000-7000-8000-00000000aaa1"
J2 = "01990000-0000-7000-8000-00000000bbb2"
R1 = "01990000-0000-7000-8000-00000000ccc3"


def job(job_id: str, **more: Any) -> dict[str, Any]:
    return {"job_id": job_id, "task": "hello", "status": "active", "name": "greeting", "version": 3, **more}


def run(run_id: str, **more: Any) -> dict[str, Any]:
    return {"run_id": run_id, "job_id": J1, "task": "hello", "status": "running", **more}


class Known:
    """A server that knows what look-ups find, and answers everything else with the object that the path names."""

    def __init__(self, **found: dict[str, list[dict[str, Any]]]) -> None:
        self.found = found
        self.jobs = {J1: job(J1), J2: job(J2)}

    def __call__(self, request: Request) -> Said:
        match request.method, request.parts:
            case "GET", ["lookup"]:
                return 200, self.found.get(request.query["q"], {})
            case "GET", ["runs"]:
                return 200, {"runs": [run(R1)], "next_page_token": None}
            case _, ["jobs", job_id, *_] if job_id in self.jobs:
                if request.method == "PATCH":
                    self.jobs[job_id] |= {**request.body, "version": self.jobs[job_id]["version"] + 1}
                return 200, self.jobs[job_id]
            case _, ["runs", run_id, *_] if run_id == R1:
                return 200, run(R1)
        return 404, {"title": "Not Found", "status": 404, "detail": "Not found. Check the id."}


def by(match: str, *ids: str) -> dict[str, list[dict[str, Any]]]:
    return {"jobs": [{**job(one), "match": match} for one in ids]}


class TestAddressing:
    def test_a_full_id_is_not_looked_up(self, stand_in: StandIn) -> None:
        server = stand_in(Known())

        assert command("jobs", "pause", J1).stdout == f'Paused job {J1} "greeting".\n'
        assert server.lines == [f"POST /v1/jobs/{J1}/pause"]

    @pytest.mark.parametrize("match", ["ending", "beginning", "key", "name"])
    def test_the_strongest_match_is_meant(self, stand_in: StandIn, match: str) -> None:
        found = {"jobs": [*by(match, J1)["jobs"], *by("ended_name", J2)["jobs"], *by("prefix", J2)["jobs"]]}
        server = stand_in(Known(x1=found))

        assert command("jobs", "pause", "x1", "-q").stdout == f"{J1}\n"
        assert server.requests[0].query == {"q": "x1", "kind": "job,task"}

    def test_several_that_match_alike_are_shown_and_none_is_touched(self, stand_in: StandIn) -> None:
        server = stand_in(Known(greeting=by("name", J1, J2)))

        result = command("jobs", "cancel", "greeting")

        assert (result.exit_code, result.stdout) == (1, "")
        first, head, *rows = result.stderr.splitlines()
        assert first == "Several jobs match 'greeting'. Use the id of one, such as:"
        assert (head.split(), [row.split()[0] for row in rows]) == (
            ["ID", "NAME", "KEY", "STATUS", "TASK"],
            ["0000aaa1", "0000bbb2"],
        )
        assert server.lines == ["GET /v1/lookup"]

    def test_what_only_begins_so_is_suggested_and_not_touched(self, stand_in: StandIn) -> None:
        server = stand_in(Known(greet=by("prefix", J1)))

        result = command("jobs", "cancel", "greet")

        assert result.exit_code == 1
        assert result.stderr.startswith(
            "No job matches 'greet'. Did you mean 'greeting'? Use an id, the last 6 or more"
        )
        assert server.lines == ["GET /v1/lookup"]

    def test_an_ended_job_is_found_by_name_with_a_note(self, stand_in: StandIn) -> None:
        stand_in(Known(greeting={"jobs": [{**job(J1), "match": "ended_name", "status": "finished"}]}))

        result = command("jobs", "show", "greeting", "-q")

        assert (result.stdout, result.stderr) == (f"{J1}\n", 'Job 0000aaa1 "greeting" has ended: finished.\n')

    def test_a_run_by_the_name_of_its_job_is_the_newest(self, stand_in: StandIn) -> None:
        server = stand_in(Known(greeting=by("name", J1)))

        result = command("runs", "cancel", "greeting", "-q")

        assert result.stdout == f"{R1}\n"
        assert result.stderr == 'Run 0000ccc3 is the newest of job 0000aaa1 "greeting".\n'
        assert server.requests[1].query == {"job_id": J1, "limit": "1"}

    @pytest.mark.parametrize(("group", "act"), [("runs", "show"), ("jobs", "cancel")])
    def test_a_task_is_no_run_or_job_and_the_list_of_its_own_is_named(
        self, stand_in: StandIn, group: str, act: str
    ) -> None:
        task = {"tasks": [{"name": "hello", "match": "name"}]}
        stand_in(Known(hello={**task, **by("prefix", J1)}))

        said = command(group, act, "hello").stderr

        assert said == f"'hello' is a task; see `oncue {group} list --task hello` for the ids of its {group}.\n"

    def test_filters_take_names_too(self, stand_in: StandIn) -> None:
        box = {"workers": [{"worker_id": J2, "name": "box", "match": "name"}]}
        server = stand_in(Known(greeting=by("name", J1), box=box))

        command("runs", "list", "--job", "greeting", "--worker", "box", "--error-type", "ValueError", "--trigger",
                "requeue", "--ended-from", "2027-01-01T00:00:00Z", "--ended-until", "2027-01-02T00:00:00Z")  # fmt: skip

        assert server.requests[2].query == {
            "job_id": J1, "worker_id": J2, "error_type": "ValueError", "trigger": "requeue", "limit": "50",
            "ended_after": "2027-01-01T00:00:00.000Z", "ended_before": "2027-01-02T00:00:00.000Z",
        }  # fmt: skip


class TestSeveral:
    def test_one_that_fails_does_not_stop_the_others(self, stand_in: StandIn) -> None:
        server = stand_in(Known(x1=by("ending", J1)))

        result = command("jobs", "pause", "x1", "nowhere", J2)

        assert (result.exit_code, result.stdout.count("Paused job")) == (1, 2)
        assert result.stderr.startswith("nowhere: No job matches 'nowhere'.")
        assert [line for line in server.lines if "pause" in line] == [
            f"POST /v1/jobs/{J1}/pause", f"POST /v1/jobs/{J2}/pause"]  # fmt: skip

    def test_as_json_there_is_one_object_after_the_other(self, stand_in: StandIn) -> None:
        stand_in(Known())
        missing = J1.replace("a", "d")

        result = command("jobs", "show", J1, J2, missing, "--json")

        first, end = json.JSONDecoder().raw_decode(result.stdout)
        second = json.loads(result.stdout[end:])
        assert (result.exit_code, first["job_id"], second["job_id"]) == (1, J1, J2)
        assert (json.loads(result.stderr)["argument"], json.loads(result.stderr)["status"]) == (missing, 404)

    def test_a_dash_reads_them_from_standard_input(self, stand_in: StandIn) -> None:
        server = stand_in(Known())

        result = command("jobs", "pause", "-", "-q", stdin=f"{J1}\n\n {J2} \n{J1}\n")
        empty = command("dead", "requeue", "-", stdin="")

        assert (result.exit_code, result.stdout) == (0, f"{J1}\n{J2}\n")
        assert len(server.requests) == 2
        assert (empty.exit_code, empty.stderr) == (0, "Standard input is empty; nothing to do.\n")

    def test_an_empty_argument_is_not_an_empty_list(self, stand_in: StandIn) -> None:
        server = stand_in(Known())

        result = command("jobs", "cancel", "")

        assert (result.exit_code, "an argument is empty" in result.stderr) == (2, True)
        assert server.requests == []

    def test_a_text_that_can_name_nothing_is_refused_as_the_argument(self, stand_in: StandIn) -> None:
        errors = [{"path": "q", "code": "too_long", "message": "is too long"}]
        stand_in(lambda _: (422, {"title": "Unprocessable Content", "status": 422, "errors": errors}))

        one, several = command("runs", "show", "y" * 500), command("jobs", "pause", "a\nb", "y" * 500)

        assert (one.exit_code, one.stderr) == (1, "RUN: is too long\n")
        first, second = several.stderr.splitlines()
        assert (first, second.endswith("…: JOB: is too long"), len(second) < 200) == (
            r"a\nb: JOB: is too long",
            True,
            True,
        )

    def test_dead_letters_that_are_found_are_requeued_although_one_is_not(self, stand_in: StandIn) -> None:
        server = stand_in(Known())
        known = server.answer
        server.answer = lambda request: (
            (200, {"count": 1, "run_ids": [J2]}) if "requeue" in request.path else known(request)
        )

        result = command("dead", "requeue", "nowhere", R1)

        assert (result.exit_code, result.stdout) == (1, f"Run {R1} runs again as run {J2}.\n")
        assert server.requests[-1].body == {"run_ids": [R1]}

    def test_a_job_stands_for_its_newest_letter_that_is_open(self, stand_in: StandIn) -> None:
        pages: list[Any] = [([], "more"), ([run(R1, status="dead")], None)]

        def answer(request: Request) -> Said:
            match request.parts:
                case ["dead-letters"]:
                    letters, token = pages[1 if "page_token" in request.query else 0]
                    return 200, {"dead_letters": letters, "next_page_token": token}
                case ["dead-letters", _]:
                    return 202, {"count": 1, "run_ids": [J2]}
                case ["runs"]:
                    return 200, {"runs": [run(J2, status="dead")], "next_page_token": None}
            return Known(greeting=by("name", J1))(request)

        server = stand_in(answer)

        assert command("dead", "requeue", "greeting").exit_code == 0
        assert server.requests[1].query == {"job_id": J1, "limit": "1"}
        assert server.requests[-1].body == {"run_ids": [R1]}

        pages[1] = ([], None)
        none = command("dead", "requeue", "greeting")
        assert (none.exit_code, none.stderr) == (1, 'Job 0000aaa1 "greeting" has no dead letter.\n')
        command("dead", "show", "greeting")
        assert server.lines[-1] == f"GET /v1/runs/{J2}", "one that was requeued, since none is open"


class TestLettersOfATask:
    """The name of a task is its newest dead letter; which one of several is run again or discarded is not guessed."""

    @staticmethod
    def holding(*letters: str) -> Any:
        def answer(request: Request) -> Said:
            match request.parts:
                case ["lookup"]:
                    return 200, {"tasks": [{"name": "charge", "match": "name"}], **by("prefix", J1)}
                case ["dead-letters"]:
                    found = [run(one, status="dead", task="charge") for one in letters]
                    return 200, {"dead_letters": found, "next_page_token": None}
                case ["dead-letters", _]:
                    return 202, {"count": 1, "run_ids": [J2]}
                case ["runs"]:
                    return 200, {"runs": [run(R1, status="dead")], "next_page_token": None}
            return 200, run(request.parts[1], status="dead", payload={"order": 4})

        return answer

    def test_the_newest_is_shown_and_it_is_said_of_how_many(self, stand_in: StandIn) -> None:
        server = stand_in(self.holding(R1, J1, J2))

        several = command("dead", "show", "charge", "-q")

        assert (several.exit_code, several.stdout) == (0, f"{R1}\n")
        assert several.stderr == "Run 0000ccc3 is the newest of 3 dead letters of task charge.\n"
        assert server.requests[1].query == {"task": "charge", "limit": "20"}

        server.answer = self.holding(J1)
        assert command("dead", "show", "charge").stderr == "Run 0000aaa1 is the only dead letter of task charge.\n"
        server.answer = self.holding()
        assert command("dead", "show", "charge").stderr == "Run 0000ccc3 is the newest dead run of task charge.\n"
        none = command("dead", "requeue", "charge")
        assert (none.exit_code, none.stderr) == (1, "Task charge has no dead letter.\n")

    @pytest.mark.parametrize(("verb", "asks"), [("requeue", "Run it again"), ("discard", "Discard it")])
    def test_of_several_none_is_changed_without_a_yes(self, stand_in: StandIn, verb: str, asks: str) -> None:
        server = stand_in(self.holding(R1, J1, J2))

        refused = command("dead", verb, "charge")
        assert (refused.exit_code, refused.stdout) == (1, "")
        first, why, head, *rows = refused.stderr.splitlines()
        assert first == "Run 0000ccc3 is the newest of 3 dead letters of task charge."
        assert why.startswith("Task charge has 3 dead letters. Use the id of one, --yes for the newest, or")
        assert (head.split()[0], [row.split()[0] for row in rows]) == ("ID", ["0000ccc3", "0000aaa1", "0000bbb2"])
        asked = on_a_terminal("dead", verb, "charge", typed="n\n", ends=1)
        assert f"{asks}? [y/N]" in asked
        assert "Nothing was changed." in asked
        assert [line for line in server.lines if "POST" in line] == []

        on_a_terminal("dead", verb, "charge", typed="y\n")
        assert command("dead", verb, "charge", "--yes").exit_code == 0
        server.answer = self.holding(J1)
        assert command("dead", verb, "charge").exit_code == 0
        changed = [request.body for request in server.requests if request.method == "POST"]
        assert changed == [{"run_ids": [R1]}, {"run_ids": [R1]}, {"run_ids": [J1]}]


class TestLongSearches:
    async def test_a_filter_that_matches_little_ends_after_some_seconds_and_says_how_far(
        self, stand_in: StandIn
    ) -> None:
        clock, pages = FakeClock(), itertools.count(1)

        def answer(_: Request) -> Said:
            asyncio.run(clock.advance(SECOND))
            return 200, {"runs": [], "next_page_token": f"t{next(pages)}", "looked_back_to": "2027-01-01T00:00:00Z"}

        stand_in(answer)

        result = await asyncio.to_thread(
            CliRunner().invoke, main, ["runs", "list", "--task", "rare", "--utc"], obj=clock
        )

        assert result.stderr == "Searched back to 2027-01-01 00:00:00Z; continue with --page-token t5\n"


class TestEdit:
    def test_what_changed_is_printed_old_and_new_and_the_rest_is_kept(self, stand_in: StandIn) -> None:
        known = Known()
        known.jobs[J1] |= {
            "schedule": {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "jitter": "5s"},
            "priority": "low",
        }
        server = stand_in(known)

        result = command("jobs", "edit", J1, "--timezone", "Asia/Tokyo", "--priority", "low", "--name", "日\x1b[2J")

        assert server.requests[1].body["schedule"] == {"cron": "0 9 * * *", "timezone": "Asia/Tokyo", "jitter": "5s"}
        assert server.requests[1].headers["If-Match"] == '"3"'
        assert result.stdout.splitlines()[1:] == [
            "  name: greeting → 日\\u001b[2J",
            "  schedule.timezone: Europe/Berlin → Asia/Tokyo",
        ]
        same = command("jobs", "edit", J1, "--priority", "low").stdout
        assert same.startswith("Nothing changed in job")

    def test_a_job_that_changed_meanwhile_is_read_again(self, stand_in: StandIn) -> None:
        known, refused = Known(), [1]

        def answer(request: Request) -> Said:
            if request.method == "PATCH" and refused:
                refused.pop()
                known.jobs[J1] |= {"version": 4, "priority": "high"}
                return 412, {"title": "Stale", "status": 412}
            return known(request)

        server = stand_in(answer)

        result = command("jobs", "edit", J1, "--priority", "low")

        assert "priority: high → low" in result.stdout
        assert [request.headers.get("If-Match") for request in server.requests] == [None, '"3"', None, '"4"']


class TestEnqueue:
    def test_parameters_are_text_or_json(self, stand_in: StandIn) -> None:
        server = stand_in(lambda _: (201, job(J1, name=None, next_run_at="2027-01-01T00:00:00Z")))

        result = command("enqueue", "hello", "name=a=b", "n:=2", 'tags:=["x"]', "url=http://x:80", "--in", "10m",
                         "--queue", "mail", "--tag", "t")  # fmt: skip

        assert result.stdout == f"Created job {J1} of task hello. Runs now.\n"
        assert server.requests[0].body == {
            "task": "hello", "payload": {"name": "a=b", "n": 2, "tags": ["x"], "url": "http://x:80"},
            "schedule": "in 10m", "queue": "mail", "tags": ["t"],
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("parameters", "refused", "payloads"),
        [
            (("n=1",), {}, [{"n": "1"}]),
            (("n=1", "m=1"), {"n": "mismatch"}, [{"n": "1", "m": "1"}, {"n": 1, "m": "1"}]),
            (("n=one",), {"n": "mismatch"}, [{"n": "one"}]),
            (("n:=1",), {"n": "mismatch"}, [{"n": 1}]),
            (('n="1"',), {"n": "mismatch"}, [{"n": '"1"'}]),
            (("n=1",), {"n": "unknown_field"}, [{"n": "1"}]),
        ],
    )
    def test_only_a_refused_text_that_is_json_is_sent_once_more(
        self, stand_in: StandIn, parameters: tuple[str, ...], refused: dict[str, str], payloads: list[Any]
    ) -> None:
        errors = [{"path": f"payload.{name}", "code": code, "message": "no"} for name, code in refused.items()]
        server = stand_in(lambda _: (422, {"status": 422, "errors": errors}) if errors else (201, job(J1)))

        for create in (("enqueue", "hello"), ("jobs", "create", "--task", "hello")):
            server.requests.clear()
            assert command(*create, *parameters).exit_code == (1 if refused else 0)
            assert [request.body["payload"] for request in server.requests] == payloads

    def test_errors_name_what_was_typed(self, stand_in: StandIn) -> None:
        stand_in(
            lambda _: (422, {"title": "No", "status": 422, "errors": [
                {"path": "payload.nmae", "code": "unknown", "message": "is not a parameter of task 'hello'"},
                {"path": "schedule.at", "code": "bad", "message": "is not a time"}]})
        )  # fmt: skip

        result = command("enqueue", "hello", "nmae=you", "--in", "10m")

        assert (result.exit_code, result.stderr) == (
            1, "nmae: is not a parameter of task 'hello'\n--in: is not a time\n")  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("job list", "Error: No command 'job'; did you mean `oncue jobs`? See `oncue --help`.\n"),
        ("jobs lst", "Error: No command 'lst'; did you mean `oncue jobs list`? See `oncue jobs --help`.\n"),
        ("dead bury",
         "Error: No command 'bury'; `oncue dead` has list, show, requeue, discard. See `oncue dead --help`.\n"),
        ("logs", "Error: No command 'logs'; did you mean `oncue runs logs`? See `oncue --help`.\n"),
        ("retry x",
         "Error: No command 'retry'; did you mean `oncue runs retry` or `oncue dead requeue`? See `oncue --help`.\n"),
        ("status", "Error: No command 'status'; did you mean `oncue problems` or `oncue top`? See `oncue --help`.\n"),
        ("list",
         "Error: No command 'list'; did you mean `oncue jobs list` or `oncue runs list`? See `oncue --help`.\n"),
        ("delete", "Error: No command 'delete'; did you mean `oncue jobs cancel`, `oncue dead discard` or"
         " `oncue keys revoke`? See `oncue --help`.\n"),
        ("keys delete x", "Error: No command 'delete'; did you mean `oncue keys revoke`? See `oncue keys --help`.\n"),
        ("jobs logs x", "Error: No command 'logs'; did you mean `oncue runs logs`? See `oncue jobs --help`.\n"),
        ("sausage", "Error: No command 'sausage'. See `oncue --help`.\n"),
        ("jobs create --cron x",
         "Error: No option '--cron'; did you mean --schedule? See `oncue jobs create --help`.\n"),
        ("worker -A shop", "Error: No option '-A'; did you mean --tasks? See `oncue worker --help`.\n"),
        ("runs list --bogus", "Error: No option '--bogus'. See `oncue runs list --help`.\n"),
        ("runs list --cron x", "Error: No option '--cron'. See `oncue runs list --help`.\n"),
        ("runs list --stauts x", "Error: No option '--stauts'; did you mean --status? See `oncue runs list --help`.\n"),
        ("--verison", "Error: No option '--verison'; did you mean --version? See `oncue --help`.\n"),
        ("jobs pause", "Error: give either JOBs or --all with any filters. See `oncue jobs pause --help`.\n"),
        ("enqueue hello name", "Error: 'name' is not a parameter; write name=text, or name:=json like width:=200."
         " See `oncue enqueue --help`.\n"),
        ("enqueue hello n:=x",
         "Error: 'n:=x': what follows := is not JSON: JSON is malformed: invalid character (byte 0)."
         " See `oncue enqueue --help`.\n"),
        ("enqueue hello --schedule @daily",
         "Error: No option '--schedule'; use `oncue jobs create`, which has --schedule. See `oncue enqueue --help`.\n"),
        ("enqueue hello --every 5m",
         "Error: No option '--every'; use `oncue jobs create`, which has --schedule. See `oncue enqueue --help`.\n"),
        ("enqueue hello --order 1",
         "Error: No option '--order'; write order=1 for a parameter of the task. See `oncue enqueue --help`.\n"),
        ("enqueue hello --order-id=x&y",
         "Error: No option '--order-id'; write 'order_id=x&y' for a parameter of the task."
         " See `oncue enqueue --help`.\n"),
        ("enqueue hello --paid n=1",
         "Error: No option '--paid'; write paid:=true for a parameter of the task. See `oncue enqueue --help`.\n"),
        ("enqueue hello --wiat", "Error: No option '--wiat'; did you mean --wait? See `oncue enqueue --help`.\n"),
        ("jobs create --task t --payload {} n=1",
         "Error: Give one of --payload and parameters like name=text. See `oncue jobs create --help`.\n"),
        ("enqueue hello a=1 a=2", "Error: Parameter 'a' is given twice. See `oncue enqueue --help`.\n"),
        ("enqueue hello --in soon",
         "Error: Invalid value for '--in': 'soon' is not a duration like \"250ms\", \"30s\", \"5m\", \"2h\","
         ' "7d" or "PT1H".'
         " See `oncue enqueue --help`.\n"),
        ("apply x.yaml --stamp 99999999999999999999999",
         "Error: Invalid value for '--stamp': 99999999999999999999999 is not in the range 0<=x<=9007199254740991."
         " See `oncue apply --help`.\n"),
        ("jobs edit x --key y", "Error: No option '--key'. See `oncue jobs edit --help`.\n"),
        ("enqueue hello --in 1m --at now", "Error: Give one of --in and --at. See `oncue enqueue --help`.\n"),
        ("jobs run x --timeout 1m",
         "Error: --timeout needs --wait: it limits how long the command waits. See `oncue jobs run --help`.\n"),
        ("jobs create --task t --wait --schedule @daily",
         "Error: --wait needs a job that runs once; create it, then use `oncue jobs run JOB --wait`."
         " See `oncue jobs create --help`.\n"),
        ("runs list --from yesterday",
         "Error: Invalid value for '--from': 'yesterday' is not a time; write \"2027-01-31T09:00:00Z\", "
         '"2027-01-31 09:00" with a time zone, "in 10m" or "10m ago". See `oncue runs list --help`.\n'),
    ],
)  # fmt: skip
def test_one_line_says_what_to_type(arguments: str, said: str) -> None:
    result = command(*arguments.split())

    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


def test_a_group_without_a_command_lists_its_commands_in_order() -> None:
    said = command("dead").output

    assert [said.index(f"\n  {verb} ") for verb in ("list", "show", "requeue", "discard")] == sorted(
        said.index(f"\n  {verb} ") for verb in ("list", "show", "requeue", "discard")
    )


def test_local_times_are_shown_with_their_zone(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    server = stand_in(lambda _: (200, {"runs": [], "next_page_token": None}))

    result = command("runs", "list", "--from", "2027-01-31 09:00", "--until", "2027-02-01T00:00:00Z")

    assert server.requests[0].query["start_time"] == "2027-01-31T08:00:00.000Z"
    assert result.stderr.startswith("--from is 2027-01-31 ")
    command("jobs", "create", "--task", "hello", "--schedule", "2027-01-31 09:00")
    assert server.requests[1].body["schedule"] == {"at": "2027-01-31 09:00", "timezone": "Europe/Berlin"}


def test_a_time_zone_that_nobody_knows_is_not_taken_for_utc(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    server = stand_in(lambda _: (200, {"runs": [], "next_page_token": None}))
    monkeypatch.setenv("TZ", "CET-1CEST")

    result = command("runs", "list", "--from", "2027-01-31 09:00")

    assert (result.exit_code, "TZ=CET-1CEST is not an IANA time zone" in result.stderr) == (2, True)
    assert server.requests == []
    assert command("runs", "list", "--from", "10m ago").exit_code == 0


def test_the_time_zone_of_a_file_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zoneinfo" / "Europe").mkdir(parents=True)
    zone = tmp_path / "zoneinfo" / "Europe" / "Berlin"
    zone.touch()
    (tmp_path / "localtime").symlink_to(zone)
    monkeypatch.setenv("TZ", f":{tmp_path / 'localtime'}")

    assert local_zone().key == "Europe/Berlin"


def test_refusals_name_the_options_as_they_were_typed(stand_in: StandIn) -> None:
    def refuse(request: Request) -> Said:
        path = "end_time" if request.method == "GET" else "filter.end_time"
        return 422, {"status": 422, "errors": [{"path": path, "code": "x", "message": "must be later than start_time"}]}

    server = stand_in(refuse)
    window = ("--from", "1h ago", "--until", "2h ago")

    for typed in (("runs", "list"), ("dead", "list"), ("jobs", "pause", "--all", "-y")):
        assert command(*typed, *window).stderr == "--until: must be later than --from\n"
    errors = [{"path": path, "code": "x", "message": "is wrong"} for path in ("page_token", "tags.0", "payload.1")]
    server.answer = lambda _: (422, {"status": 422, "errors": errors})
    listed, created = command("jobs", "list"), command("jobs", "create", "--task", "hello")
    assert listed.stderr.splitlines()[0] == "--page-token: is wrong"
    assert created.stderr.splitlines()[1] == "--tag: is wrong"
    empty = [{"path": path, "code": "x", "message": "is empty"} for path in ("task", "action")]
    server.answer = lambda _: (422, {"status": 422, "errors": empty})
    assert command("upcoming", "--task", "").stderr.splitlines()[0] == "--task: is empty"
    assert command("audit", "--action", "").stderr.splitlines()[1] == "--action: is empty"


def test_remedies_name_commands_instead_of_calls(stand_in: StandIn) -> None:
    detail = "Job 1 already has this key. Replace it with PUT /v1/jobs/by-key/{key}, cancel it, or choose another key."
    stand_in(lambda _: (409, {"status": 409, "detail": detail}))

    said = command("jobs", "create", "--task", "hello", "--key", "used").stderr

    assert "Change it with `oncue jobs edit` or `oncue apply`, cancel it" in said


def test_the_audit_log_of_an_object_is_asked_for_by_what_its_table_shows(stand_in: StandIn) -> None:
    key = {"key_id": R1, "user_id": "ada", "role": "member"}
    known = Known(**{"00aaa1": by("ending", J1), "0199000000": by("beginning", J1, J2)})

    def answer(request: Request) -> Said:
        match request.parts:
            case ["audit"]:
                return 200, {"audit": [], "next_page_token": None}
            case ["keys"]:
                return 200, {"keys": [key]}
        return known(request)

    server = stand_in(answer)

    for typed, meant in ((J2, J2), ("00aaa1", J1), ("00ccc3", R1)):
        assert command("audit", "--object", typed).exit_code == 0
        assert server.requests[-1].query["object_id"] == meant
    several, unknown = (command("audit", "--object", typed) for typed in ("0199000000", "ffffff"))
    assert (several.exit_code, several.stderr.startswith("Several objects match '0199000000'.")) == (1, True)
    assert (unknown.exit_code, unknown.stderr.startswith("No job, run or key matches 'ffffff'.")) == (1, True)


def test_choices_are_on_the_line_of_the_error() -> None:
    said = command("keys", "create", "--user", "bob").stderr

    assert (
        said == "Error: Missing option '--role'. Choose from: admin, member, viewer. See `oncue keys create --help`.\n"
    )
