"""`oncue preview`: when a schedule fires, and how the command says no."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oncue.cli.main import main
from oncue.domain.instants import parse_instant
from oncue.testing.clock import FakeClock

NOW = "2026-11-15T12:00:00Z"
ONCUE = Path(sys.executable).parent / "oncue"

WORKDAYS = """\
at 09:00, Monday to Friday (Europe/Berlin)
at (UTC)                  local (Europe/Berlin)
2026-11-16T08:00:00.000Z  Mon 2026-11-16 09:00:00 +01:00
2026-11-17T08:00:00.000Z  Tue 2026-11-17 09:00:00 +01:00
"""


def oncue(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, obj=FakeClock(parse_instant(NOW)))


def preview(*arguments: str) -> Result:
    return oncue("preview", *arguments)


def instants(*arguments: str) -> list[str]:
    result = preview(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return [occurrence["at"] for occurrence in json.loads(result.stdout)["occurrences"]]


class TestWhatItShows:
    def test_plain_columns_in_a_pipe(self) -> None:
        result = preview("0 9 * * 1-5", "--timezone", "Europe/Berlin", "--count", "2")

        assert (result.exit_code, result.stdout, result.stderr) == (0, WORKDAYS, "")

    def test_json_has_the_shape_of_the_api(self) -> None:
        result = preview("0 9 * * 1-5", "--timezone", "Europe/Berlin", "--count", "1", "--json")

        assert json.loads(result.stdout) == {
            "description": "at 09:00, Monday to Friday (Europe/Berlin)",
            "occurrences": [{"at": "2026-11-16T08:00:00.000Z", "local": "2026-11-16T09:00:00.000+01:00", "note": None}],
            "skipped": [],
        }

    def test_times_are_local_to_the_zone_or_counted_from_now(self) -> None:
        berlin = ("--timezone", "Europe/Berlin")

        assert instants("2027-07-31 09:00", *berlin) == ["2027-07-31T07:00:00.000Z"]
        assert instants("in 10m") == ["2026-11-15T12:10:00.000Z"]
        after = ("--after", "2027-07-31 00:00", "--count", "1")
        assert instants("@daily", *berlin, *after) == ["2027-07-31T22:00:00.000Z"]
        assert instants("every 1h", "--start-at", "30m ago", "--count", "1") == ["2026-11-15T12:30:00.000Z"]

    def test_ten_unless_told_otherwise(self) -> None:
        assert len(instants("@hourly")) == 10
        assert len(instants("@hourly", "--count", "1000")) == 1000

    @pytest.mark.parametrize(
        ("schedule", "first"),
        [
            ("@daily", "2026-11-16T00:00:00.000Z"),
            ("*/10 * * * * *", "2026-11-15T12:00:10.000Z"),
            ("every 90m", "2026-11-15T13:30:00.000Z"),
            ("2027-01-31T09:00:00+01:00", "2027-01-31T08:00:00.000Z"),
            ("now", "2026-11-15T12:00:00.000Z"),
        ],
    )
    def test_every_way_to_write_a_schedule(self, schedule: str, first: str) -> None:
        assert instants(schedule, "--count", "1") == [first]

    def test_what_lies_in_the_past_runs_at_once(self) -> None:
        assert "in the past: runs now" in preview("2020-01-01T00:00:00Z").stdout


class TestDaylightSaving:
    GAP = ("30 2 * * *", "--timezone", "Europe/Berlin", "--after", "2027-03-27T12:00:00Z", "--count", "1")
    FOLD = ("30 2 * * *", "--timezone", "Europe/Berlin", "--after", "2027-10-30T12:00:00Z", "--count", "2")

    def test_a_missing_time_is_shifted_and_noted(self) -> None:
        [shifted] = json.loads(preview(*self.GAP, "--json").stdout)["occurrences"]

        assert (shifted["at"], shifted["local"]) == ("2027-03-28T01:00:00.000Z", "2027-03-28T03:00:00.000+02:00")
        assert "02:30 does not exist on 2027-03-28" in shifted["note"]

    def test_or_skipped_and_told_below(self) -> None:
        assert instants(*self.GAP, "--dst-gap", "skip") == ["2027-03-29T00:30:00.000Z"]
        assert "02:30 does not exist on 2027-03-28" in preview(*self.GAP, "--dst-gap", "skip").stdout.splitlines()[-1]

    def test_what_was_skipped_before_the_start_is_not_told(self) -> None:
        late = preview(*self.GAP, "--dst-gap", "skip", "--start-at", "2027-03-28T12:00:00Z")

        assert "does not exist" not in late.stdout

    def test_a_doubled_time_comes_once_or_twice(self) -> None:
        assert instants(*self.FOLD) == ["2027-10-31T00:30:00.000Z", "2027-11-01T01:30:00.000Z"]
        assert instants(*self.FOLD, "--dst-fold", "both") == ["2027-10-31T00:30:00.000Z", "2027-10-31T01:30:00.000Z"]
        assert "first of the two 02:30s" in preview(*self.FOLD).stdout


class TestWindow:
    def test_strictly_after(self) -> None:
        assert instants("@daily", "--after", "2027-01-01T00:00:00Z", "--count", "1") == ["2027-01-02T00:00:00.000Z"]
        assert instants("2027-01-01T00:00:00Z", "--after", "2027-01-01T00:00:00Z") == []

    def test_start_and_end_belong_to_it(self) -> None:
        window = ("--start-at", "2027-01-01T00:00:00Z", "--end-at", "2027-01-02T00:00:00Z")

        assert instants("@daily", *window) == ["2027-01-01T00:00:00.000Z", "2027-01-02T00:00:00.000Z"]

    def test_an_interval_counts_from_its_start(self) -> None:
        found = instants("every 90m", "--start-at", "2027-01-04T08:00:00Z", "--count", "2")

        assert found == ["2027-01-04T09:30:00.000Z", "2027-01-04T11:00:00.000Z"]

    def test_the_end_of_the_calendar_is_the_end(self) -> None:
        assert instants("every 3660d", "--count", "1000")[-1] < "2200"

    def test_nothing_left_is_said(self) -> None:
        result = preview("@daily", "--end-at", "2020-01-01T00:00:00Z")

        assert (result.exit_code, result.stdout) == (0, "at 00:00 every day (UTC)\nno more occurrences\n")

    def test_jitter_is_told_and_moves_no_nominal_time(self) -> None:
        assert "each up to 5m later" in preview("@daily", "--jitter", "5m").stdout
        assert instants("@daily", "--jitter", "5m") == instants("@daily")


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "named", "remedy"),
        [
            (["77 * * * *"], "SCHEDULE", "77 is not between 0 and 59"),
            (["22-2 * * * *"], "SCHEDULE", "write 22-59,0-2"),
            (["* * 31 2 *"], "SCHEDULE", "never fires"),
            (["every 0.5s"], "SCHEDULE", "must be between 1s and"),
            (["tomorrow"], "SCHEDULE", 'like "0 9 * * 1-5"'),
            (["2027-02-30T00:00:00Z"], "SCHEDULE", "not a real instant"),
            (["@daily", "--timezone", "berlin"], "--timezone", 'did you mean "Europe/Berlin"?'),
            (["@daily", "--timezone", "../../etc/passwd"], "--timezone", "not an IANA time zone"),
            (["@daily", "--after", "2027-01-01"], "--after", '"2027-01-31T09:00:00Z"'),
            (["@daily", "--start-at", "soon"], "--start-at", '"2027-01-31T09:00:00Z"'),
            (["@daily", "--jitter", "-5s"], "--jitter", 'like "250ms"'),
        ],
    )
    def test_says_which_field_and_what_to_write(self, arguments: list[str], named: str, remedy: str) -> None:
        result = preview(*arguments)

        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"{named}: ")
        assert remedy in result.stderr

    def test_as_the_api_would_with_json(self) -> None:
        result = preview("@daily", "--timezone", "berlin", "--json")

        assert (result.exit_code, result.stdout) == (1, "")
        problem = json.loads(result.stderr)
        assert problem["status"] == 422
        assert [(error["path"], error["code"]) for error in problem["errors"]] == [
            ("schedule.timezone", "bad_timezone")
        ]

    @pytest.mark.parametrize(
        "arguments",
        [[], ["@daily", "--count", "0"], ["@daily", "--count", "1001"], ["@daily", "--dst-gap", "x"], ["a", "b"]],
    )
    def test_usage_is_another_code(self, arguments: list[str]) -> None:
        assert preview(*arguments).exit_code == 2


class TestTheCommandItself:
    def test_help_teaches_by_example(self) -> None:
        assert 'oncue preview "0 9 * * 1-5"' in oncue("--help").stdout
        assert '"every 30s"' in preview("--help").stdout

    def test_an_unknown_command_is_a_usage_error(self) -> None:
        assert oncue("prevue").exit_code == 2

    def test_as_users_start_it(self) -> None:
        arguments = ["preview", "0 9 * * 1-5", "--timezone", "Europe/Berlin", "--after", NOW, "--count", "2"]
        result = subprocess.run([ONCUE, *arguments], capture_output=True, text=True, timeout=60, check=False)

        assert (result.returncode, result.stdout, result.stderr) == (0, WORKDAYS, "")

    def test_on_a_terminal_it_is_a_table(self) -> None:
        arguments = ["preview", "0 9 * * 1-5", "--timezone", "Europe/Berlin", "--after", NOW, "--count", "2"]
        shown = on_a_terminal([str(ONCUE), *arguments])

        assert "\x1b[1mat 09:00, Monday to Friday (Europe/Berlin)\x1b[0m" in shown
        assert "─────" in shown
        assert "Mon 2026-11-16 09:00:00 +01:00" in shown


def on_a_terminal(command: list[str]) -> str:
    """What a command prints when its standard output is a terminal."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm", "COLUMNS": "100"}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        shown = b""
        try:
            while part := terminal.read(4096):
                shown += part
        except OSError:  # how Linux says that the other end is closed
            pass
        assert process.wait(timeout=60) == 0, shown.decode()
    return shown.decode()
