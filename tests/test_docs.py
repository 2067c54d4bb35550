"""What the documentation claims is true: examples are run, tables are compared with the code, links are followed."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from click.testing import CliRunner

from oncue.cli.main import main
from oncue.domain.errors import Invalid
from oncue.domain.ids import ClassId, JobId, UserNumber
from oncue.domain.instants import HOUR, MINUTE, Instant, moment, parse_instant
from oncue.domain.job import Cursor, JobStatus, Spec
from oncue.domain.lane import FREE, Held
from oncue.domain.planning import DueJob, Plan, plan
from oncue.domain.policy import CatchUp
from oncue.domain.run import MOVES, Status
from oncue.domain.schedule import Asked, Calendar, describe_schedule, parse_schedule, to_cron
from oncue.metrics.cluster_table import CLUSTER_METRICS
from oncue.metrics.metric import Metric
from oncue.metrics.table import METRICS
from oncue.testing.clock import FakeClock

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
SCHEDULES = ROOT / "docs" / "schedules.md"
METRICS_PAGE = ROOT / "docs" / "metrics.md"
STATES = ROOT / "docs" / "states.md"
NOW = parse_instant("2026-11-15T00:00:00Z")


def blocks(page: Path, language: str) -> list[str]:
    every = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [text for of, text in every if of == language]


def table(page: Path, *heads: str) -> list[list[str]]:
    """The cells of the one table whose columns begin with these heads; code marks are taken off whole cells."""
    lines = page.read_text().splitlines()
    [start] = [i for i, line in enumerate(lines) if line.startswith("|") and cells(line)[: len(heads)] == list(heads)]
    rows = []
    for line in islice(lines, start + 2, None):
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def console_examples() -> Iterator[tuple[str, str, str]]:
    """Page, command and output of everything that is shown as typed into a console."""
    for page in PAGES:
        for block in blocks(page, "console"):
            for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = example.partition("\n")
                yield page.name, command, output.rstrip("\n")


@pytest.mark.parametrize(("page", "command", "output"), list(console_examples()))
def test_a_command_prints_what_the_page_shows(page: str, command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "oncue"

    result = CliRunner().invoke(main, arguments, obj=FakeClock(NOW))

    assert (result.exit_code, result.stdout.rstrip("\n")) == (0, output)


def test_pages_show_commands_at_all() -> None:
    assert {page for page, _, _ in console_examples()} >= {"README.md", "schedules.md"}


def test_links_lead_somewhere() -> None:
    links = {page: re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text()) for page in PAGES}

    assert [(page, to) for page in PAGES for to in links[page] if not (page.parent / to).exists()] == []


def test_links_lead_to_headings() -> None:
    for page in PAGES:
        for to, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text()):
            assert heading in anchors(page.parent / to if to else page), (page, to, heading)


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one).strip().lower().replace(" ", "-") for one in headings}


def test_the_table_of_metrics_is_the_one_that_is_declared() -> None:
    of_process = [[shown(one), one.kind, one.role, one.help] for one in METRICS]
    of_cluster = [[shown(one), one.kind, one.help] for one in CLUSTER_METRICS]

    assert table(METRICS_PAGE, "name", "type", "role", "meaning") == of_process
    assert table(METRICS_PAGE, "name", "type", "meaning") == of_cluster


def shown(metric: Metric) -> str:
    return f"{metric.name}{{{', '.join(metric.labels)}}}" if metric.labels else metric.name


class TestSchedules:
    def test_what_a_string_and_an_object_mean_is_the_same(self) -> None:
        for kind, text, given in table(SCHEDULES, "kind", "as a string", "as an object"):
            schedule = parse_schedule(msgspec.json.decode(given, type=Asked), NOW)
            if text:
                short = parse_schedule(text.split(",")[0].strip('`"'), NOW)
                assert (short.kind, short.at, short.cron, short.every) == (
                    schedule.kind,
                    schedule.at,
                    schedule.cron,
                    schedule.every,
                ), kind

    @pytest.mark.parametrize(("expression", "meaning"), table(SCHEDULES, "expression", "means"))
    def test_an_expression_means_what_the_page_says(self, expression: str, meaning: str) -> None:
        assert describe_schedule(parse_schedule(expression, NOW)) == f"{meaning} (UTC)"

    @pytest.mark.parametrize(("expression", "answer"), table(SCHEDULES, "expression", "answer"))
    def test_an_expression_is_refused_as_the_page_says(self, expression: str, answer: str) -> None:
        with pytest.raises(Invalid) as refused:
            parse_schedule(expression, NOW)

        assert [problem.message for problem in refused.value.problems] == [answer]

    @pytest.mark.parametrize(("fields", "cron", "meaning"), table(SCHEDULES, "calendar", "cron", "means"))
    def test_calendar_fields_become_this_cron(self, fields: str, cron: str, meaning: str) -> None:
        calendar = msgspec.json.decode(fields, type=Calendar)

        assert to_cron(calendar)[0] == cron
        assert describe_schedule(parse_schedule(Asked(calendar=calendar), NOW)) == f"{meaning} (UTC)"

    def test_both_day_fields_are_needed_when_one_starts_with_a_star(self) -> None:
        found = describe_schedule(parse_schedule("0 9 */2 * MON", NOW))

        assert "only on Monday" in found

    @pytest.mark.parametrize(
        ("policy", "runs", "ledger"), table(SCHEDULES, "catch_up", "runs", "in the occurrence history")
    )
    def test_catching_up_comes_to_what_the_page_says(self, policy: str, runs: str, ledger: str) -> None:
        planned = late_plan(CatchUp(policy.split("`")[0]))

        assert (", ".join(clock(run.nominal) for run in planned.runs) or "none") == runs
        assert (
            ", ".join(f"{clock(e.first)} to {clock(e.last)} {e.outcome} ({e.count})" for e in planned.ledger) == ledger
        )
        assert clock(planned.cursor.next_at) == "03:10"


def late_plan(policy: CatchUp) -> Plan:
    """What planning comes to three hours and a minute late."""
    spec = Spec("t", schedule=parse_schedule("every 10m", NOW), catch_up=policy)
    cursor = Cursor(Instant(NOW + 10 * MINUTE), floor=NOW)
    job = DueJob(JobId(UUID(int=1)), UserNumber(1), 1, ClassId(1), FREE, spec, cursor)
    late = Instant(NOW + 3 * HOUR + MINUTE)
    return plan(job, late, late)


def clock(at: Instant | None) -> str:
    assert at is not None
    return moment(at).strftime("%H:%M")


class TestStates:
    MOVES_IN_CODE = frozenset((move.value, was.name.lower(), to.name.lower()) for (was, move), to in MOVES.items())

    def test_the_table_has_every_move_and_no_other(self) -> None:
        rows = [tuple(row[:3]) for row in table(STATES, "move", "from", "to")]

        assert len(rows) == len(set(rows))
        assert set(rows) == self.MOVES_IN_CODE

    def test_the_diagram_has_every_move_and_no_other(self) -> None:
        arrows = re.findall(r"^ +(\w+) --> (\w+): (.+)$", blocks(STATES, "mermaid")[0], re.MULTILINE)

        assert len(arrows) == len(set(arrows))
        assert {(move, was, to) for was, to, move in arrows} == self.MOVES_IN_CODE

    def test_every_status_is_explained(self) -> None:
        assert [row[0] for row in table(STATES, "status", "stored")] == [status.value for status in Status]

    def test_every_status_of_a_job_is_explained(self) -> None:
        assert [row[0] for row in table(STATES, "status", "meaning")] == [status.value for status in JobStatus]

    def test_everything_that_holds_a_run_is_explained(self) -> None:
        assert [row[0] for row in table(STATES, "bit")] == [bit.name for bit in Held]


def test_the_walk_through_the_code_names_what_there_is() -> None:
    walk = table(ROOT / "docs" / "how-it-works.md", "step", "where", "what")
    assert len(walk) > 9

    for _, where, what in walk:
        for pattern, names in re.findall(r"`?([a-z_*/]+(?:\.py|/\*))`, ((?:`[\w.]+`?(?:, )?)+)", f"{where} {what}"):
            files = list((ROOT / "src" / "oncue").glob(pattern))
            assert files, pattern
            for name in re.findall(r"\w+(?=`|,|$)", names):
                defined = re.compile(rf"^ *(?:(?:async )?def|class) {name}\b|^{name} = ", re.MULTILINE)
                assert any(defined.search(file.read_text()) for file in files), (pattern, name)
