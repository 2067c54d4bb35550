"""What tasks print and log as lines of the worker's log: whole lines in their order, and bounded."""

from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.services.worker_loops import Stage, crew_on, work

from oncue.domain.run import Claimed
from oncue.services.task_output import LONGEST_LINE, MOST, MOST_OF_RUN, WINDOW, RunOutput, TaskOutput
from oncue.testing.clock import FakeClock
from oncue_conformance.store import Store


class Worker:
    """The output of some runs, and what is shown of it: lines, and how many were left out."""

    def __init__(self, logged: list[Any]) -> None:
        self.clock = FakeClock()
        self.output = TaskOutput(self.clock)
        self._logged = logged

    def run(self) -> RunOutput:
        return self.output.of(cast(Claimed, SimpleNamespace(run_id=1, job_id=1, spec=b"")))

    @property
    def shown(self) -> list[str | int]:
        lines = [line["output"] if line["kind"] == "run_output" else line["lines"] for line in self._logged]
        self._logged.clear()
        return lines


@pytest.fixture
def worker(logged: list[Any]) -> Worker:
    return Worker(logged)


async def test_a_worker_shows_what_its_runs_write_before_their_end(store: Store, logged: list[Any]) -> None:
    run_id = await store.one_shot(task="fail", name="nightly", max_retries=0)
    await work(await crew_on(store, Stage(), log_output=True))

    *trace, dead = logged
    about = {"kind": "run_output", "run_id": str(run_id), "job_id": str(run_id), "task": "fail", "name": "nightly"}
    assert trace[-1].items() >= (about | {"output": "RuntimeError: boom 1"}).items()
    assert dead["kind"] == "run_dead"


def test_a_line_is_shown_when_it_is_whole_or_nothing_follows(worker: Worker) -> None:
    run = worker.run()
    for piece in ("a", "b\nc\n\nd", "", "e\r\n", " 1 %\r 2 %\r", "99 %\r\n", "f"):
        run.write(piece)
    assert worker.shown == ["ab", "c", "", "de", "99 %"]

    run.end()
    run.end()
    assert worker.shown == ["f"]


def test_of_a_long_line_the_beginning_is_shown(worker: Worker) -> None:
    run = worker.run()
    run.write("x" * LONGEST_LINE + "\n" + "y" * 600)
    run.write("y" * 600)
    run.write("\nz\n")

    assert worker.shown == ["x" * LONGEST_LINE, "y" * LONGEST_LINE + "…", "z"]


@pytest.mark.parametrize("pieces", [1, 1_000])
async def test_a_burst_is_counted(worker: Worker, pieces: int) -> None:
    run = worker.run()
    for _ in range(pieces):
        run.write("line\n" * (10_000 // pieces))
    run.write("begun")
    assert worker.shown == ["line"] * MOST_OF_RUN

    worker.output.tell_cut()
    assert worker.shown == [], "it may write more"
    await worker.clock.advance(WINDOW)
    worker.output.tell_cut()
    assert worker.shown == [10_000 - MOST_OF_RUN]
    run.write(" again\n")
    run.end()
    assert worker.shown == ["begun again"]


async def test_the_next_line_comes_after_those_that_were_left_out(worker: Worker) -> None:
    run = worker.run()
    run.write("line\n" * (MOST_OF_RUN + 3))
    await worker.clock.advance(WINDOW)
    run.write("later\n")
    assert worker.shown[MOST_OF_RUN:] == [3, "later"]

    run.write("line\n" * MOST_OF_RUN + "cut")
    run.end()
    assert worker.shown[-1] == 2


def test_many_runs_share_the_terminal(worker: Worker) -> None:
    runs = [worker.run() for _ in range(2 * MOST)]
    for run in runs:
        run.write("line\n")
    assert worker.shown == ["line"] * MOST

    for run in runs:
        run.end()
    assert worker.shown == [1] * MOST, "one line of each, as of its end"


def test_threads_of_one_run_write_whole_lines(worker: Worker) -> None:
    run = worker.run()
    threads = [Thread(target=run.write, args=(f"{letter * 50}\n" * 10,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(worker.shown, key=str) == [letter * 50 for letter in "abcd" for _ in range(10)]
