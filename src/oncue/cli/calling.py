"""The client of commands: on a terminal it says where changes go, unless that is the server of this folder."""

from __future__ import annotations

import sys
from typing import Any

import click

from oncue.cli.destination import Destination
from oncue.cli.printing import say
from oncue.cli.refusing import BEFORE_ASKING
from oncue.client import Client
from oncue.client.asking import Lost
from oncue.client.call import Answer, Call
from oncue.overriding import keep_inside


class CommandClient(Client):
    def __init__(self, to: Destination, key: str | None, **how: Any) -> None:
        keep_inside(to.asked)
        super().__init__(to.url, key, context=to.context, **how)
        self._given_url = to.asked
        self._to, self._told = to, not to.elsewhere
        ctx = click.get_current_context(silent=True)
        if ctx is not None:
            ctx.meta[BEFORE_ASKING] = self._tell

    def _send(self, call: Call[Any]) -> Answer | Lost:
        if call.changes:
            self._tell()
        return super()._send(call)

    def _tell(self) -> None:
        if not self._told and sys.stderr.isatty():
            say(f"Server: {self._to.words(self.url)}", err=True)
        self._told = True
