"""What a worker and a process of its own say to each other: lines of JSON over a socket.

The worker first sends its Settings, then one Run at a time. The process answers each with any number of Progress and
Save (each of which is answered with Kept), then Done or Failed. What user code prints takes another way: a pipe.
"""

from __future__ import annotations

import msgspec

from oncue.context import RunInfo
from oncue.domain.instants import Duration

LONGEST_LINE = 16 * 1024 * 1024


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


def line(said: ToProcess | FromProcess) -> bytes:
    return msgspec.json.encode(said) + b"\n"
