"""`oncue preview`: show when a schedule fires, without a server and without storing it."""

from __future__ import annotations

from datetime import datetime

import click
import msgspec

from oncue.cli.output import json_option
from oncue.cli.printing import print_json, print_table
from oncue.cli.refusing import refusals
from oncue.clock import Clock
from oncue.domain.cron import DstFold, DstGap
from oncue.domain.errors import inside
from oncue.domain.instants import Instant
from oncue.domain.preview import MOST_SHOWN, USUALLY_SHOWN, Preview, preview
from oncue.domain.schedule import Asked, Schedule, parse_schedule, shorthand
from oncue.domain.time_input import parse_time
from oncue.domain.zones import zone

FIELDS = {
    **dict.fromkeys(("schedule", "schedule.at", "schedule.cron", "schedule.every"), "SCHEDULE"),
    **{f"schedule.{name}": f"--{name.replace('_', '-')}" for name in ("timezone", "start_at", "end_at", "jitter")},
    "after": "--after",
}
EXAMPLES = """\b
SCHEDULE is one of
  "0 9 * * 1-5"           cron: minute hour day-of-month month day-of-week
  "*/10 0 9 * * *"        the same with seconds in front
  "@daily"                or @hourly, @weekly, @monthly, @yearly
  "every 30s"             an interval of a second or more: 30s, 5m, 2h, 7d
  "2027-01-31T09:00:00Z"  one instant
  "2027-01-31 09:00"      one instant, in the time zone of --timezone
  "in 10m"                ten minutes from now
  "now"

\b
Examples:
  oncue preview "0 9 * * 1-5" --timezone Europe/Berlin
  oncue preview "30 2 * * *" --timezone America/New_York --after "in 30d"
  oncue preview "0 0 L * *" --end-at 2027-12-31T00:00:00Z
  oncue preview "every 90m" --start-at 2027-01-04T08:00:00Z --json

INSTANT is 2027-01-31T09:00:00Z, 2027-01-31T10:00:00+01:00, "2027-01-31 09:00" (in the time zone of --timezone),
"in 10m" or "10m ago".
"""


@click.command("preview", epilog=EXAMPLES)
@click.argument("schedule")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="IANA name, like Europe/Berlin.")
@click.option(
    "--count",
    type=click.IntRange(1, MOST_SHOWN),
    default=USUALLY_SHOWN,
    show_default=True,
    help="Number of occurrences to show.",
)
@click.option("--after", metavar="INSTANT", help="Show occurrences after this. [default: now]")
@click.option(
    "--dst-gap",
    type=click.Choice([policy.value for policy in DstGap]),
    default=DstGap.SHIFT.value,
    show_default=True,
    help="A fixed time skipped by daylight saving: run it right after the gap (shift), or skip it.",
)
@click.option(
    "--dst-fold",
    type=click.Choice([policy.value for policy in DstFold]),
    default=DstFold.FIRST.value,
    show_default=True,
    help="A fixed time repeated by daylight saving: run it the first time, or both times.",
)
@click.option("--jitter", metavar="LENGTH", help="Delay each start by a random time up to this, like 30s.")
@click.option("--start-at", metavar="INSTANT", help="No occurrence before this; intervals count from here.")
@click.option("--end-at", metavar="INSTANT", help="No occurrence after this.")
@json_option("Print JSON.")
@click.pass_obj
def command(
    clock: Clock,
    /,
    schedule: str,
    timezone: str,
    count: int,
    after: str | None,
    dst_gap: str,
    dst_fold: str,
    jitter: str | None,
    start_at: str | None,
    end_at: str | None,
    as_json: bool,
) -> None:
    """Show when a schedule fires.

    In UTC and in its time zone. Works without a server and stores nothing. A note marks each time that daylight saving
    moves or repeats.
    """
    now = clock.now()
    options = Asked(
        timezone=timezone,
        dst_gap=DstGap(dst_gap),
        dst_fold=DstFold(dst_fold),
        jitter=jitter,
        start_at=start_at,
        end_at=end_at,
    )
    with refusals(FIELDS, as_json=as_json):
        with inside("schedule"):
            parsed = _parse(schedule, options, now)
        from_here = None if after is None else parse_time(after, now, "after", zone=zone(timezone))
    shown = preview(parsed, count, from_here, now)
    if as_json:
        print_json(shown)
    else:
        _print(shown, parsed.timezone)


def _parse(text: str, options: Asked, now: Instant) -> Schedule:
    """Combine the schedule's text with the other options."""
    asked = Asked() if text == "now" else shorthand(text)
    kind = {name: getattr(asked, name) for name in ("at", "cron", "every")}
    return parse_schedule(msgspec.structs.replace(options, **kind), now)


def _print(shown: Preview, timezone: str) -> None:
    columns = ["at (UTC)", f"local ({timezone})", "note"]
    rows = [[one.at, _readable(one.local), one.note or ""] for one in shown.occurrences]
    if not any(one.note for one in shown.occurrences):
        columns, rows = columns[:2], [row[:2] for row in rows]
    print_table(shown.description, columns, rows, shown.skipped if rows else ("no more occurrences",))


def _readable(local: str) -> str:
    """Format `2027-01-04T09:00:00.000+01:00` as `Mon 2027-01-04 09:00:00 +01:00`; the UTC column has milliseconds."""
    there = datetime.fromisoformat(local)
    return f"{there:%a %Y-%m-%d %H:%M:%S} {local[23:]}"
