"""Messages between a worker and a process of its own: lines of JSON over a socket.

A process that waits for runs gets its Settings, says that it is `ready`, and then receives, for each run, the ends of a
socket and of a pipe created for this run. When nothing is left of the run, it answers how the run's process ended, in
the words of a warden.

On the socket of a run the worker sends a Run. The run's process sends any number of Progress, Save and Submit (each
Save is answered with Saved, each Submit with Submitted), then Done or Failed. What user code prints goes through the
pipe.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from oncue.context import RunInfo
from oncue.domain.instants import Duration

LONGEST_LINE = 96 * 1024 * 1024  # bytes: the largest result, in base64
RUN = b"r"  # comes with two descriptors


class Run(msgspec.Struct, tag="run", frozen=True):
    """To the process: run this."""

    info: RunInfo
    payload: bytes | None
    secrets: dict[str, str] = {}  # that the payload names


class Saved(msgspec.Struct, tag="kept", frozen=True):
    """To the process: the checkpoint is saved, or `problem` says why it is not."""

    problem: str | None = None


class Progress(msgspec.Struct, tag="progress", frozen=True):
    stored: bytes


class Save(msgspec.Struct, tag="save", frozen=True):
    """From the process, which waits for the answer."""

    stored: bytes


class Submit(msgspec.Struct, tag="submit", frozen=True):
    """From the process, which waits for the answer: create the jobs of this Submission."""

    stored: bytes


class Submitted(msgspec.Struct, tag="submitted", frozen=True):
    """To the process: the ids of the jobs, or why there are none."""

    ids: tuple[UUID, ...] = ()
    problem: str | None = None


class Done(msgspec.Struct, tag="done", frozen=True):
    result: bytes | None


class Failed(msgspec.Struct, tag="failed", frozen=True):
    kind: str
    message: str
    retry: bool = True
    after: Duration | None = None
    path: str | None = None
    traceback: str = ""


ToProcess = Run | Saved | Submitted
FromProcess = Progress | Save | Submit | Done | Failed


def ready(left: str) -> bytes:
    """Build `ready`. `left`: what importing the tasks left behind, and why each run needs a process started for it."""
    return f"ready {left}\n".encode()


def line(said: ToProcess | FromProcess) -> bytes:
    return msgspec.json.encode(said) + b"\n"
