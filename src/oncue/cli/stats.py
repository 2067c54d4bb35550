"""`oncue stats`: what ran today, by task or queue."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.asking import LISTS, asking, tell_data
from oncue.cli.output import Form, Output
from oncue.cli.printing import say
from oncue.cli.roles import options
from oncue.cli.tables import Column, Table, lines_of, print_lines
from oncue.cli.watching import watch
from oncue.domain.instants import moment

if TYPE_CHECKING:
    from oncue.client import Client, SeriesAnswer

EXAMPLES = """\b
Examples:
  oncue stats
  oncue stats --by queue
  oncue stats --watch 30s
  oncue stats --json | jq '.series[] | {what, name, total}'

Since midnight, in your time zone or with --utc in UTC. The last column has the runs created in each hour. Without an
admin key there is one line: your own runs.
"""
COUNTS = (("created", "succeeded"), ("dead", "retried"))  # in one request each: an answer has so many points
HOUR = timedelta(hours=1)
BARS = "▁▂▃▄▅▆▇█"


class Line(msgspec.Struct, frozen=True):
    """Today's counts of one task or queue; `hours`: how many runs were created in each."""

    name: str
    counts: dict[str, int]
    hours: tuple[int, ...]


STATS: Table[Line] = Table(
    "stats",
    lambda line: line.name,
    (
        Column("name", 24, lambda line: line.name),
        *(Column(what, 9, lambda line, what=what: line.counts[what]) for both in COUNTS for what in both),  # type: ignore[misc]  # mypy does not see what a default is for
        Column("by hour", 24, lambda line: spark(line.hours), pipes=lambda line: ",".join(map(str, line.hours))),
    ),
)


@click.command("stats", epilog=EXAMPLES)
@click.option("--by", type=click.Choice(["task", "queue"]), default="task", show_default=True, help="What to split by.")
@options(LISTS)
def command(url: str | None, output: Output, by: str) -> None:
    """Count today's runs by task or queue."""
    with asking(url, as_json=output.as_json) as client:
        split = by if client.me().role == "admin" else None
        if output.form in (Form.JSON, Form.YAML):
            tell_data(_plain(client, split, output), output)
        elif output.every is not None:
            watch(lambda: _lines(client, split, output), output)
        elif output.form is Form.IDS:
            for line in _today(client, split, output):
                say(line.name)
        else:
            print_lines(_lines(client, split, output))


def _lines(client: Client, by: str | None, output: Output) -> list[str]:
    return lines_of(STATS, _today(client, by, output), output)


def _plain(client: Client, by: str | None, output: Output) -> Any:
    from oncue.client import overview

    window = _window(output)
    first, second = (client.ask(overview.series(",".join(both), by=by, **window).plain()) for both in COUNTS)
    return {**first, "series": first["series"] + second["series"]}


def _today(client: Client, by: str | None, output: Output) -> list[Line]:
    window = _window(output)
    answers = [client.series(",".join(both), by=by, **window) for both in COUNTS]
    totals: dict[str, dict[str, int]] = {}
    for one in (one for answer in answers for one in answer.series):
        totals.setdefault(one.name or "all runs", {})[one.what] = one.total
    hours = _hours(answers[0])
    blank = dict.fromkeys((what for both in COUNTS for what in both), 0)
    return [Line(name, blank | counts, hours.get(name, ())) for name, counts in totals.items()]


def _window(output: Output) -> dict[str, Any]:
    now = moment(output.now())
    there = now if output.utc else now.astimezone()
    return {"start_time": there.replace(hour=0, minute=0, second=0, microsecond=0), "end_time": now, "step": "1h"}


def _hours(answer: SeriesAnswer) -> dict[str, tuple[int, ...]]:
    start = answer.start_time.astimezone(UTC)
    n = max(1, -(-(answer.end_time - start) // HOUR))
    found: dict[str, tuple[int, ...]] = {}
    for one in answer.series:
        if one.what == "created":
            by_time = {(point.at - start) // HOUR: point.n for point in one.points}
            found[one.name or "all runs"] = tuple(by_time.get(hour, 0) for hour in range(n))
    return found


def spark(numbers: tuple[int, ...]) -> str:
    """Draw numbers as bars, each relative to the largest; nought is blank."""
    most = max(numbers, default=0)
    return "".join(BARS[(n * (len(BARS) - 1)) // most] if n else " " for n in numbers).rstrip()
