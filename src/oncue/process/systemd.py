"""Report to systemd when a role is ready, alive and stopping (`Type=notify`). Does nothing under other managers."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from oncue.clock import Clock
from oncue.domain.instants import Duration

BEATS = 3  # in the time after which systemd restarts a process without a heartbeat


def ready(clock: Clock) -> None:
    """Report that this role is ready. From now on its loop sends heartbeats, as long as it is not blocked."""
    _tell("READY=1")
    if (limit := os.environ.get("WATCHDOG_USEC", "")).isdecimal():
        _beat(clock, Duration(int(limit) // BEATS))


def stopping() -> None:
    _tell("STOPPING=1")


def _beat(clock: Clock, period: Duration) -> None:
    _tell("WATCHDOG=1")
    clock.call_later(period, lambda: _beat(clock, period))


def _tell(state: str) -> None:
    """Never blocks and never fails: without an answerer at the socket a role works as without systemd."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        line.connect("\0" + address[1:] if address[0] == "@" else address)
        line.send(state.encode())
