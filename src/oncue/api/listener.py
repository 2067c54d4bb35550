"""The address the API listens at, taken before anything else is started: if it is not free, nothing need be undone."""

from __future__ import annotations

import errno
import socket

from oncue.domain.errors import Invalid
from oncue.settings import Settings


def take_address(settings: Settings) -> socket.socket:
    """Bound, and not listening yet: whoever connects is refused until a server listens on it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # of no protocol, asyncio would let it wait
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((settings.host, settings.port))
        door.set_inheritable(False)
    except OSError as refused:
        door.close()
        if refused.errno == errno.EADDRINUSE:
            problem = f"{settings.port} is taken on {settings.host}: stop what uses it, or choose another --port"
            raise Invalid.of("port", "in_use", problem) from None
        raise Invalid.of("host", "cannot_listen", f"cannot listen on {settings.host}: {refused.strerror}") from None
    return door
