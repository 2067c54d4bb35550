"""`oncue preview`: when a schedule fires, before anything is stored. Needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import click
import msgspec

from oncue.cli.printing import print_json, print_table
from oncue.cli.refusing import refusals
from oncue.clock import Clock
from oncue.domain.cron import DstFold, DstGap
from oncue.domain.cron_notes import note_on, skipped_between
from oncue.domain.errors import inside
from oncue.domain.instants import (
    LAST_YEAR,
    MICROSECOND,
    Instant,
    instant,
    moment,
    parse_instant,
    rfc3339,
    show_duration,
)
from oncue.domain.schedule import Asked, Kind, Schedule, cron_of, describe_schedule, occurrences, parse_schedule
from oncue.domain.zones import zone

END_OF_TIME = Instant(instant(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)) - MICROSECOND)

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
  "now"

\b
Examples:
  oncue preview "0 9 * * 1-5" --timezone Europe/Berlin
  oncue preview "30 2 * * *" --timezone America/New_York --after 2027-03-13T00:00:00Z --count 3
  oncue preview "0 0 L * *" --end-at 2027-12-31T00:00:00Z
  oncue preview "every 90m" --start-at 2027-01-04T08:00:00Z --json

INSTANT is RFC 3339 with an offset: 2027-01-31T09:00:00Z or 2027-01-31T10:00:00+01:00.
"""


class Occurrence(msgspec.Struct, frozen=True):
    """One nominal instant, as `POST /schedules/preview` shows it."""

    at: str
    local: str
    note: str | None


class Preview(msgspec.Struct, frozen=True):
    description: str
    occurrences: tuple[Occurrence, ...]


@click.command("preview", epilog=EXAMPLES)
@click.argument("schedule")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="IANA name, like Europe/Berlin.")
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many to show.")
@click.option("--after", metavar="INSTANT", help="Show what comes later than this. [default: now]")
@click.option(
    "--dst-gap",
    type=click.Choice([policy.value for policy in DstGap]),
    default=DstGap.SHIFT.value,
    show_default=True,
    help="A fixed time that the clock jumps over: right after the gap, or not at all.",
)
@click.option(
    "--dst-fold",
    type=click.Choice([policy.value for policy in DstFold]),
    default=DstFold.FIRST.value,
    show_default=True,
    help="A fixed time that comes twice: the first time, or both.",
)
@click.option("--jitter", metavar="LENGTH", help="Start each up to this much later, like 30s.")
@click.option("--start-at", metavar="INSTANT", help="Nothing before this; an interval counts from here.")
@click.option("--end-at", metavar="INSTANT", help="Nothing after this.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    """Show when SCHEDULE fires next, in UTC and in its time zone.

    Nothing is stored and no server is needed. Where daylight saving moves or doubles a time, a note says so.
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
        from_here = None if after is None else parse_instant(after, "after")
        with inside("schedule"):
            parsed = _parse(schedule, options, now)
    found = tuple(islice(_instants(parsed, from_here, now), count))
    preview = Preview(_description(parsed), tuple(_occurrence(parsed, at, now) for at in found))
    if as_json:
        print_json(preview)
    else:
        below = _skipped(parsed, now if from_here is None else from_here, found)
        _print(preview, parsed.timezone, below if found else ["no occurrence is left"])


def _parse(text: str, options: Asked, now: Instant) -> Schedule:
    """The text says when, the options the rest."""
    match parse_schedule(text, now).kind:
        case Kind.NOW:
            asked = options
        case Kind.AT:
            asked = msgspec.structs.replace(options, at=text)
        case Kind.CRON:
            asked = msgspec.structs.replace(options, cron=text)
        case Kind.EVERY:
            asked = msgspec.structs.replace(options, every=text.removeprefix("every ").strip())
    return parse_schedule(asked, now)


def _instants(schedule: Schedule, after: Instant | None, now: Instant) -> Iterator[Instant]:
    if schedule.recurring:
        yield from occurrences(schedule, now if after is None else after, END_OF_TIME)
        return
    at = now if schedule.at is None else schedule.at
    if after is None or at > after:
        yield at


def _occurrence(schedule: Schedule, at: Instant, now: Instant) -> Occurrence:
    here = zone(schedule.timezone)
    local = moment(at).astimezone(here).isoformat(timespec="milliseconds")
    note = None
    if schedule.kind is Kind.CRON:
        note = note_on(cron_of(schedule), here, at, schedule.dst_gap)
    elif schedule.kind is Kind.AT and at < now:
        note = "in the past: runs at once"
    return Occurrence(rfc3339(at), local, note)


def _description(schedule: Schedule) -> str:
    jitter = f", each up to {show_duration(schedule.jitter)} later" if schedule.recurring and schedule.jitter else ""
    return describe_schedule(schedule) + jitter


def _skipped(schedule: Schedule, after: Instant, found: tuple[Instant, ...]) -> list[str]:
    """What gaps take away among the occurrences shown: it has no row of its own."""
    if schedule.kind is not Kind.CRON or schedule.dst_gap is not DstGap.SKIP or not found:
        return []
    if schedule.start_at is not None:
        after = max(after, Instant(schedule.start_at - MICROSECOND))
    return [gone.note for gone in skipped_between(cron_of(schedule), zone(schedule.timezone), after, found[-1])]


def _print(preview: Preview, timezone: str, below: list[str]) -> None:
    columns = ["at (UTC)", f"local ({timezone})", "note"]
    rows = [[one.at, _readable(one.local), one.note or ""] for one in preview.occurrences]
    if not any(one.note for one in preview.occurrences):
        columns, rows = columns[:2], [row[:2] for row in rows]
    print_table(preview.description, columns, rows, below)


def _readable(local: str) -> str:
    """`2027-01-04T09:00:00.000+01:00` as `Mon 2027-01-04 09:00:00 +01:00`; the instant beside it has milliseconds."""
    there = datetime.fromisoformat(local)
    return f"{there:%a %Y-%m-%d %H:%M:%S} {local[23:]}"
