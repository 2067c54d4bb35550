"""What client commands ask, print and end with; against stand-ins where the story does not need a server."""

import json
import os
import signal
import socket
import subprocess
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import click
import pytest
from tests.cli.conftest import Oncue, StandIn, command
from tests.cli.standin import LateLog, Request, Said
from tests.cli.terminal import ONCUE, Terminal, on_a_terminal
from tests.examples.server import PATIENCE
from tests.whole_job import whole_job

from oncue.cli.main import COMMANDS, main
from oncue.cli.showing import ONLY_IN_JSON
from oncue.cli.top import SeenWorkers
from oncue.domain.instants import SECOND, parse_duration
from oncue.shapes.fleet import Worker
from oncue.testing.clock import FakeClock

J1 = "01990000-0000-7000-8000-000000000001"
J2 = "01990000-0000-7000-8000-000000000002"
R1 = "01990000-0000-7000-8000-0000000000a1"
R2 = "01990000-0000-7000-8000-0000000000a2"
T1, T2 = "2027-01-01T00:00:00.000Z", "2027-01-02T00:00:00.000Z"
JOB = {
    "job_id": J1,
    "task": "hello",
    "status": "active",
    "name": "greeting",
    "next_run_at": "2026-11-16T08:00:00.000Z",
    "last_run": {"run_id": R1, "status": "dead"},
    "new_in_the_next_version": True,
}
RUN = {
    "run_id": R1,
    "job_id": J1,
    "task": "hello",
    "status": "dead",
    "scheduled_for": "2026-11-16T08:00:00.000Z",
    "attempt_number": 2,
    "error_message": "it\nbroke \x1b[31mbadly",
}
LISTED = f"""\
id\tname\tstatus\tschedule\tnext\tlast\tran\ttask\tqueue\tkey\ttags\towner
{J1}\tgreeting\tactive\tnow\t2026-11-16T08:00:00.000Z\tdead\t\thello\tdefault\t\t\t
{J2}\tgreeting\tactive\tnow\t2026-11-16T08:00:00.000Z\tdead\t\thello\tdefault\t\t\t
"""


def pages_of(name: str, *pages: tuple[list[Any], str | None]) -> Any:
    tokens = [None, *(token for _, token in pages)]

    def answer(request: Request) -> Said:
        items, token = pages[tokens.index(request.query.get("page_token"))]
        return 200, {name: items, "next_page_token": token}

    return answer


class TestLists:
    def test_a_table_in_a_pipe(self, stand_in: StandIn) -> None:
        stand_in(pages_of("jobs", ([JOB], "t1"), ([], "t2"), ([{**JOB, "job_id": J2}], None)))

        result = command("jobs", "list")

        assert (result.exit_code, result.stdout, result.stderr) == (0, LISTED, "")

    def test_as_json_it_is_a_page_just_as_the_api_has_it(self, stand_in: StandIn) -> None:
        stand_in(pages_of("jobs", ([JOB], "t1"), ([JOB], None)))

        result = command("jobs", "list", "--json")

        assert json.loads(result.stdout) == {"jobs": [JOB, JOB], "next_page_token": None, "looked_back_to": None}

    def test_no_more_than_the_limit_and_how_to_go_on(self, stand_in: StandIn) -> None:
        server = stand_in(pages_of("jobs", ([JOB], "t1"), ([JOB], "t2")))

        result = command("jobs", "list", "--limit", "2")

        assert [request.query["limit"] for request in server.requests] == ["2", "1"]
        assert result.stderr == "More jobs exist; raise --limit, or continue with --page-token t2\n"
        assert command("jobs", "list", "--limit", "1", "--page-token", "t1", "-q").stdout == f"{J1}\n"
        assert server.requests[-1].query == {"limit": "1", "page_token": "t1"}

    def test_filters_are_those_of_the_api(self, stand_in: StandIn) -> None:
        server = stand_in(lambda request: (200, {"jobs": [], "runs": [], "next_page_token": None}))

        command("jobs", "list", "--status", "paused", "--last-status", "dead", "--task", "t", "--name", "n",
                "--tag", "x", "--queue", "q", "--from", T1, "--until", T2, "--user", "ada", "--health", "late",
                "--prefix", "gr")  # fmt: skip
        command("runs", "list", "--status", "dead", "--job", J1, "--task", "t", "--queue", "q", "--from", T1,
                "--until", T2)  # fmt: skip
        command("dead", "list", "--job", J1, "--task", "t", "--queue", "q", "--from", T1, "--until", T2)

        both = {"task": "t", "queue": "q", "start_time": T1, "end_time": T2, "limit": "50"}
        jobs = {
            "status": "paused",
            "last_status": "dead",
            "name": "n",
            "tag": "x",
            "user_id": "ada",
            "health": "late",
            "name_prefix": "gr",
        }
        assert [request.query for request in server.requests] == [
            both | jobs,
            both | {"status": "dead", "job_id": J1},
            both | {"job_id": J1},
        ]

    def test_what_would_disturb_a_terminal_is_left_out_of_tables(self, stand_in: StandIn) -> None:
        stand_in(pages_of("runs", ([RUN], None)))

        assert "\tit broke  [31mbadly\t" in command("runs", "list").stdout

    def test_on_a_terminal_tables_have_colours(self, stand_in: StandIn) -> None:
        stand_in(pages_of("runs", ([RUN], None)))

        shown = on_a_terminal("runs", "list")

        assert "\x1b[31mdead" in shown
        assert "\x1b[31mbadly" not in shown


class TestWhatIsAsked:
    def test_edit(self, stand_in: StandIn) -> None:
        server = stand_in(lambda _: (200, JOB))

        result = command("jobs", "edit", J1, "--if-match", "3", "--priority", "high", "--field", "start_within=null",
                         "--schedule", '{"every": "5m"}', "--json")  # fmt: skip

        assert json.loads(result.stdout) == JOB
        _, request = server.requests  # it was read before
        assert (request.line, request.headers["If-Match"]) == (f"PATCH /v1/jobs/{J1}", '"3"')
        assert request.body == {"priority": "high", "start_within": None, "schedule": {"every": "5m"}}

    def test_every_field_of_a_job_can_be_sent_and_is_shown(self, stand_in: StandIn) -> None:
        server = stand_in(lambda request: (201, JOB | request.body))
        whole = whole_job()
        typed = [word for name, value in whole.items() for word in ("--field", f"{name}={json.dumps(value)}")]

        as_json = command("jobs", "create", *typed, "--json")
        server.answer = lambda _: (200, JOB | whole)
        for_people = command("jobs", "show", J1)

        assert server.requests[0].body == whole
        assert json.loads(as_json.stdout) == JOB | whole
        shown = {line.partition(":")[0] for line in for_people.stdout.splitlines()}
        assert {name.replace("_", " ") for name in whole if name not in ONLY_IN_JSON} <= shown

    @pytest.mark.parametrize(("typed", "ends", "asked"), [("n\n", 1, [{}]), ("y\n", 0, [{}, {"purge": "true"}])])
    def test_on_a_terminal_it_is_asked_before_a_purge(
        self, stand_in: StandIn, typed: str, ends: int, asked: list[Any]
    ) -> None:
        server = stand_in(lambda _: (200, JOB))

        shown = on_a_terminal("jobs", "cancel", J1, "--purge", typed=typed, ends=ends)

        assert 'Delete job 00000001 "greeting" and all its runs, results and logs? [y/N]' in shown
        assert [request.query for request in server.requests] == asked

    @pytest.mark.parametrize(
        ("asked", "sends", "said"),
        [
            (["edit", "--priority", "high"], "PATCH", "puts it back. Change the file or the code instead."),
            (["edit", "--tag", "x"], "PATCH", "is refused when the job has no tag applied:shop. Keep the tag."),
            (["cancel"], "DELETE", "creates it again. Take it out of the file or the code, or pause it instead."),
        ],
    )
    def test_what_the_next_apply_undoes_is_said_before_and_asked_on_a_terminal(
        self, stand_in: StandIn, asked: list[str], sends: str, said: str
    ) -> None:
        server = stand_in(lambda _: (200, JOB | {"tags": ["nightly", "applied:shop"]}))
        verb, *options = asked
        told = f'"greeting" is declared in the set shop: the next apply, or start of the code, {said}'

        refused = on_a_terminal("jobs", verb, J1, *options, typed="n\n", ends=1, columns=300)
        assert [request.method for request in server.requests] == ["GET"], "nothing is sent before the answer"
        assert f"Job 00000001 {told}" in " ".join(refused.split())
        assert "all the same? [y/N]" in refused
        assert "Nothing was changed." in refused
        for typed, yes in (("y\n", ()), ("", ("--yes",))):
            server.requests.clear()
            assert "is declared in" in on_a_terminal("jobs", verb, J1, *options, *yes, typed=typed)
            assert [request.method for request in server.requests] == ["GET", sends]
        in_a_script = command("jobs", verb, J1, *options, "--json")
        assert (in_a_script.exit_code, in_a_script.stderr) == (0, f"Job {J1} {told}\n")

    def test_where_a_job_is_declared_is_said_if_that_is_known_and_nothing_of_what_stays(
        self, stand_in: StandIn
    ) -> None:
        stand_in(lambda _: (200, JOB | {"tags": ["applied:key:digest"]}))

        assert command("jobs", "edit", J1, "--priority", "high").stderr == (
            f'Job {J1} "greeting" is declared in code (key:digest): the next start puts it back. Change the code'
            " instead.\n"
        )
        assert "creates it again" in command("jobs", "cancel", J1, "--purge").stderr
        assert command("jobs", "pause", J1).stderr == ""

    def test_a_purge_that_need_not_be_asked_about(self, stand_in: StandIn) -> None:
        server = stand_in(lambda _: (200, JOB))

        assert "Purged job 00000001." in on_a_terminal("jobs", "cancel", J1, "--purge", "--yes")
        assert command("jobs", "cancel", J1, "--purge").stdout == f"Purged job {J1}.\n"
        assert command("jobs", "cancel", J1).exit_code == 0

        deleted = [request for request in server.requests if request.method == "DELETE"]
        assert [request.path for request in deleted] == [f"/v1/jobs/{J1}"] * 3
        assert [request.query for request in deleted] == [{"purge": "true"}] * 2 + [{}]

    @pytest.mark.parametrize(
        ("status", "said"),
        [
            ("active", f'Cancelled job {J1} "greeting".'),
            ("finished", f'Job {J1} "greeting" had already finished.'),
            ("cancelled", f'Job {J1} "greeting" was already cancelled.'),
        ],
    )
    def test_a_job_that_had_ended_is_not_said_to_be_cancelled_now(
        self, stand_in: StandIn, status: str, said: str
    ) -> None:
        after = "cancelled" if status == "active" else status
        stand_in(lambda request: (200, {**JOB, "status": status if request.method == "GET" else after}))

        result = command("jobs", "cancel", J1)

        assert (result.exit_code, result.stdout) == (0, f"{said}\n")

    def test_a_stale_edit_is_refused(self, stand_in: StandIn) -> None:
        stand_in(lambda _: (412, {"title": "Precondition Failed", "status": 412, "detail": "it was changed"}))

        result = command("jobs", "edit", J1, "--if-match", "3", "--name", "x")

        assert (result.exit_code, result.stderr) == (1, "it was changed\n")

    def test_create_once_however_often_it_is_typed(self, stand_in: StandIn) -> None:
        server = stand_in(lambda _: (201, JOB))

        command("jobs", "create", "--task", "hello", "--idempotency-key", "mine")

        assert server.requests[0].headers["Idempotency-Key"] == "mine"

    def test_backfill(self, stand_in: StandIn) -> None:
        server = stand_in(lambda _: (202, {"run_ids": [R1, R2]}))

        assert command("jobs", "backfill", J1, "--from", T1, "--to", T2).stdout == f"Created 2 runs: {R1}, {R2}.\n"
        assert server.requests[0].body == {"from": T1, "to": T2}

    def test_dead_letters_by_id(self, stand_in: StandIn) -> None:
        server = stand_in(
            lambda request: (200, {"count": 1} | ({"run_ids": [J1]} if "requeue" in request.path else {}))
        )

        assert command("dead", "discard", R1, R2).stdout == "Discarded 1 dead letter.\n" * 2
        said = command("dead", "requeue", R1, R2, "--patch", '{"a": null}').stdout
        assert said == f"Run {R1} runs again as run {J1}.\nRun {R2} runs again as run {J1}.\n"
        each = [{"run_ids": [R1]}, {"run_ids": [R2]}]
        assert [request.body for request in server.requests] == [
            *each,
            *({**one, "payload_patch": {"a": None}} for one in each),
        ]

    def test_a_letter_that_stays_is_a_refusal_with_its_reason_and_the_others_happen(self, stand_in: StandIn) -> None:
        wrong = {"path": "payload.n", "code": "wrong_type", "message": "must be a whole number"}
        misfit = {"count": 0, "run_ids": [], "refused": [{"run_id": R1, "errors": [wrong]}]}
        closed, running = RUN, {**RUN, "status": "running"}

        def answer(request: Request) -> Said:
            if request.method == "GET":
                found = {R1: closed, J1: running}.get(request.parts[-1])
                return (404, {"status": 404, "detail": "Not found."}) if found is None else (200, found)
            if "payload" in request.body:
                return 202, misfit
            done = request.body["run_ids"] == [R2]
            return 202, {"count": int(done), "run_ids": [J2] if done else [], "refused": []}

        server = stand_in(answer)

        result = command("dead", "requeue", R1, "--payload", '{"n": "x"}')
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", "payload.n: must be a whole number\n")
        as_json = command("dead", "requeue", R1, "--payload", '{"n": "x"}', "--json")
        assert (as_json.exit_code, json.loads(as_json.stderr)["errors"]) == (1, [wrong])

        for verb, did in (
            ("requeue", f"Run {R2} runs again as run {J2}.\n"),
            ("discard", "Discarded 1 dead letter"),
        ):
            result = command("dead", verb, R1, J1, J2, R2)
            assert (result.exit_code, result.stdout.startswith(did)) == (1, True)
            again, other, unknown = result.stderr.splitlines()
            assert again.startswith(f"{R1}: Run {R1} was run again or discarded before;")
            assert other == f"{J1}: Run {J1} is not a dead letter; see `oncue runs show {J1}`."
            assert unknown == f"{J2}: Not found."
        assert server.requests[-1].body == {"run_ids": [R2]}

    def test_one_dead_letter_is_asked_for_alone(self, stand_in: StandIn) -> None:
        server = stand_in(lambda _: (200, {**RUN, "payload": {"a": 1}}))

        assert '{"a":1}' in command("dead", "show", R1).stdout
        assert json.loads(command("dead", "show", R1, "--json").stdout) == {**RUN, "payload": {"a": 1}}
        assert server.lines == [f"GET /v1/runs/{R1}"] * 2

    def test_what_is_not_dead_is_no_dead_letter(self, stand_in: StandIn) -> None:
        stand_in(lambda _: (200, {**RUN, "status": "running"}))

        result = command("dead", "show", R1)

        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"Run {R1} is not a dead letter; see `oncue runs show {R1}`.\n"

    def test_keys_over_the_api(self, stand_in: StandIn) -> None:
        key = {"key_id": J1, "user_id": "ada", "role": "member", "created_at": "2026-11-16T08:00:00.000Z"}

        def answer(request: Request) -> Said:
            match request.method:
                case "GET":
                    return 200, {"keys": [key]}
                case "POST":
                    return 201, {**key, "key": "oc_secret"}
            return 200, {}

        server = stand_in(answer)

        new = ("keys", "create", "--user", "ada", "--role", "member")
        assert command(*new).stdout.endswith("\n  export ONCUE_API_KEY=oc_secret\n")
        made = command(*new, "--note", "laptop", "--expires", "90d", "--json")
        assert json.loads(made.stdout) == {**key, "key": "oc_secret"}
        assert command("keys", "list").stdout.splitlines()[-1].split()[:4] == [J1, "ada", "member", "valid"]
        assert command("keys", "revoke", J1).stdout == f"revoked {J1}\n"
        assert server.lines == ["POST /v1/keys", "POST /v1/keys", "GET /v1/keys", f"DELETE /v1/keys/{J1}"]
        assert server.requests[0].body == {"user_id": "ada", "role": "member"}
        assert server.requests[1].body == {**server.requests[0].body, "note": "laptop", "expires_in": "90d"}

    def test_keys_are_revoked_by_the_ids_of_the_table(self, stand_in: StandIn) -> None:
        keys = [{"key_id": one, "user_id": "ada", "role": "member"} for one in (J1, R1)]
        server = stand_in(lambda request: (200, {"keys": keys} if request.method == "GET" else {}))

        assert command("keys", "revoke", J1[-8:]).stdout == f"revoked {J1}\n"
        assert command("keys", "revoke", "-", "-q", stdin=f"{R1[-6:]}\n{J1}\n").stdout == f"{R1}\n{J1}\n"
        deleted = [line for line in server.lines if line.startswith("DELETE")]
        assert deleted == [f"DELETE /v1/keys/{one}" for one in (J1, R1, J1)]

        for typed, said in ((J1[:8], "Several keys match"), ("ffffff", "No key matches"), ("1", "No key matches")):
            result = command("keys", "revoke", typed)
            assert (result.exit_code, result.stderr.startswith(said)) == (1, True)
        assert len([line for line in server.lines if line.startswith("DELETE")]) == 3

    def test_a_store_that_is_named_makes_keys_itself(self, stand_in: StandIn, tmp_path: Path) -> None:
        server = stand_in(lambda _: (500, {}))

        engine = f"sqlite:///{tmp_path / 'x.db'}"
        result = command("keys", "create", "--user", "ada", "--role", "admin", "--engine", engine, "--init")

        assert result.exit_code == 0
        assert server.requests == []


class TestTop:
    QUEUE: ClassVar[Any] = {"name": "default", "depth": 7, "workers": [J1], "paused_since": None}
    WORKER: ClassVar[Any] = {"worker_id": J1, "name": "box:1", "host": "box", "offer": {"queues": ["default"]}}

    def answer(self, request: Request) -> Said:
        run = {**RUN, "status": "running", "progress": {"done": 3, "total": 10}}
        everything = {"queues": [self.QUEUE], "workers": [self.WORKER], "runs": [run], "next_page_token": None}
        titles = "No worker can run receipt", "3 dead letters", "The job nightly is failing"
        problems = [{"kind": "x", "severity": "problem", "title": title} for title in titles]
        return 200, {**everything, "problems": problems}

    def test_in_a_pipe_it_looks_once(self, stand_in: StandIn) -> None:
        stand_in(self.answer)

        shown = command("top").stdout

        assert shown.startswith(
            "Queues\nqueue\tdue\trunning\twaiting\tworkers\tstatus\ndefault\t0\t0\t7\t1\tactive\n\n"
        )
        assert "box:1" in shown
        assert "3 of 10" in shown

    def test_as_json(self, stand_in: StandIn) -> None:
        server = stand_in(self.answer)

        shown = json.loads(command("top", "--json").stdout)

        assert (shown["queues"], shown["workers"], len(shown["runs"])) == ([self.QUEUE], [self.WORKER], 1)
        assert {"status": "running", "limit": "20"} in [request.query for request in server.requests]

    @pytest.mark.parametrize("leaves", ["q", "\x03", signal.SIGTERM])
    def test_on_a_terminal_it_goes_on_until_somebody_leaves(self, stand_in: StandIn, leaves: str | int) -> None:
        server = stand_in(lambda request: (200, {**self.answer(request)[1], "workers": [self.WORKER] * 30}))
        with closing(Terminal("top", "--every", "0.2")) as terminal:
            terminal.until(lambda: len(server.requests) > 9 and "box:1" in terminal.frame)  # three looks
            assert not terminal.is_as_before
            first, second, *_ = frame = terminal.frame.splitlines()
            if isinstance(leaves, str):
                terminal.type("x" + leaves)
            else:
                terminal.process.send_signal(leaves)

            assert terminal.ended() == (0 if isinstance(leaves, str) else 128 + leaves)
            assert terminal.is_as_before
            after = terminal.shown.rpartition("\x1b[?25h\x1b[?1049l")[2]
        assert first == "q or Ctrl-C leaves"
        problem = "Problem: No worker can run receipt, and 2 more: see `oncue problems`"
        assert second == problem
        assert after.startswith(problem) == isinstance(leaves, str), "the last look stays"
        assert (len(frame), frame[-1]) == (23, "… 22 more lines")
        assert max(map(len, frame)) <= 80

    def test_a_worker_that_is_gone_is_lost_or_has_ended(self, stand_in: StandIn) -> None:
        looks, there = count(), {**self.WORKER, "lease": "2s"}

        def answer(request: Request) -> Said:
            if not request.path.endswith("/workers"):
                return self.answer(request)
            look = next(looks)
            lost = {**there, "worker_id": R1, "name": "silent", "seen_at": "2099-11-20T10:00:00Z"}
            ended = {**there, "worker_id": R2, "name": "stopped", "seen_at": f"2099-11-20T10:00:{look:02d}Z"}
            return 200, {"workers": [there] if look > 8 else [there, lost, ended]}

        stand_in(answer)
        with closing(Terminal("top", "--every", "0.2")) as terminal:
            terminal.until(lambda: "lost" in terminal.frame)
            rows = [line.split()[:2] for line in terminal.frame.splitlines()]

        assert ["box:1", "active"] in rows
        assert ["silent", "lost"] in rows
        assert ["stopped", "ended"] in rows

    @pytest.mark.parametrize(("silent", "status", "shown_for"), [("6s", "ended", "10s"), ("7s", "lost", "1m")])
    async def test_it_is_forgotten_after_a_while(self, silent: str, status: str, shown_for: str) -> None:
        clock = FakeClock()
        seen, one = SeenWorkers(clock), Worker(worker_id=UUID(J1), lease="15s")
        assert seen.with_gone([one]) == [one]
        await clock.advance(silent)
        assert seen.with_gone([one]) == [one]

        assert [worker.status for worker in seen.with_gone([])] == [status]
        await clock.advance(parse_duration(shown_for) - SECOND)
        assert len(seen.with_gone([])) == 1
        await clock.advance("1s")
        assert seen.with_gone([]) == []


class TestFollowing:
    def test_a_log_is_printed_as_it_grows_and_once(self, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("oncue.client.waiting.LOG_POLL_INTERVAL", 0)
        states = iter(["running", "running", "succeeded"])
        texts = iter(["zero\none\n", "two\n", "three\n"])
        asked = list[dict[str, str]]()

        def answer(request: Request) -> Said:
            if request.path.endswith("/logs"):
                asked.append(request.query)
                return 200, next(texts)
            return 200, {**RUN, "status": next(states)}

        stand_in(answer)

        assert command("runs", "logs", R1, "--follow", "--tail", "1").stdout == "one\ntwo\nthree\n"
        assert asked == [{"after": "0"}, {"after": "9"}, {"after": "13"}]

    def test_a_log_of_which_a_part_is_not_stored_yet_is_followed_on_and_that_is_said_once(
        self, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oncue.client.waiting.LOG_POLL_INTERVAL", 0)
        texts = iter([LateLog("one\n"), LateLog(""), "two\n"])
        stand_in(lambda request: (200, next(texts) if "logs" in request.path else {**RUN, "status": "succeeded"}))

        followed = command("runs", "logs", R1, "--follow")

        assert (followed.exit_code, followed.stdout) == (0, "one\ntwo\n")
        why = "A part of the log is not stored yet, because object storage is unavailable."
        assert followed.stderr == f"The run has ended. {why} This waits for it; Ctrl-C ends it.\n"

    def test_a_log_so_far_and_the_end_of_a_run_say_that_a_part_of_the_log_is_not_stored_yet(
        self, stand_in: StandIn
    ) -> None:
        stand_in(
            lambda request: (
                (202, {"run_id": R1})
                if request.method == "POST"
                else (200, LateLog("one\n") if "logs" in request.path else {**RUN, "status": "succeeded"})
            )
        )
        why = "A part of the log is not stored yet, because object storage is unavailable."

        shown, waited = command("runs", "logs", R1), command("jobs", "run", J1, "--wait")

        assert (shown.stdout, shown.stderr) == ("one\n", f"{why} Wait for it with --follow.\n")
        assert waited.stdout.startswith("one\n")
        assert (waited.exit_code, waited.stderr) == (0, f"{why} Read it later with `oncue runs logs {R1} --follow`.\n")

    def test_waiting_has_an_end_and_the_exit_code_says_how(self, stand_in: StandIn) -> None:
        stand_in(
            lambda request: (
                (202, {"run_id": R1})
                if request.method == "POST"
                else (200, "")
                if "logs" in request.path
                else (200, {**RUN, "status": "running"})
            )
        )

        result = command("jobs", "run", J1, "--wait", "--timeout", "100ms")

        assert (result.exit_code, result.stdout) == (4, "")
        assert result.stderr == f"Run {R1} is still running after 0.1 s and continues. Wait again or cancel it.\n"

    def test_a_server_that_goes_away_while_one_waits(self, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("oncue.cli.asking.RETRIES", 0)

        def answer(request: Request) -> Said:
            if "logs" in request.path:
                raise ConnectionError  # which closes the connection
            return (202, {"run_id": R1}) if request.method == "POST" else (200, {**RUN, "status": "running"})

        stand_in(answer)
        result = command("jobs", "run", J1, "--wait")

        assert result.exit_code == 3
        assert f"Wait for it again with `oncue runs wait {R1}`." in result.stderr

    def test_a_bar_while_one_waits_at_a_terminal(self, stand_in: StandIn) -> None:
        states = iter(["running", "running", "succeeded"])
        stand_in(lambda _: (200, {**RUN, "status": next(states), "progress": {"done": 3, "total": 4}}))

        assert "75%" in on_a_terminal("runs", "wait", R1)


class TestNoServer:
    @pytest.fixture
    def nobody(self, monkeypatch: pytest.MonkeyPatch) -> str:
        with socket.create_server(("127.0.0.1", 0)) as door:
            url = f"http://127.0.0.1:{door.getsockname()[1]}"
        monkeypatch.setenv("ONCUE_URL", url)
        return url

    @pytest.mark.parametrize(
        "arguments", [("jobs", "list"), ("runs", "show", R1), ("dead", "requeue", "r1"), ("top",), ("keys", "list")]
    )
    def test_exit_code_three_and_what_to_do(self, nobody: str, arguments: tuple[str, ...]) -> None:
        result = command(*arguments)

        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr.startswith(f"No server at {nobody}. Start one with `oncue up`")

    def test_as_json(self, nobody: str) -> None:
        result = command("jobs", "list", "--json")

        assert (result.exit_code, result.stdout) == (3, "")
        assert json.loads(result.stderr)["title"] == "Server Unreachable"

    def test_a_change_whose_answer_was_lost_is_not_called_undone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as door:
            monkeypatch.setenv("ONCUE_URL", f"http://127.0.0.1:{door.getsockname()[1]}")
            door.settimeout(PATIENCE)
            process = subprocess.Popen([ONCUE, "jobs", "pause", J1], stderr=subprocess.PIPE, text=True)
            connection, _ = door.accept()
            assert connection.recv(10_000).startswith(f"POST /v1/jobs/{J1}/pause".encode())
            connection.close()
            _, said = process.communicate()

        assert process.returncode == 3
        assert "may or may not have been applied" in said

    def test_another_server_at_that_address(self, stand_in: StandIn) -> None:
        stand_in(lambda _: (200, "<h1>It works!</h1>"))

        result = command("jobs", "show", J1)

        assert result.exit_code == 1
        assert f"answer to GET /v1/jobs/{J1} is not from an oncue server" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("jobs", "create"), "--task is required"),
        (("jobs", "edit", J1), "no field to change"),
        (("jobs", "create", "--task", "t", "--payload", "[1]"), "--payload is not a JSON object"),
        (
            ("jobs", "create", "--task", "t", "--payload", r'{"a": ["b", "\ud800"]}'),
            "--payload is not a JSON object: a.1: has a NUL or half a surrogate pair",
        ),
        (("enqueue", "t", r'n:="\ud800"'), "what follows := is not JSON: has a NUL or half a surrogate pair"),
        (("jobs", "create", "--task", "t", "--payload", "@nowhere.json"), "cannot read nowhere.json"),
        (("jobs", "create", "--task", "t", "--field", "x"), "has no '='"),
        (("jobs", "create", "--task", "t", "--timezone", "UTC"), "needs a cron expression"),
        (("jobs", "run", J1, "--wait", "--timeout", "soon"), "is not a duration"),
        (("dead", "discard"), "give either RUNs or --all"),
        (("dead", "discard", "r1", "--all"), "give either RUNs or --all"),
        (("dead", "discard", "r1", "--task", "t"), "give either RUNs or --all"),
        (("jobs", "list", "--url", "localhost:8470"), "is not the address of a server"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_exit_code_two(arguments: tuple[str, ...], said: str) -> None:
    result = command(*arguments)

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def all_commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        top = main.get_command(click.Context(main), name)
        found += [(name, sub) for sub in top.commands] if isinstance(top, click.Group) else [(name,)]
    return found


@pytest.mark.parametrize("path", all_commands(), ids=" ".join)
def test_every_command_teaches_by_example(path: tuple[str, ...]) -> None:
    result = command(*path, "--help")

    assert result.exit_code == 0
    assert f"oncue {' '.join(path)}" in result.stdout.partition("Examples:")[2]
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


@pytest.mark.parametrize("path", [*all_commands(), *((name,) for name in COMMANDS)], ids=" ".join)
def test_summaries_have_eight_words_at_most_and_fit_80_columns(path: tuple[str, ...]) -> None:
    found: click.Command | None = main
    for name in path:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name)
    assert found is not None

    summary = (found.help or "").strip().split("\n")[0]

    assert len(summary.split()) <= 8
    assert len(summary) <= 65


ROLES = {"up", "api", "scheduler", "worker"}  # these run until they are told to stop


@pytest.mark.parametrize("path", [path for path in all_commands() if path[0] not in ROLES], ids=" ".join)
def test_every_command_that_answers_has_json(path: tuple[str, ...]) -> None:
    said = command(*path, "--help").stdout

    assert "--json" in said
    assert "-o, --output" in said or path[0] in ("dev", "bench")  # one runs until it is stopped, one writes files


def test_shells_complete_commands(oncue: Oncue) -> None:
    asked = {**os.environ, "_ONCUE_COMPLETE": "bash_complete", "COMP_WORDS": "oncue jobs re", "COMP_CWORD": "2"}

    answer = subprocess.run([ONCUE], env=asked, capture_output=True, text=True)

    assert answer.stdout.split() == ["plain,resume"]


def test_quiet_prints_the_ids_of_whatever_the_answer_is_about(stand_in: StandIn) -> None:
    step = {"action": "create", "key": "a", "job_id": J1, "changes": {}, "owners": []}
    bulk = {"bulk_id": R2, "action": "pause", "of": "jobs", "state": "finished", "done": 1, "refused": 0}

    def answer(request: Request) -> Said:
        match request.parts:
            case ["jobs", "apply"]:
                return 200, {"set": "x", "dry_run": False, "steps": [step, {**step, "job_id": None}], "warnings": []}
            case ["audit"]:
                return 200, {"audit": [{"at": "2027-01-01T00:00:00Z", "action": "x"}], "next_page_token": None}
            case ["bulk", *_]:
                return 200, bulk if request.parts[1:] else {"bulks": [bulk], "next_page_token": None}
        return 404, {}

    stand_in(answer)

    assert command("apply", "-", "-q", stdin='{"set": "x", "jobs": []}').stdout == f"{J1}\n"
    assert command("bulk", "show", R2, "-q").stdout == f"{R2}\n"
    assert command("audit", "-q").stdout == ""
