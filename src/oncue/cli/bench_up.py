"""`oncue up` with narrow pieces of history, for the soak of `oncue bench`: no option of `oncue up` sets their width.

`python -m oncue.cli.bench_up --history-width 2s up …`: not for people.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from oncue.cli.roles import DOOR, GUARD, SAYING, STORE, WORK, door_opened, options, run
from oncue.domain.instants import Duration, parse_duration


@click.group()
@click.option("--history-width", required=True)
@click.pass_context
def narrow(ctx: click.Context, history_width: str) -> None:
    ctx.obj = parse_duration(history_width)


@narrow.command()
@options(STORE, DOOR, WORK, GUARD, SAYING)
@click.pass_obj
def up(history_width: Duration, /, as_json: bool, **given: Any) -> None:
    from oncue import app

    given["history_width"] = history_width
    run("up", lambda settings: app.up(settings, partial(door_opened, settings, as_json)), given, as_json=as_json)


if __name__ == "__main__":
    narrow()
