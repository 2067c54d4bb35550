"""Options that are a time: RFC 3339, `2027-01-31 09:00` in the local time zone, `in 10m`, `10m ago`, `now`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from oncue.cli.printing import say
from oncue.cli.times import exact
from oncue.clock import Clock, SystemClock
from oncue.domain.errors import Invalid
from oncue.domain.instants import moment, rfc3339
from oncue.domain.time_input import parse_time

UNIVERSAL = "2027-01-31T09:00:00Z"
LOCALTIME = Path("/etc/localtime")
_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?\Z")
HELP = 'TIME is 2027-01-31T09:00:00Z, "2027-01-31 09:00" in your time zone, "in 10m" or "10m ago".'


class Time(click.ParamType[str]):
    """Converts to RFC 3339. A time without an offset is local, and printed with its zone."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        clock: Clock = (ctx.obj if ctx is not None else None) or SystemClock()
        try:
            at = parse_time(value, clock.now(), zone=local_zone() if is_local(value) else None)
        except Invalid as wrong:
            self.fail(wrong.problems[0].message, param, ctx)
        if is_local(value):
            option = param.opts[0] if param is not None else "time"
            say(f"{option} is {exact(moment(at))}", err=True)
        return rfc3339(at)


def is_local(text: str) -> bool:
    """Whether this is a time without an offset."""
    return _LOCAL.match(text.strip()) is not None


def local_zone() -> ZoneInfo:
    """Return the time zone of TZ, else of this machine, else UTC. UsageError: TZ has none that we know."""
    given = os.environ.get("TZ", "").lstrip(":")
    named = given if given and not given.startswith("/") else _name_of(Path(given or LOCALTIME))
    try:
        return ZoneInfo(named)
    except (ValueError, OSError, KeyError):  # KeyError: no such zone
        if not given:
            return ZoneInfo("UTC")
    raise click.UsageError(f"TZ={given} is not an IANA time zone; correct it, or write times like {UNIVERSAL}")


def _name_of(file: Path) -> str:
    return str(file.resolve()).partition("zoneinfo/")[2].removeprefix("posix/")


TIME = Time()
