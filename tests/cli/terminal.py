"""A command on a terminal of its own."""

import os
import pty
import subprocess
import sys
from pathlib import Path

ONCUE = Path(sys.executable).parent / "oncue"


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
