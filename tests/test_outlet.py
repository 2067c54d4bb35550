"""What our processes say, when nobody can hear it: it does not raise, it does not wait, and what is lost is counted."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncue.logs.output import LONGEST_PIECE, MOST_WAITING, Outlet, text

PATIENCE = 20.0  # seconds for what takes a moment


def lost(pieces: int) -> str:
    return f"<{pieces} lost>\n"


@contextmanager
def outlet_to_a_pipe() -> Iterator[tuple[Outlet, int]]:
    reader, writer = os.pipe()
    outlet = Outlet(writer, lost)
    os.close(writer)
    try:
        yield outlet, reader
    finally:
        os.close(reader)


def test_lines_arrive_in_order() -> None:
    with outlet_to_a_pipe() as (outlet, reader):
        stream = text(outlet)
        print("one", file=stream)
        print("two \ud800", file=stream)

        assert outlet.settle(PATIENCE)
        assert os.read(reader, 1_000) == b"one\ntwo \\ud800\n"


def test_nobody_can_close_it_for_others() -> None:
    with outlet_to_a_pipe() as (outlet, reader):
        text(outlet).close()
        print("still here", file=text(outlet))

        assert outlet.settle(PATIENCE)
        assert os.read(reader, 1_000) == b"still here\n"


def test_a_full_disk_raises_nothing() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    outlet = Outlet(full, lost)
    os.close(full)

    for _ in range(3):
        print("nobody reads this", file=text(outlet))

    assert outlet.settle(PATIENCE)


def test_a_pipe_that_nobody_reads_holds_nobody_up_and_what_was_lost_is_told() -> None:
    with outlet_to_a_pipe() as (outlet, reader):
        for _ in range(2 * MOST_WAITING):
            outlet.write(b"x" * LONGEST_PIECE)
        assert not outlet.settle(0.01)

        said = b""
        for _ in range(2 * MOST_WAITING):
            outlet.write(b"and on\n")
            said += os.read(reader, 1_000_000).strip(b"x")
            told = sum(map(int, re.findall(rb"<(\d+) lost", said)))  # in two lines, if the thread was slow to start
            if told >= MOST_WAITING - 100:
                return
        pytest.fail(f"of {MOST_WAITING} lost pieces {told} were told")


def test_who_is_forked_off_can_say_something_too() -> None:
    with outlet_to_a_pipe() as (outlet, reader):
        outlet.write(b"parent\n")
        assert outlet.settle(PATIENCE)
        child = os.fork()
        if not child:
            outlet.write(b"child\n")
            os._exit(0 if outlet.settle(PATIENCE) else 1)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert os.read(reader, 1_000) == b"parent\nchild\n"


# -------------------------------------------------------------------------------------------------- a process of ours

SAYS = textwrap.dedent(
    """
    import logging, os, sys, traceback, warnings
    from oncue import logs
    from oncue.executors import capture
    from oncue.log import log

    logs.configure("test")
    for turn in range(int(sys.argv[1])):
        try:
            raise ValueError("wrong")
        except ValueError:
            log.exception("one of ours", filling="x" * 1_000)
            traceback.print_exc()
        logging.getLogger("uvicorn.error").error("one of the web server's")
        logging.getLogger("asyncio").error("one of the loop's", exc_info=True)
        warnings.warn("careful")
        print("on standard output", flush=True)
        if turn == 1:
            capture.install()
    sys.stderr.write("half a line")
    os.write(int(sys.argv[2]), b"done")
    """
)


def say(turns: int, **streams: object) -> tuple[int, bytes]:
    """The exit code, and whether it came to its end."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as done:
        process = subprocess.Popen(
            [sys.executable, "-c", SAYS, str(turns), str(writer)],
            pass_fds=[writer],
            **streams,  # type: ignore[call-overload]
        )
        os.close(writer)
        try:
            return process.wait(PATIENCE), done.read()
        finally:
            process.kill()
            process.wait()


def test_a_full_disk_stops_no_process() -> None:
    with Path("/dev/full").open("wb") as full:
        assert say(3, stdout=full, stderr=full) == (0, b"done")


def test_a_reader_that_has_gone_stops_no_process() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert say(3, stdout=writer, stderr=writer) == (0, b"done")
    finally:
        os.close(writer)


def test_a_reader_that_does_not_read_stops_no_process() -> None:
    reader, writer = os.pipe()
    try:
        assert say(500, stdout=writer, stderr=writer) == (0, b"done")
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("closed", ["1", "2"])
def test_streams_that_were_closed_stop_no_process(closed: str) -> None:
    command = f'exec "$0" -c "$1" 3 "$2" {closed}>&-'
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as done:
        shell = ["sh", "-c", command, sys.executable, SAYS, str(writer)]
        ended = subprocess.run(shell, pass_fds=[writer], capture_output=True, timeout=PATIENCE, check=False)
        os.close(writer)
        assert (ended.returncode, done.read()) == (0, b"done")
