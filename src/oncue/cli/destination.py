"""Which server a command calls, and saying so where it may surprise.

In this order: --url or --context; ONCUE_URL; ONCUE_CONTEXT; the server that runs in this folder; the current context;
the address at which this folder's server ran last, or the usual one.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
import msgspec
from click.core import ParameterSource

from oncue.cli.printing import say
from oncue.local_server import LocalServer, data_dir, local_server

if TYPE_CHECKING:
    from oncue.client.contexts import Contexts

CONTEXT_NAME = "oncue.context"  # where a click context keeps the name of --context
ANSWERS_WITHIN = 1.0  # seconds


class Destination(msgspec.Struct, frozen=True):
    asked: str | None
    """The address of --url or ONCUE_URL."""
    url: str | None = None
    """None: a client finds it by `context` or ONCUE_CONTEXT, or it is that of this folder, which does not run."""
    context: str | None = None
    """Of --context."""
    name: str | None = None
    """Of the context, whoever has chosen it."""
    here: LocalServer | None = None
    """The server that runs in this folder, if it is called."""

    @property
    def unnamed(self) -> bool:
        """Whether the server of this folder is meant, and does not run."""
        return not (self.asked or self.name or self.here)

    @property
    def elsewhere(self) -> bool:
        """Whether another server than that of this folder is meant."""
        return not self.unnamed and self.here is None

    def words(self, url: str) -> str:
        return f"{url} (context {self.name})" if self.name else url


def destination(url: str | None, *, quiet: bool = False) -> Destination:
    """Find the server that a command calls; `url` is its option. `quiet`: say nothing about what was found."""
    ctx = click.get_current_context(silent=True)
    context = None if ctx is None else ctx.meta.get(CONTEXT_NAME)
    if ctx is not None and context is not None:
        if ctx.get_parameter_source("url") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--url and --context name a server each; give one of them.")
        return Destination(None, context=context, name=context)
    if url:
        return Destination(url, url=url, here=_this_one(url))
    if context := os.environ.get("ONCUE_CONTEXT"):
        return Destination(None, name=context)
    try:
        return _unnamed(quiet=quiet)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def _unnamed(*, quiet: bool) -> Destination:
    from oncue.client.contexts import read_contexts

    known, here = read_contexts(), local_server(data_dir())
    current = known.current
    if here is not None and here.live:
        if not quiet and current is not None and known.named(current).url != here.url:
            _note(known, current, here.url)
        return Destination(None, url=here.url, here=here)
    if current is not None:
        return Destination(None, url=known.named(current).url, name=current)
    return Destination(None)


def _this_one(url: str) -> LocalServer | None:
    """Return the server of this folder, if it runs at this address."""
    from oncue.client.address import is_of

    with suppress(ValueError):  # what was named needs no settings file
        return local_server(folder) if is_of(folder := data_dir(), url) else None
    return None


def answers(url: str) -> bool:
    """Whether anything listens at this address."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), ANSWERS_WITHIN).close()
    except (OSError, ValueError):
        return False
    return True


def _note(known: Contexts, current: str, url: str) -> None:
    """Say once to each user that a folder's own server goes before the current context."""
    from oncue.client.contexts import write_contexts

    if known.noted or not sys.stderr.isatty():
        return
    say(
        f"In this folder commands use its own server, {url}, and not the current context {current}. Name that with "
        f"--context {current} or ONCUE_CONTEXT. (This is said once.)",
        err=True,
    )
    with suppress(ValueError):  # then it is said again
        write_contexts(msgspec.structs.replace(known, noted=True))
