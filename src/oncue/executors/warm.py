"""One process that waits for process-isolated runs with the tasks imported, seen from the worker."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys

import msgspec

from oncue.executors import words
from oncue.executors.contained import Contained, Ending, outlast, start
from oncue.executors.conversation import Conversation, converse
from oncue.executors.environment import for_tasks
from oncue.executors.limits import Limits
from oncue.executors.port import ProcessLost, TaskFailed, Work
from oncue.secret import secrets_of_run
from oncue.settings import Settings

TEMPLATE = ("-P", "-m", "oncue.executors.template")
LAST_WORDS = 1.0  # seconds for a process that closed its line to end by itself
LONGEST_WORD = 200  # bytes of its own reports, on a socket that only we read


class WarmProcess:
    """Gives each run a process of its own, one at a time. A run without a Done or Failed ends the warm process."""

    def __init__(self, contained: Contained, orders: socket.socket, limits: Limits, max_log_bytes: int) -> None:
        self.limits = limits
        self._contained = contained
        self._orders = orders
        self._max_log_bytes = max_log_bytes
        self._worn = False
        self.left = ""  # by importing the tasks: then it serves one run only

    @property
    def usable(self) -> bool:
        return not self._worn and self._contained.running and not self._is_hung_up()

    def _is_hung_up(self) -> bool:
        """Whether it is gone unnoticed: an idle process sends nothing, so anything to read is the end of the socket."""
        waiting = select.poll()
        waiting.register(self._orders.fileno(), select.POLLIN)
        return bool(waiting.poll(0))

    async def run(self, work: Work) -> bytes | None:
        """Execute a run. Nothing of it is left when this ends, nor is this process, unless by result or TaskFailed."""
        conversation = await converse(work.reports, self._max_log_bytes)
        try:
            answer = await self._asked(conversation, work)
        except asyncio.CancelledError:
            await outlast(asyncio.ensure_future(self._stop_run(conversation)))
            raise
        except BaseException:
            await outlast(asyncio.ensure_future(self.stop()))
            raise
        finally:
            conversation.close()
        match answer:
            case words.Done(result):
                return result
            case words.Failed(kind, message, retry, after, path, trace):
                raise TaskFailed(kind, message, retry=retry, after=after, path=path, traceback=trace)

    async def stop(self) -> None:
        """Send TERM, wait for the grace, send KILL; then nothing of it is left, here or there."""
        self._worn = True
        await self._contained.stop()
        self._orders.close()

    async def ready(self, settings: Settings) -> None:
        """Wait until it has imported the tasks, or has found that it cannot. ProcessLost: it died of that."""
        # The address of the store and its credentials are not for code that runs in another process.
        told = msgspec.json.encode(msgspec.structs.replace(settings, engine="")) + b"\n"
        try:
            await asyncio.get_running_loop().sock_sendall(self._orders, told)
            said = await self._receive()
        except OSError:
            said = ""
        if not said:
            raise ProcessLost(await self._how_it_ended())
        self.left = said.removeprefix("ready").strip()

    async def _asked(self, conversation: Conversation, work: Work) -> words.Done | words.Failed:
        conversation.hand_over(self._orders)
        conversation.say(words.Run(work.info, work.payload, dict(secrets_of_run.get().values)))
        answer = await conversation.listen()
        if answer is None:
            raise ProcessLost(await self._how_it_ended())
        await self._over()  # only then no process that the run has started can do anything any more
        return answer

    async def _over(self) -> Ending:
        """Return how the run's process has ended, when nothing of it is left."""
        if said := await self._receive():
            try:
                return Ending.parse(said)
            except ValueError:
                raise ProcessLost("the process sent an invalid message to the worker, and was stopped") from None
        self._worn = True
        return await self._contained.ended()

    async def _receive(self) -> str:
        """Empty: it is gone."""
        try:
            return (await asyncio.get_running_loop().sock_recv(self._orders, LONGEST_WORD)).decode()
        except OSError:
            return ""

    async def _stop_run(self, conversation: Conversation) -> None:
        """Stop the run, which has the grace to save a checkpoint and write last log lines."""
        listening = asyncio.ensure_future(conversation.listen())
        await self._contained.stop()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await self.stop()

    async def _how_it_ended(self) -> str:
        try:
            async with asyncio.timeout(LAST_WORDS):
                return f"the process {(await self._over()).describe()}"
        except TimeoutError:
            return "the process closed its connection to the worker, and was stopped"


async def start_process(settings: Settings, limits: Limits, folder: str) -> WarmProcess:
    """Start a process. It is ready for a run when this returns."""
    orders, theirs = socket.socketpair()
    orders.setblocking(False)
    try:
        contained = await start(
            [sys.executable, *TEMPLATE, str(theirs.fileno())],
            env=for_tasks(os.environ, settings),
            cwd=folder,
            limits=limits,
            grace=settings.kill_grace,
            stdout=asyncio.subprocess.DEVNULL,  # our own import has printed what tasks print when imported
            stderr=asyncio.subprocess.DEVNULL,
            fds=[theirs.fileno()],
        )
    except BaseException:
        orders.close()
        raise
    finally:
        theirs.close()
    process = WarmProcess(contained, orders, limits, settings.max_log_bytes)
    try:
        await process.ready(settings)
    except BaseException:
        await outlast(asyncio.ensure_future(process.stop()))
        raise
    return process
