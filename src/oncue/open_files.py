"""How many files and sockets this process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress


def allow_most() -> None:
    """As many as we may: what a system gives to begin with is for programs that serve nobody.

    Programs that runs start have a limit of their own, `Settings.open_files_limit`.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system may name a limit that it does not grant; then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
