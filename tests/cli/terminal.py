"""A command on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

ONCUE = Path(sys.executable).parent / "oncue"
COLOUR = re.compile(r"\x1b\[[0-9;]*m|\x1b\[K")
FRAME = re.compile(r"\x1b\[H(.*?)\x1b\[J", re.DOTALL)  # of what draws itself again and again


def on_a_terminal(*arguments: str, typed: str = "", ends: int = 0, columns: int = 150, **environment: str) -> str:
    """What it shows there, with this typed, until it ends like this."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen([ONCUE, *arguments], stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    try:
        while part := os.read(ours, 10_000):
            shown += part
    except OSError:  # how the end of a terminal looks
        pass
    os.close(ours)
    assert process.wait() == ends, shown
    return shown.decode()


class Terminal:
    """A command on a terminal of 80 columns and 24 lines, for whoever watches it and types."""

    def __init__(self, *arguments: str, cwd: Path | None = None, **environment: str) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, b"\x18\0\x50\0\0\0\0\0")
        self.modes = self._modes()
        self._shown = b""
        self.process = subprocess.Popen(
            [ONCUE, *arguments],
            **dict.fromkeys(("stdin", "stdout", "stderr"), self._theirs),  # type: ignore[arg-type]  # all of one kind
            env={**os.environ, "TERM": "xterm-256color", **environment},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C is for it
        )

    @property
    def shown(self) -> str:
        """All that it has written so far, without colours."""
        while select.select([self._ours], [], [], 0)[0]:
            self._shown += os.read(self._ours, 100_000)
        return COLOUR.sub("", self._shown.decode(errors="replace")).replace("\r\n", "\n")

    @property
    def frame(self) -> str:
        """What was drawn last, if it draws in place."""
        return (FRAME.findall(self.shown) or [""])[-1]

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal is in the modes in which the command found it."""
        return self._modes() == self.modes

    def until(self, seen: Callable[[], bool], within: float = 60) -> None:
        end = time.monotonic() + within
        while not seen():
            assert time.monotonic() < end, self.shown[-3_000:]
            assert self.process.poll() is None or seen(), self.shown[-3_000:]
            time.sleep(0.02)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def ended(self, within: float = 60) -> int:
        end = time.monotonic() + within
        while self.process.poll() is None and time.monotonic() < end:
            assert self.shown is not None  # reading it lets the command write on
            time.sleep(0.02)
        return self.process.wait(0)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def _modes(self) -> list[object]:
        return termios.tcgetattr(self._theirs)
