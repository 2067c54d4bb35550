"""What the pages tell a reader to type works, and what they list is what there is."""

import ast
import inspect
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

import click
import httpx2
import msgspec
import pytest
from tests.examples.server import EXAMPLES, ROOT, create, run_when
from tests.test_docs import PAGES, blocks, table

from oncue.api.application import CALLS, OPEN_CALLS
from oncue.api.routes import TEXT_ROUTES
from oncue.cli.main import main
from oncue.context import Context
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, show_duration
from oncue.domain.job import JobStatus
from oncue.domain.placement import HEAD_START, Priority
from oncue.domain.preemption import stint
from oncue.executors.command import command_task
from oncue.executors.http import http_task
from oncue.services import fair_share, prefetch
from oncue.services.capacity import MOST_FOR_ONE
from oncue.services.choosing import KEEP_AFTER, KEEP_NEXT
from oncue.settings import ALL, DECLARED, Declaration, Roles, Settings
from oncue.shapes.accounts import AuditLine, Key
from oncue.shapes.fleet import Queue
from oncue.shapes.jobs import JobFields, Occurrence
from oncue.shapes.runs import LastRun, Run, WholeRun
from oncue.tasks import Isolation, Task, Tasks

API = ROOT / "docs" / "api.md"
TASKS = ROOT / "docs" / "tasks.md"
STATUSES = set(JobStatus)
TOLD_IN_WORDS = {"task": "", "schedule": "now", "retry": "", "resources": ""}  # defaults that are no single value


class TestRunning:
    def test_the_page_has_every_setting_as_the_code_has_it(self) -> None:
        page = (ROOT / "docs" / "running.md").read_text()

        assert settings_table() in page, f"put this into docs/running.md:\n\n{settings_table()}"

    def test_the_commands_of_the_pages_have_the_options_that_are_shown(self) -> None:
        shown = [line for page in PAGES for line in typed(page) if line.startswith("oncue ")]
        assert any("--reserved-for-high" in line or "--worker-memory-mb" in line for line in shown)

        for line in shown:
            words = line.partition("  #")[0].partition(" | ")[0].split()[1:]
            command: click.Command | None = main
            while isinstance(command, click.Group):
                command = command.get_command(click.Context(command), words.pop(0))
            assert command is not None, line
            there_are = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= there_are, line


def typed(page: Path) -> list[str]:
    """The lines of blocks without a language, each command on one line."""
    return [line for block in blocks(page, "") for line in block.replace("\\\n", "").splitlines()]


class TestSharing:
    def test_the_page_has_the_numbers_of_the_code(self) -> None:
        page = (ROOT / "docs" / "sharing.md").read_text()
        high, low = HEAD_START[Priority.HIGH], HEAD_START[Priority.LOW]

        for said in (
            f"`low` work up to {(low - high) // MINUTE} minutes earlier",
            f"`normal` | `low` work that was due up to {low // MINUTE} minutes earlier",
            f"late for {in_seconds(KEEP_AFTER[Priority.NORMAL])} (of high priority, for "
            f"{in_seconds(KEEP_AFTER[Priority.HIGH])})",
            f"each further one {in_seconds(KEEP_NEXT)} later",
            f"`--reserved-for-high {Settings().reserved_for_high}`",
            f"{MOST_FOR_ONE:.0%}".replace("%", " %"),
            f"{fair_share.RECENTLY // SECOND} seconds",
        ):
            assert said in page, said
        assert KEEP_AFTER[Priority.LOW] == KEEP_AFTER[Priority.NORMAL]
        assert prefetch.LATE == SECOND  # more than a second
        assert prefetch.PREEMPT_DELAY == SECOND // 10  # a tenth of a second
        assert [stint(n) for n in (0, 1, 2, 3, 10)] == [SECOND // 2, MINUTE, 2 * MINUTE, 4 * MINUTE, HOUR]


def in_seconds(length: Duration) -> str:
    return f"{length / SECOND:g} s"


def settings_table() -> str:
    rows = [f"| `{name}` | {default_of(name)} | {_read_by(one)} | {one.text} |" for name, one in DECLARED.items()]
    return "\n".join(["| setting | default | read by | |", "|---|---|---|---|", *rows])


def _read_by(one: Declaration) -> str:
    return "all" if one.roles == ALL else ", ".join(str(role.name).lower() for role in Roles if role in one.roles)


def meanings(kind: type) -> dict[str, str]:
    """The words below each field of a class; none where there are none."""
    [body] = [node.body for node in ast.walk(ast.parse(inspect.getsource(kind))) if isinstance(node, ast.ClassDef)]
    words = {}
    for field, below in pairwise([*body, ast.Pass()]):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                words[name] = said
            case ast.AnnAssign(target=ast.Name(name)), _:
                words[name] = ""
    return words


def default_of(name: str) -> str:
    value = getattr(Settings(), name)
    if get_type_hints(Settings)[name] is Duration:
        return show_duration(value)
    match value:
        case bool():
            return "on" if value else "off"
        case int():
            return str(value)
        case tuple():
            return ", ".join(f"`{one}`" for one in value)
        case _:
            return f"`{value}`" if value else ""


class TestApi:
    def test_the_page_has_every_call_and_no_other(self) -> None:
        plain = [*OPEN_CALLS, *(route.path for route in TEXT_ROUTES)]
        there_are = [f"{method} {path}" for method, path in CALLS] + [f"GET {path}" for path in plain]

        assert sorted(call for call, _ in table(API, "call", "answer")) == sorted(there_are)

    async def test_the_page_has_every_field_of_a_job_with_its_default(self, client: httpx2.AsyncClient) -> None:
        job = await create(client, {"task": "hello"})
        listed = {field: default for field, default, _ in table(API, "field", "default", "meaning")}
        [also] = re.findall(r"^Answers also have (.*)$", API.read_text(), re.MULTILINE)

        assert set(job) == {*listed, *(name for name in re.findall(r"`(\w+)`", also) if name not in STATUSES)}
        for field in listed.keys() - TOLD_IN_WORDS.keys():
            assert listed[field] == msgspec.json.encode(job[field]).decode().strip('"'), field
        assert job_table(job) in API.read_text(), f"put this into docs/api.md:\n\n{job_table(job)}"

    async def test_the_page_has_every_field_of_a_run(self, client: httpx2.AsyncClient) -> None:
        job = await create(client, {"task": "hello"})
        run = await run_when(client, job["job_id"], "succeeded")

        assert [field for field, _ in table(API, "field of a run", "meaning")] == list(run)

    @pytest.mark.parametrize(
        ("what", "shapes"),
        [
            ("a run", (LastRun, Run, WholeRun)),
            ("an occurrence", (Occurrence,)),
            ("a queue", (Queue,)),
            ("a key", (Key,)),
            ("the audit log", (AuditLine,)),
        ],
    )
    def test_the_page_says_of_fields_what_the_shapes_say(self, what: str, shapes: tuple[type, ...]) -> None:
        said = {name: words for shape in shapes for name, words in meanings(shape).items()}
        wanted = [row(f"`{name}`", words) for name, words in said.items()]

        assert {*wanted} <= {*API.read_text().splitlines()}, "put this into docs/api.md:\n\n" + "\n".join(wanted)
        assert {name for name, _ in table(API, f"field of {what}", "meaning")} == said.keys()


def row(*cells: str) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def job_table(job: dict[str, Any]) -> str:
    """What can be set of a job, with what it is in this one, which was made with nothing but defaults."""
    lines = ["| field | default | meaning |", "|---|---|---|"]
    for name, words in meanings(JobFields).items():
        default = TOLD_IN_WORDS.get(name, json_cell(job[name]))
        lines.append(row(f"`{name}`", default, words))
    return "\n".join(lines)


def json_cell(value: Any) -> str:
    shown = msgspec.json.encode(value).decode().strip('"')
    return f"`{shown}`" if isinstance(value, str | list) else shown


class TestTasks:
    def test_the_readme_shows_the_first_task_as_it_is(self) -> None:
        [_, shown] = blocks(ROOT / "README.md", "python")
        there = (EXAMPLES / "tasks.py").read_text().splitlines()

        assert [line for line in shown.splitlines() if line not in there] == []

    def test_the_page_has_everything_that_a_task_is_given(self) -> None:
        listed = [name for name, _ in table(TASKS, "ctx.", "what it is")]

        assert sorted(listed) == sorted(name for name in vars(Context) if not name.startswith("_"))

    def test_what_the_page_shows_can_be_registered(self) -> None:
        names: dict[str, object] = {}
        exec("\n".join(blocks(TASKS, "python")), names)

        tasks = names["tasks"]
        assert isinstance(tasks, Tasks)
        assert [(task.name, task.isolation) for task in tasks] == [
            ("resize", Isolation.LOOP),
            ("digest", Isolation.LOOP),
            ("charge", Isolation.THREAD),
            ("billing.charge", Isolation.THREAD),
            ("import", Isolation.PROCESS),
        ]
        assert [one.name for one in tasks.declared()] == ["key:digest", "key:digest-eu"]

    @pytest.mark.parametrize("built_in", [http_task, command_task])
    def test_the_page_has_every_field_of_a_built_in_task(self, built_in: Callable[[Settings], Task]) -> None:
        task = built_in(Settings())
        fields = msgspec.json.decode(task.schema())["$defs"]["Payload"]["properties"]
        section = TASKS.read_text().split(f"## Built-in: `{task.name}`")[1].split("\n## ")[0]

        assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(fields)
