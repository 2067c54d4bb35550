"""A program under its warden: how it ended is told exactly, and nothing of it is left, whoever dies first."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.executors.working import SOON, alive_with, children, open_descriptors, until

from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.executors.contained import Contained, Ending, How, outlast, start
from oncue.executors.limits import Limits
from oncue.executors.output import Output

pytestmark = pytest.mark.kills

LONG = Duration(60 * SECOND)
SHORT = Duration(100 * MILLISECOND)

# Forks into a session of its own, closes what it inherited, loses its parent, and ignores TERM.
ESCAPE = "(trap '' TERM; setsid sh -c 'exec sleep 600' </dev/null >/dev/null 2>&1 &) ; echo away; "

# 128 processes, each of which has a new child all the time.
BOMB = """
import os
for _ in range(7): os.fork()
print("up", flush=True)
while True:
    if not os.fork(): os._exit(0)
    os.wait()
"""


class Program:
    """One program, what it said, and a mark in its environment to find its descendants by."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.text = ""
        self.contained: Contained

    async def start(
        self, argv: Sequence[str], *, grace: Duration = LONG, limits: Limits | None = None, cwd: str = ""
    ) -> None:
        self.output = Output(1 << 20)
        self.output.pass_to(self._write)
        self.contained = await start(
            argv,
            env={"PATH": os.environ["PATH"], "MARK": self.mark},
            limits=limits or Limits(),
            grace=grace,
            cwd=cwd,
            stdout=self.output.writing,
            stderr=self.output.writing,
        )
        self.output.handed_over()

    async def ended(self) -> Ending:
        async with asyncio.timeout(SOON):
            ending = await self.contained.ended()
        self.output.close()
        return ending

    def alive(self) -> set[int]:
        return alive_with(self.mark)

    def _write(self, text: str) -> None:
        self.text += text


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Program:
    return Program(f"marked-{os.getpid()}-{request.node.name}")


async def run(program: Program, *argv: str, limits: Limits | None = None, cwd: str = "") -> Ending:
    await program.start(argv, limits=limits, cwd=cwd)
    return await program.ended()


class TestHowItEnded:
    async def test_with_an_exit_code(self, program: Program) -> None:
        assert await run(program, "sh", "-c", "echo hello; exit 3") == Ending(How.EXIT, 3)
        assert program.text == "hello\n"

    async def test_with_a_signal(self, program: Program) -> None:
        assert await run(program, "sh", "-c", "kill -SEGV $$") == Ending(How.SIGNAL, signal.SIGSEGV)

    async def test_a_program_that_is_not_there(self, program: Program) -> None:
        assert (await run(program, "no-such-program")).how is How.NO_PROGRAM

    async def test_a_folder_that_is_not_there(self, program: Program, tmp_path: Path) -> None:
        assert (await run(program, "true", cwd=str(tmp_path / "none"))).how is How.NO_FOLDER

    async def test_a_folder_that_is(self, program: Program, tmp_path: Path) -> None:
        await run(program, "pwd", cwd=str(tmp_path))

        assert program.text == f"{tmp_path}\n"

    async def test_a_warden_that_was_killed_takes_the_program_with_it(self, program: Program) -> None:
        await program.start(["sh", "-c", "echo up; exec sleep 600"])
        await until(lambda: program.text)
        os.kill(program.contained.pid, signal.SIGKILL)

        assert await program.ended() == Ending(How.SIGNAL, signal.SIGKILL)
        await until(lambda: not program.alive())


class TestWhatItGets:
    async def test_no_descriptor_but_its_streams(self, program: Program) -> None:
        secret = os.open("/dev/null", os.O_RDONLY)
        os.set_inheritable(secret, True)
        await run(
            program, sys.executable, "-S", "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        )
        os.close(secret)

        assert program.text == "[0, 1, 2, 3]\n"  # 3 is the folder it looks into

    async def test_signals_as_a_program_expects_them(self, program: Program) -> None:
        await run(program, "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")

        there_are = sum(1 << number - 1 for number in signal.valid_signals())  # not those of the C library's own
        assert [int(line.split()[1], 16) & there_are for line in program.text.splitlines()] == [0, 0]

    async def test_limits(self, program: Program) -> None:
        limits = Limits(memory_mb=100, open_files=50, cpu_seconds=7)
        await run(program, "sh", "-c", "ulimit -d; ulimit -n; ulimit -t; ulimit -c", limits=limits)

        assert program.text.split() == [str(100 * 1024), "50", "7", "0"]

    async def test_memory_beyond_its_limit_is_refused(self, program: Program) -> None:
        hog = "bytearray(500 << 20)"

        assert await run(program, sys.executable, "-S", "-c", hog) == Ending(How.EXIT, 0)
        assert await run(program, sys.executable, "-S", "-c", hog, limits=Limits(memory_mb=200)) == Ending(How.EXIT, 1)
        assert "MemoryError" in program.text

    async def test_processor_time_beyond_its_limit_ends_it(self, program: Program) -> None:
        ending = await run(program, sys.executable, "-S", "-c", "while 1: pass", limits=Limits(cpu_seconds=1))

        assert ending.how is How.SIGNAL
        assert ending.number in (signal.SIGXCPU, signal.SIGKILL)


class TestNothingIsLeft:
    async def test_of_what_a_program_left_behind_when_it_ended(self, program: Program) -> None:
        assert await run(program, "sh", "-c", ESCAPE) == Ending(How.EXIT, 0)
        assert program.text == "away\n"
        assert program.alive() == set()

    async def test_after_a_stop_of_what_ended_on_term(self, program: Program) -> None:
        await program.start(["sh", "-c", "sleep 600 & echo up; wait"])
        await until(lambda: program.text)
        await program.contained.stop()

        assert await program.ended() == Ending(How.SIGNAL, signal.SIGTERM)
        assert program.alive() == set()

    async def test_after_a_stop_of_what_ignores_term_and_has_run_away(self, program: Program) -> None:
        await program.start(["sh", "-c", f"trap '' TERM; {ESCAPE} while :; do sleep 600; done"], grace=SHORT)
        await until(lambda: program.text and len(program.alive()) >= 4)
        await program.contained.stop()

        assert await program.ended() == Ending(How.SIGNAL, signal.SIGKILL)
        assert program.alive() == set()

    async def test_while_a_slow_descendant_gets_its_grace_though_the_program_has_ended(self, program: Program) -> None:
        slow = "trap 'sleep 0.2; echo tidied; exit' TERM; echo up; while :; do sleep 0.01; done"
        await program.start(["sh", "-c", f'sh -c "{slow}" & trap exit TERM; while :; do sleep 0.01; done'])
        await until(lambda: program.text)
        await program.contained.stop()
        await program.ended()

        assert program.text.endswith("tidied\n")

    async def test_of_a_fork_bomb(self, program: Program) -> None:
        await program.start([sys.executable, "-S", "-c", BOMB], grace=Duration(0))
        await until(lambda: program.text.count("up") == 128)
        await program.contained.stop()
        await program.ended()

        assert program.alive() == set()

    async def test_when_it_is_stopped_at_any_moment_of_its_start(self, program: Program) -> None:
        for delay in range(0, 60, 3):
            await program.start(["sh", "-c", ESCAPE + "sleep 600"], grace=Duration(0))
            await asyncio.sleep(delay / 1_000)  # somewhere between its first instruction and the program's last
            await program.contained.stop()
            await program.ended()

            assert program.alive() == set()
        assert children() == set()

    async def test_open_here(self, program: Program) -> None:
        await run(program, "true")
        before = open_descriptors()
        for name in ["true", "false", "no-such-program"] * 5:
            await run(program, name)

        assert open_descriptors() <= before


async def test_a_start_that_is_cancelled_is_finished_and_undone(program: Program) -> None:
    starting = asyncio.create_task(program.start(["sh", "-c", "echo up; sleep 600"]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    program.output.close()

    assert program.alive() == set()
    assert children() == set()


async def test_waiting_to_the_end_survives_any_number_of_cancellations() -> None:
    gate = asyncio.Event()
    ending = asyncio.ensure_future(gate.wait())
    waiting = asyncio.create_task(outlast(ending))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()

    assert isinstance(await waiting, asyncio.CancelledError)
    assert ending.result() is True
