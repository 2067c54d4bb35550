"""What a worker and a process of its own say to each other: lines of JSON over a socket.

A process that waits for runs gets its Settings, says that it is `ready`, and is then handed, for each run, the ends of
a line and of a pipe that were made for this run. It answers, when nothing is left of the run, how its process ended,
in the words of a warden.

On the line of a run the worker sends a Run. The run's process says any number of Progress and Save (each of which is
answered with Kept), then Done or Failed. What user code prints takes the pipe.
"""

from __future__ import annotations

import msgspec

from oncue.context import RunInfo
from oncue.domain.instants import Duration

LONGEST_LINE = 16 * 1024 * 1024
RUN = b"r"  # comes with two descriptors


class Run(msgspec.Struct, tag="run", frozen=True):
    """To the process: run this."""

    info: RunInfo
    payload: bytes | None


class Kept(msgspec.Struct, tag="kept", frozen=True):
    """To the process: the checkpoint is kept, or `problem` says why it is not."""

    problem: str | None = None


class Progress(msgspec.Struct, tag="progress", frozen=True):
    stored: bytes


class Save(msgspec.Struct, tag="save", frozen=True):
    """From the process, which waits for the answer."""

    stored: bytes


class Done(msgspec.Struct, tag="done", frozen=True):
    result: bytes | None


class Failed(msgspec.Struct, tag="failed", frozen=True):
    kind: str
    message: str
    retry: bool = True
    after: Duration | None = None


ToProcess = Run | Kept
FromProcess = Progress | Save | Done | Failed


def ready(left: str) -> bytes:
    """`left`: what importing the tasks left behind, and why each run needs a process that was started for it."""
    return f"ready {left}\n".encode()


def line(said: ToProcess | FromProcess) -> bytes:
    return msgspec.json.encode(said) + b"\n"
