"""One process that is kept warm for process-isolated runs, seen from the worker."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
from contextlib import suppress

import msgspec

from oncue.context import Reports
from oncue.domain.plain_json import readable
from oncue.services.executors import words
from oncue.services.executors.contained import Contained, outlast, start
from oncue.services.executors.limits import Limits
from oncue.services.executors.output import Output
from oncue.services.executors.port import ProcessLost, TaskFailed, Work
from oncue.settings import Settings

CHILD = ("-m", "oncue.services.executors.child")
MOST_RUNS = 1_000  # then a fresh one: what leaks in user code stays small
LAST_WORDS = 1.0  # seconds that a process which fell silent has to end by itself

_decode = msgspec.json.Decoder(words.FromProcess).decode


class WarmProcess:
    """Runs one at a time. Whatever was not answered with Done or Failed ends the process; it is never used again."""

    def __init__(
        self,
        contained: Contained,
        output: Output,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: Limits,
    ) -> None:
        self.limits = limits
        self._contained = contained
        self._output = output
        self._reader = reader
        self._writer = writer
        self._runs = 0
        self._worn = False

    @property
    def usable(self) -> bool:
        fresh = self._runs < MOST_RUNS and not self._worn
        return fresh and self._contained.running and not self._reader.at_eof() and not self._is_hung_up()

    def _is_hung_up(self) -> bool:
        """One that is idle says nothing: if there is something to read, it is gone, and we had yet to notice."""
        waiting = select.poll()
        waiting.register(self._writer.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(waiting.poll(0))

    async def run(self, work: Work) -> bytes | None:
        """When it ends otherwise than by result or TaskFailed, the process is gone. So it is after a CancelledError."""
        self._runs += 1
        self._output.pass_to(work.reports.write)
        try:
            answer = await self._asked(work)
        except asyncio.CancelledError:
            await outlast(asyncio.ensure_future(self._stop_run(work.reports)))
            raise
        except BaseException:
            await outlast(asyncio.ensure_future(self.stop()))
            raise
        self._output.drain()
        self._output.pass_to(None)
        match answer:
            case words.Done(result):
                return result
            case words.Failed(kind, message, retry, after):
                self._worn = kind == "MemoryError"
                raise TaskFailed(kind, message, retry=retry, after=after)

    async def stop(self) -> None:
        """TERM, the grace, KILL; then nothing of it is left, here or there."""
        self._worn = True
        await self._contained.stop()
        self._output.close()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _asked(self, work: Work) -> words.Done | words.Failed:
        self._writer.write(words.line(words.Run(work.info, work.payload)))
        answer = await self._listen(work.reports)
        if answer is None:
            raise ProcessLost(await self._how_it_ended())
        return answer

    async def _hear(self) -> words.FromProcess | None:
        """None: the process has closed the line."""
        try:
            line = await self._reader.readline()
            return _understood(line) if line.endswith(b"\n") else None
        except OSError:
            return None
        except (ValueError, RecursionError):  # the task's code has found the line, and a use of its own for it
            raise ProcessLost("the process said something that cannot be understood, and was stopped") from None

    async def _listen(self, reports: Reports) -> words.Done | words.Failed | None:
        """Pass on what the run says until it has ended. None: the process has closed the line."""
        while True:
            match await self._hear():
                case None:
                    return None
                case words.Progress(stored):
                    reports.progress(stored)
                case words.Save(stored):
                    saving = asyncio.ensure_future(_kept(reports, stored))
                    cancelled = await outlast(saving)  # the run waits for the answer, also when it is told to stop
                    self._writer.write(words.line(saving.result()))
                    if cancelled:
                        raise cancelled
                case words.Done() | words.Failed() as answer:
                    return answer

    async def _stop_run(self, reports: Reports) -> None:
        """The run is told and has the grace to save a checkpoint and say a last word."""
        listening = asyncio.ensure_future(self._listen(reports))
        await self._contained.stop()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await self.stop()

    async def _how_it_ended(self) -> str:
        try:
            async with asyncio.timeout(LAST_WORDS):
                return f"the process {(await self._contained.ended()).words()}"
        except TimeoutError:
            return "the process closed its line to the worker, and was stopped"


async def start_process(settings: Settings, limits: Limits) -> WarmProcess:
    ours, theirs = socket.socketpair()
    # asyncio forgets a socket whose opening is cancelled half-way.
    opening = asyncio.ensure_future(asyncio.open_unix_connection(sock=ours, limit=words.LONGEST_LINE))
    cancelled = await outlast(opening)
    reader, writer = opening.result()
    output = Output(settings.log_cap)
    try:
        if cancelled:
            raise cancelled
        contained = await start(
            [sys.executable, *CHILD, str(theirs.fileno())],
            env=os.environ,
            limits=limits,
            grace=settings.stop_grace,
            stdout=output.writing,
            stderr=output.writing,
            fds=[theirs.fileno()],
        )
    except BaseException:
        output.close()
        writer.close()
        raise
    finally:
        theirs.close()
    output.handed_over()
    # Where the store is and how to get in is not for code that runs apart from us.
    writer.write(msgspec.json.encode(msgspec.structs.replace(settings, engine="")) + b"\n")
    return WarmProcess(contained, output, reader, writer, limits)


def _understood(line: bytes) -> words.FromProcess:
    said: words.FromProcess = _decode(line)
    match said:
        case words.Progress(stored) | words.Save(stored) | words.Done(bytes(stored)) if not readable(stored):
            raise ValueError("what is to be kept is not JSON")
    return said


async def _kept(reports: Reports, stored: bytes) -> words.Kept:
    try:
        await reports.save(stored)
    except Exception as problem:  # it is the run's to handle, over there
        return words.Kept(str(problem) or type(problem).__name__)
    return words.Kept()
