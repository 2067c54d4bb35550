"""What a worker and one run in a process of its own say to each other. Created for the run, and closed with it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import msgspec

from oncue.context import Reports
from oncue.domain.plain_json import readable
from oncue.executors import words
from oncue.executors.contained import outlast
from oncue.executors.output import Output
from oncue.executors.port import ProcessLost
from oncue.secret import secrets_of_run

LONG = 256 * 1024  # bytes; decoding a longer line takes milliseconds, so a thread does it

_decode = msgspec.json.Decoder(words.FromProcess).decode


class Conversation:
    """A socket for messages, and a pipe for prints. `theirs` are the process's ends."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        theirs: socket.socket,
        output: Output,
        reports: Reports,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._theirs = theirs
        self._output = output
        self._reports = reports

    def hand_over(self, orders: socket.socket) -> None:
        """Send the run's process its ends, and close ours: so they are closed when the process has ended."""
        try:
            socket.send_fds(orders, [words.RUN], [self._theirs.fileno(), self._output.writing])
        except OSError:
            pass  # it is gone, which the socket tells in a moment
        finally:
            self._theirs.close()
            self._output.handed_over()

    def say(self, run: words.Run) -> None:
        self._writer.write(words.line(run))

    async def listen(self) -> words.Done | words.Failed | None:
        """Pass on the run's messages until it has ended. None: its process has closed the line."""
        while True:
            match await self._receive():
                case None:
                    return None
                case words.Progress(stored):
                    self._reports.progress(stored)
                case words.Save(stored):
                    await self._answer(_save(self._reports, stored))
                case words.Submit(stored):
                    await self._answer(_submit(self._reports, stored))
                case words.Done() | words.Failed() as answer:
                    return answer

    async def _answer(self, acting: Coroutine[Any, Any, words.Saved | words.Submitted]) -> None:
        """Act, and send the answer: the run waits for it, also when it is told to stop."""
        task = asyncio.ensure_future(acting)
        cancelled = await outlast(task)
        self._writer.write(words.line(task.result()))
        if cancelled:
            raise cancelled

    def close(self) -> None:
        """Close both. All prints are in the log when this returns."""
        self._theirs.close()
        self._output.close()
        self._writer.close()

    async def _receive(self) -> words.FromProcess | None:
        """None: the process has closed the line."""
        try:
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                return None
            return _understood(line) if len(line) <= LONG else await asyncio.to_thread(_understood, line)
        except OSError:
            return None
        except (ValueError, RecursionError):  # the task's code has found the line and uses it itself
            raise ProcessLost("the process sent an invalid message to the worker, and was stopped") from None


async def converse(reports: Reports, max_log_bytes: int) -> Conversation:
    ours, theirs = socket.socketpair()
    # asyncio loses a socket if its opening is cancelled half-way.
    opening = asyncio.ensure_future(asyncio.open_unix_connection(sock=ours, limit=words.LONGEST_LINE))
    cancelled = await outlast(opening)
    reader, writer = opening.result()
    output = Output(max_log_bytes)
    output.pass_to(reports.write, secrets_of_run.get().masking)
    conversation = Conversation(reader, writer, theirs, output, reports)
    if cancelled:
        conversation.close()
        raise cancelled
    return conversation


def _understood(line: bytes) -> words.FromProcess:
    said: words.FromProcess = _decode(line)
    match said:
        case words.Progress(stored) | words.Save(stored) | words.Submit(stored) | words.Done(bytes(stored)) if (
            not readable(stored)
        ):
            raise ValueError("the value to store is not JSON")
    return said


async def _save(reports: Reports, stored: bytes) -> words.Saved:
    try:
        await reports.save(stored)
    except Exception as problem:  # the run over there handles it
        return words.Saved(str(problem) or type(problem).__name__)
    return words.Saved()


async def _submit(reports: Reports, asked: bytes) -> words.Submitted:
    try:
        return words.Submitted(await reports.submit(asked))
    except Exception as problem:  # the run over there handles it
        return words.Submitted(problem=str(problem) or type(problem).__name__)
