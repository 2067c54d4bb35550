"""Raise the limit of open files and sockets of this process."""

from __future__ import annotations

import resource
from contextlib import suppress


def allow_most() -> None:
    """Raise the limit to the hard limit: the usual soft limit is too low for a server.

    Programs that runs start have a limit of their own, `Settings.process_open_files`.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system may refuse its own hard limit; then the limit stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
