"""`oncue dev`: saving a file restarts the worker, and nothing that ran is lost or counted."""

from __future__ import annotations

import signal
from contextlib import closing

import pytest
from tests.cli.terminal import Terminal
from tests.processes.fleet import Fleet, until

pytestmark = pytest.mark.kills

TASKS = """
import asyncio
import oncue

tasks = oncue.Tasks()


@tasks.task
async def version() -> int:
    return 1


@tasks.task(max_retries=0)
async def waits() -> int:
    await asyncio.sleep({length})
    return 1
"""


ENDED_BY_FILES = """
import asyncio
from pathlib import Path
import oncue

tasks = oncue.Tasks()


@tasks.task
async def waits(file: str) -> None:
    while not Path(file).exists():
        await asyncio.sleep(0.05)
"""
TALKATIVE = """
import asyncio, logging, sys, threading
import oncue

tasks = oncue.Tasks()


def talk(ctx: oncue.Context, lines: int = 1) -> None:
    for number in range(lines):
        print("printed", number)
    logging.getLogger("shop").warning("warned")
    ctx.log.info("logged")
    print("\\033[2J\\u202etxt", file=sys.stderr)
    print("no end", end="")


@tasks.task
async def loop(ctx: oncue.Context) -> None:
    talk(ctx)


@tasks.task
def thread(ctx: oncue.Context) -> None:
    talk(ctx)


@tasks.task(isolation="process")
def process(ctx: oncue.Context, lines: int) -> None:
    talk(ctx, lines)
"""
TALK = ["printed 0", "WARNING warned", "INFO logged", "\\x1b[2J\\u202etxt", "no end"]


def test_what_tasks_print_and_log_is_shown(fleet: Fleet) -> None:
    """Of all kinds of tasks, with the run's id; a burst is counted, and its log has all of it."""
    file = fleet.folder / "tasks.py"
    file.write_text(TALKATIVE)
    options = ("--tasks", str(file), "--port", str(fleet.port), "--allow-commands")
    member = fleet.start("dev", *options)
    fleet.ready(workers=1)
    runs = {task: fleet.create(task) for task in ("loop", "thread")}
    burst = fleet.create("process", {"lines": 100_000})
    command = fleet.command("sh", "-c", "echo out; echo err >&2")
    assert {run["status"] for run in fleet.at_rest([*runs.values(), burst, command]).values()} == {"succeeded"}
    until(lambda: f"process ({burst[-8:]}): succeeded" in member.said, "the end is told", fleet.tell)

    shown = [line[10:] for line in member.said.splitlines()]
    for task, run in runs.items():
        told = [line.removeprefix(f"{task} ({run[-8:]}): ") for line in shown if run[-8:] in line]
        assert told[:-1] == TALK, task
        assert told[-1].startswith("succeeded in ")
    of_command = [line for line in shown if command[-8:] in line]
    assert of_command[:2] == [f"command ({command[-8:]}): {word}" for word in ("out", "err")]
    told = [line.removeprefix(f"process ({burst[-8:]}): ") for line in shown if burst[-8:] in line]
    assert (told[0], told[99]) == ("printed 0", "printed 99")
    assert len(told) < 1_000
    more = [line for line in told if line.endswith(f" more lines, see `oncue runs logs {burst[-8:]}`")]
    numbers = [int(line.split()[1].replace(",", "")) for line in more]
    assert sum(numbers) + len(told) - len(more) - 1 == 100_000 + len(TALK) - 1, "each is shown or counted"
    stored = fleet.text(f"/runs/{burst}/logs").splitlines()
    assert [line for line in stored if "printed" in line] == [f"printed {number}" for number in range(100_000)]

    member.send(signal.SIGTERM)
    assert member.ended() == 0
    quiet = fleet.start("dev", *options, "--no-log-output")
    fleet.ready(workers=1)
    fleet.at_rest([run := fleet.create("loop")])
    until(lambda: f"loop ({run[-8:]}): succeeded" in quiet.said, "the end is told", fleet.tell)
    assert "printed" not in quiet.said


def test_ctrl_c_says_what_it_waits_for_and_a_second_one_ends_it(fleet: Fleet) -> None:
    file = fleet.folder / "tasks.py"
    file.write_text(ENDED_BY_FILES)
    command = ["dev", "--data-dir", str(fleet.folder), "--engine", fleet.engine, "--port", str(fleet.port)]
    with closing(Terminal(*command, cwd=fleet.folder, **fleet.environment)) as terminal:
        fleet.ready(workers=1)
        short, long = (fleet.create("waits", {"file": str(fleet.folder / name)}) for name in ("short", "long"))
        until(lambda: {fleet.run(run)["status"] for run in (short, long)} == {"running"}, "they run", fleet.tell)
        shown = {run: f"waits ({run[-8:]})" for run in (short, long)}
        hint = "; Ctrl-C again returns them to the queue at once"

        terminal.type("\x03")
        terminal.until(lambda: hint in terminal.shown)
        [line] = [line for line in terminal.shown.splitlines() if "Waiting" in line]
        waits_for = line.partition("Waiting at most 25s for ")[2].removesuffix(hint)
        assert sorted(waits_for.split(", ")) == sorted(shown.values())
        (fleet.folder / "short").touch()
        terminal.until(lambda: f"s for {shown[long]}{hint}" in terminal.shown)
        terminal.type("\x03")

        assert terminal.ended() == 0
        said = [line.partition("  ")[2] for line in terminal.shown.splitlines()]
    assert {"Stopping", "Stopping at once", "The worker ends: 1 finished, 1 returned to the queue"} <= set(said)
    assert said[-1] == "Stopped"


def test_a_save_restarts_the_worker_and_its_run_goes_on_with_the_new_code(fleet: Fleet) -> None:
    file = fleet.folder / "code" / "tasks.py"
    file.parent.mkdir()
    text = TASKS.format(length=600)
    file.write_text(text)
    member = fleet.start("dev", "--tasks", str(file), "--port", str(fleet.port))
    fleet.ready(workers=1)
    waiting = fleet.create("waits")
    until(lambda: fleet.run(waiting)["status"] == "running", "it runs", fleet.tell)

    file.write_text(text + "def x(:\n")
    until(lambda: "line 17: def x(:" in member.said, "the line is named", fleet.tell)
    assert fleet.run(waiting)["status"] == "queued", "the API answers without a worker"
    file.write_text(TASKS.format(length=0).replace("return 1", "return 2"))
    new = fleet.create("version")
    ended = fleet.at_rest([waiting, new])

    assert [(run["status"], run["result"]) for run in ended.values()] == [("succeeded", 2)] * 2
    assert len(ended[waiting]["attempts"]) == 1, "what the reload stopped is no attempt"
    said = member.said
    for words in ("reload: tasks.py changed", "0 finished, 1 returned to the queue", "waits (", "succeeded in"):
        assert words in said
