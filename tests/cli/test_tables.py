"""Lists that fit their terminal, and what pipes get instead."""

import itertools
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import yaml
from click import UsageError, unstyle
from tests.cli.conftest import StandIn, command
from tests.cli.terminal import ONCUE, on_a_terminal

from oncue.cli import times
from oncue.cli.columns import cut, pad, share, width_of
from oncue.cli.output import Form, Output
from oncue.cli.printing import broken
from oncue.cli.showing import JOBS, RUNS, schedule, show_run
from oncue.cli.tables import Column, Kind, Table, lines_of, short_id
from oncue.domain.instants import instant
from oncue.domain.plain_text import showable
from oncue.shapes.jobs import Job
from oncue.shapes.runs import Attempt, Run
from oncue.testing.clock import SOME_DAY, FakeClock

J1 = "01990000-0000-7000-8000-0000abcd0001"
J2 = "01990000-0000-7000-8000-0000abcd0002"
ID = UUID(J1)
NOW = datetime(2030, 1, 1, tzinfo=UTC)  # SOME_DAY
JOB = Job(
    job_id=ID,
    task="send_the_invoices_of_a_month",
    status="cancelled",
    name="日本語の仕事 that has a name which is long",
    schedule={"cron": "0,30 9-17 * * 1-5", "timezone": "Europe/Berlin"},
    next_run_at=NOW + timedelta(days=30),
    tags=("nightly", "billing"),
    user_id="ada",
    last_run=Run(run_id=ID, job_id=ID, status="cancelling", end_time=NOW - timedelta(minutes=2)),
)
RUN = Run(
    run_id=ID, job_id=ID, task="hello", status="cancelling", attempt_number=12, executor_id=ID, lag_ms=1_500,
    start_time=NOW - timedelta(hours=3), end_time=NOW - timedelta(hours=2, minutes=55), scheduled_for=NOW,
    error_message="a\tb\nc \x1b[31m" + "long " * 100,
)  # fmt: skip


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with monkeypatch.context() as there:
        there.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def shown(table: Table[Any], item: Any, width: int, monkeypatch: pytest.MonkeyPatch, **how: Any) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    return lines_of(table, [item], Output(form=Form.TABLE, clock=FakeClock(SOME_DAY), **how))


class TestWidth:
    @pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 200, 300])
    @pytest.mark.parametrize(("table", "item"), [(JOBS, JOB), (RUNS, RUN)])
    def test_no_line_is_longer_than_the_terminal(
        self, table: Table[Any], item: Any, width: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = shown(table, item, width, monkeypatch)

        assert max(map(width_of, lines)) <= width
        assert all("\n" not in line and "\t" not in line for line in lines)

    def test_at_80_ids_statuses_and_times_are_whole_and_text_is_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert shown(JOBS, JOB, 80, monkeypatch) == [
            "ID        NAME             STATUS     SCHEDULE          NEXT          LAST",
            "abcd0001  日本語の仕事 t…  cancelled  0,30 9-17 * * 1…  Jan 31 01:00  cancelling",
        ]

    def test_wider_terminals_show_more_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        heads = {width: shown(JOBS, JOB, width, monkeypatch)[0].split() for width in (80, 119, 120, 199, 200)}

        assert heads[80] == heads[119] == ["ID", "NAME", "STATUS", "SCHEDULE", "NEXT", "LAST"]
        assert heads[120] == heads[199] == [*heads[80], "RAN", "TASK", "QUEUE"]
        assert heads[200] == [*heads[120], "KEY", "TAGS", "OWNER"]
        wide = shown(JOBS, JOB, 200, monkeypatch)[1]
        assert wide.startswith(J1)
        assert "  2030-01-31 01:00:00  " in wide

    def test_a_terminal_of_unknown_width_has_80_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("COLUMNS", raising=False)

        assert Output().width == 80  # standard output is no terminal here

    def test_chosen_columns_in_their_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert shown(JOBS, JOB, 80, monkeypatch, columns=("owner", "id")) == ["OWNER  ID", "ada    abcd0001"]
        with pytest.raises(UsageError, match="'colour' is not a column of this list; use id, name, status"):
            shown(JOBS, JOB, 80, monkeypatch, columns=("colour",))

    def test_text_cannot_break_a_line_or_a_column(self, monkeypatch: pytest.MonkeyPatch) -> None:
        line = shown(RUNS, RUN, 120, monkeypatch)[1]

        assert "a b c  [31mlong long" in line
        assert showable(line) == line

    def test_wide_characters_keep_columns_aligned(self) -> None:
        assert [width_of(text) for text in ("abc", "日本", "e\u0301", "🎉", "ﾊ")] == [3, 4, 1, 2, 1]
        assert [cut("日本語", width) for width in (6, 5, 4, 1, 0)] == ["日本語", "日本…", "日…", "…", ""]
        assert (pad("日", 4), pad("日", 4, right=True)) == ("日  ", "  日")

    def test_the_widest_columns_give_first(self) -> None:
        assert share([30, 10, 20], [6, 6, 6], 60) == [30, 10, 20]
        assert share([30, 10, 20], [6, 6, 6], 50) == [20, 10, 20]
        assert sorted(share([30, 10, 20], [6, 6, 6], 40)) == [10, 15, 15]
        assert share([30, 10, 20], [30, 10, 20], 40) == [30, 10, 20]

    def test_short_ids_are_the_last_digits(self) -> None:
        assert (short_id(J1), short_id("w-1"), short_id("a name that has some-dashes-in it-x")) == (
            "abcd0001", "w-1", "a name that has some-dashes-in it-x")  # fmt: skip


class TestTimes:
    @pytest.mark.parametrize(
        ("away", "said"),
        [
            ({}, "now"), ({"seconds": 59.9}, "in 1m"), ({"minutes": 4}, "in 4m"),
            ({"hours": 23.4}, "in 23h"), ({"seconds": 599.9}, "in 10m"), ({"seconds": -59.9}, "59s ago"),
            ({"minutes": -2}, "2m ago"), ({"seconds": -1}, "1s ago"), ({"days": 1}, "Jan 02 01:00"),
            ({"days": 30, "hours": 9}, "Jan 31 10:00"), ({"days": -400}, "2028-11-27"),
        ],
    )  # fmt: skip
    def test_relative_within_a_day_and_local_beyond(self, away: dict[str, float], said: str) -> None:
        assert times.near(NOW + timedelta(**away), SOME_DAY) == said

    def test_one_object_shows_zone_and_utc(self) -> None:
        at = datetime(2027, 1, 31, 9, tzinfo=UTC)

        assert times.exact(at) == "2027-01-31 10:00:00 CET (09:00:00Z)"
        assert times.exact(at, utc=True) == "2027-01-31 09:00:00Z"
        assert times.exact(datetime(2027, 7, 1, 23, tzinfo=UTC)) == "2027-07-02 01:00:00 CEST (2027-07-01 23:00:00Z)"
        assert times.near(at, instant(at + timedelta(days=2)), utc=True) == "Jan 31 09:00"

    @pytest.mark.parametrize(
        ("seconds", "said"),
        [(0.35, "350ms"), (4.24, "4.2s"), (192, "3m 12s"), (7_500, "2h 5m"), (273_600, "3d 4h")],
    )
    def test_durations_have_two_units_at_most(self, seconds: float, said: str) -> None:
        assert times.took(timedelta(seconds=seconds)) == said

    def test_how_late_a_run_was_is_told_in_units_for_people(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_run(msgspec.structs.replace(RUN, lag_ms=326_129, due_time=NOW + timedelta(hours=1)), Output())

        lines = capsys.readouterr().out.splitlines()
        assert "late by:        5m 26s" in lines
        assert "due:            2030-01-01T01:00:00.000Z" in lines

    def test_how_late_the_first_attempt_was_is_not_told_of_a_later_one(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        started = NOW + timedelta(minutes=18, seconds=33)
        lost = Attempt(number=1, start_time=NOW, end_time=NOW + timedelta(seconds=33), outcome="lost")
        again = {"attempt_number": 2, "start_time": started, "lag_ms": 10, "attempts": (lost,)}
        show_run(msgspec.structs.replace(RUN, **again), Output())

        assert "late by:        10ms at attempt 1; attempt 2 waited 18m 0s" in capsys.readouterr().out.splitlines()

    def test_what_was_enqueued_is_called_so_for_people(self, capsys: pytest.CaptureFixture[str]) -> None:
        once = msgspec.structs.replace(RUN, trigger="schedule")
        planned = msgspec.structs.replace(once, job_id=UUID(J2))
        for run in (once, planned):
            show_run(run, Output(form=Form.TABLE))
            show_run(run, Output())

        found = re.findall(r"^trigger: +(\S+)$", unstyle(capsys.readouterr().out), re.MULTILINE)
        assert found == ["enqueued", "schedule", "schedule", "schedule"]
        [column] = [one for one in RUNS.columns if one.name == "trigger"]
        assert (column.value(once), column.pipes and column.pipes(once)) == ("enqueued", "schedule")


class TestOutcomes:
    def test_a_job_that_ran_once_shows_how_its_run_ended(self, stand_in: StandIn) -> None:
        """In the list at the least width and on its own; pipes have the job's own status beside it."""
        died = {"run_id": J1, "status": "dead", "error_type": "Boom", "error_message": "it broke"}
        once = {"job_id": J1, "task": "charge", "status": "finished", "schedule": {"at": "2030-01-01T00:00:00Z"}}
        jobs = {"jobs": [{**once, "last_run": died}, {**once, "schedule": {"every": "1h"}, "last_run": died}]}
        server = stand_in(lambda request: (200, jobs if request.path == "/v1/jobs" else jobs["jobs"][0]))
        here = {"ONCUE_URL": server.url, "ONCUE_API_KEY": "oc_1"}

        listed = unstyle(on_a_terminal("jobs", "list", columns=40, **here)).splitlines()
        shown = unstyle(on_a_terminal("jobs", "show", J1, **here))

        assert [line.split()[2] for line in listed] == ["STATUS", "dead", "finished"]
        assert re.search(r"^status: +dead\s*$", shown, re.MULTILINE)
        assert command("jobs", "list").stdout.splitlines()[1].split("\t")[2] == "finished"


class TestForms:
    def test_in_a_pipe_there_are_all_columns_with_tabs_and_whole_values(self) -> None:
        head, line = lines_of(RUNS, [RUN], Output())

        found = dict(zip(head.split("\t"), line.split("\t"), strict=True))
        assert list(found) == [column.name for column in RUNS.columns]
        assert (found["id"], found["started"], found["took"]) == (J1, "2029-12-31T21:00:00.000Z", "5m")
        assert (found["late"], len(found["error"])) == ("1500ms", 511)

    def test_yaml_means_the_same_as_json(self, stand_in: StandIn) -> None:
        odd = {
            "job_id": J1,
            "task": "no",
            "status": "active",
            "name": "\u202e a: b \x1b[2J\n# c",
            "payload": {"1": "01", "2": "a \u202e b"},
        }
        stand_in(lambda _: (200, odd))

        result = command("jobs", "show", J1, "-o", "yaml")

        assert yaml.safe_load(result.stdout) == json.loads(command("jobs", "show", J1, "-o", "json").stdout) == odd
        assert showable(result.stdout) == result.stdout

    def test_ids_are_whole_and_alone(self, stand_in: StandIn) -> None:
        items = [msgspec.to_builtins(JOB), {**msgspec.to_builtins(JOB), "job_id": J2}]
        stand_in(
            lambda request: (200, {"jobs": items, "next_page_token": "t"} if request.path == "/v1/jobs" else items[0])
        )

        listed = command("jobs", "list", "-q", "--limit", "2")
        assert (listed.stdout, command("jobs", "show", J1, "-o", "ids").stdout) == (f"{J1}\n{J2}\n", f"{J1}\n")
        assert "More jobs exist" in listed.stderr

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            (("--json", "-q"), "Give one of -o, --json and -q"),
            (("--watch",), "--watch needs a terminal"),
            (("--columns", "colour"), "'colour' is not a column of this list"),
        ],
    )
    def test_what_cannot_be_is_refused_as_usage(self, stand_in: StandIn, typed: tuple[str, ...], said: str) -> None:
        stand_in(lambda _: (200, {"jobs": [], "next_page_token": None}))

        result = command("jobs", "list", *typed)

        assert (result.exit_code, said in result.stderr) == (2, True)


class TestOnATerminal:
    def test_colour_is_for_status_words_and_can_be_turned_off_or_on(self, stand_in: StandIn) -> None:
        run = {**msgspec.to_builtins(RUN), "status": "dead", "task": "dead"}
        stand_in(lambda _: (200, {"runs": [run], "next_page_token": None}))

        plain = on_a_terminal("runs", "list", NO_COLOR="1")
        coloured = on_a_terminal("runs", "list")
        assert "\x1b[" not in plain
        assert coloured.count("\x1b[31mdead\x1b[0m") == 1
        assert unstyle(coloured) == plain
        os.environ["FORCE_COLOR"] = "1"
        try:
            assert "\t\x1b[31mdead\x1b[0m\t" in command("runs", "list").stdout
        finally:
            del os.environ["FORCE_COLOR"]

    @pytest.mark.parametrize("columns", [80, 200])
    def test_its_width_is_asked_for(self, stand_in: StandIn, columns: int) -> None:
        stand_in(lambda _: (200, {"jobs": [msgspec.to_builtins(JOB)], "next_page_token": None}))

        lines = unstyle(on_a_terminal("jobs", "list", columns=columns)).splitlines()

        assert columns - 30 < max(map(width_of, lines)) <= columns

    def test_watching_draws_again_in_place_until_ctrl_c_and_leaves_the_last_table(self, stand_in: StandIn) -> None:
        looks = itertools.count(1)
        stand_in(
            lambda _: (
                200,
                {"jobs": [{**msgspec.to_builtins(JOB), "name": f"{next(looks)}."}], "next_page_token": None},
            )
        )
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [ONCUE, "jobs", "list", "--watch", "200ms"], stdout=theirs, env={**os.environ, "TERM": "xterm"}
        )
        os.close(theirs)
        screen = b""
        while b"3." not in screen:
            screen += os.read(ours, 10_000)
        process.send_signal(signal.SIGINT)
        with pytest.raises(OSError):  # noqa: PT012 - read until the terminal is closed
            while part := os.read(ours, 10_000):
                screen += part
        os.close(ours)

        assert process.wait() == 0
        begun, left = screen.decode().split("\x1b[?1049l")
        assert begun.startswith("\x1b[?1049h")
        drawn = begun.count("\x1b[H")
        assert drawn >= 3
        assert re.search(rf"  ({drawn}|{drawn + 1})\.  ", left)  # it may have looked once more before it ended

    def test_sentences_break_between_words(self, stand_in: StandIn) -> None:
        detail = "Waits for a worker that has the task send_the_invoices_of_a_month. Start one, or check the spelling."
        stand_in(lambda _: (200, {"reason": "no_worker", "detail": detail, "state": "queued"}))

        lines = on_a_terminal("runs", "explain", J1, columns=60).splitlines()

        assert lines[:3] == [
            "no_worker: Waits for a worker that has the task",
            "  send_the_invoices_of_a_month. Start one, or check the",
            "  spelling.",
        ]
        assert f"no_worker: {detail}\n" in command("runs", "explain", J1).stdout
        wrong = on_a_terminal("job", "list", columns=40, ends=2).splitlines()
        assert wrong == ["Error: No command 'job'; did you mean", "`oncue jobs`? See `oncue --help`."]

    def test_an_empty_list_is_said_to_be_empty(self, stand_in: StandIn) -> None:
        stand_in(lambda _: (200, {"jobs": [], "next_page_token": None}))

        assert on_a_terminal("jobs", "list").strip() == "No jobs."
        assert command("jobs", "list").stdout.startswith("id\tname\t")


def test_a_column_that_is_never_cut_is_left_out_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    table: Table[str] = Table(
        "things",
        str,
        (Column("text", 4, lambda it: it * 30), Column("state", 9, lambda _: "s" * 30, kind=Kind.STATUS)),
    )

    assert shown(table, "x", 30, monkeypatch) == ["TEXT", "x" * 30]
    assert shown(table, "x", 40, monkeypatch) == ["TEXT      STATE", "xxxxxxx…  " + "s" * 30]


def test_sentences_break_between_words_by_the_columns_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")

    assert broken("  日本語日本語 日本語 abc d") == "  日本語日本語\n日本語 abc d"
    assert broken("one two three four five six", indent="  ") == "one two three four\n  five six"
    assert broken("a\u2028b\n\nc") == "a\u2028b\n\nc"


def test_a_schedule_without_a_time_is_now_in_whatever_zone() -> None:
    zoned = {"timezone": "Europe/Berlin", "dst_gap": "shift"}

    assert schedule({}) == "now"
    assert schedule(zoned) == "now, timezone Europe/Berlin"
    assert schedule({"cron": "0 9 * * *", **zoned}) == "cron 0 9 * * *, timezone Europe/Berlin"
