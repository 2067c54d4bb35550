"""Pass what a process writes to its standard streams to a run's log."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable

from oncue.domain.masking import MaskedStream, Masking

# A pipe holds 64 KiB. Once a log is long its pipe is emptied every two milliseconds: 32 MB/s slow down hardly any
# process, and one that writes for ever does not take the loop from other runs.
PIPE = 64 * 1024  # bytes
PAUSE = 0.002  # seconds
TAIL = 4 * 1024  # bytes
FAST = 256 * 1024  # bytes of a log that are read as fast as they come

_Decoder = codecs.getincrementaldecoder("utf-8")


class Output:
    """The reading end of a pipe. Never waits, never keeps more than a tail; gives the writing end to a process."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._ended = False
        self.pass_to(None)
        self._listen()

    def pass_to(self, write: Callable[[str], None] | None, masking: Masking | None = None) -> None:
        """Write to this log from now on; beyond the cap more slowly, so that the log can keep the end.

        Log and tail are masked, wherever a value is cut into pieces.
        """
        self._write = write
        self._masked = MaskedStream(masking) if masking else None
        self._left = min(self._cap, FAST) if write else 0
        self._decoder = _Decoder("replace")
        self.tail = b""

    def handed_over(self) -> None:
        """Close our writing end. The process has its copy, so the pipe ends when the process does."""
        os.close(self.writing)
        self.writing = -1

    def drain(self) -> None:
        """Read what was written up to now. More than a pipe holds was written later."""
        taken = 0
        while taken < 2 * PIPE and (piece := self._take()):
            taken += len(piece)

    def close(self) -> None:
        if self._reading < 0:
            return
        self.drain()
        self._stop_listening()
        if self._masked and not self._ended:
            self._pass_on(b"", final=True)
        if self.writing >= 0:
            self.handed_over()
        os.close(self._reading)
        self._reading = -1
        self._ended = True

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._reading, self._readable)

    def _stop_listening(self) -> None:
        self._loop.remove_reader(self._reading)
        if self._pause:
            self._pause.cancel()

    def _readable(self) -> None:
        self._take()
        if self._ended or self._left <= 0:
            self._stop_listening()
        if not self._ended and self._left <= 0:
            self._pause = self._loop.call_later(PAUSE, self._listen)

    def _take(self) -> bytes:
        try:
            piece = os.read(self._reading, PIPE)
        except BlockingIOError:
            return b""
        self._ended = not piece
        self._pass_on(piece, final=self._ended)
        return piece

    def _pass_on(self, piece: bytes, *, final: bool) -> None:
        text = ""
        if self._masked:
            text = self._masked.feed(self._decoder.decode(piece, final), final=final)
            self.tail = (self.tail + text.encode())[-TAIL:]
        else:
            self.tail = (self.tail + piece)[-TAIL:]
        if self._write:
            self._left -= len(piece)
            self._write(text if self._masked else self._decoder.decode(piece, final))
