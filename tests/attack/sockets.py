"""What hostile clients need: many sockets, and a look at what they cost the server."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes.fleet import Member


@contextmanager
def more_descriptors() -> Iterator[None]:
    """As many as the system lets us have, for the attacker alone: the server was started before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def cut_off(wire: socket.socket) -> bool:
    """Whether the server has closed it. What it says is thrown away."""
    wire.setblocking(False)
    try:
        return wire.recv(65_536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        wire.settimeout(10)


def memory_of(server: Member) -> int:
    """Bytes that it has taken at most."""
    status = Path(f"/proc/{server.process.pid}/status").read_text("ascii")
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peak) * 1024
