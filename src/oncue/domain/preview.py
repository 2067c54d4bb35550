"""When a schedule fires, told before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import msgspec

from oncue.domain.cron import DstGap
from oncue.domain.cron_notes import note_on, skipped_between
from oncue.domain.instants import LAST_YEAR, MICROSECOND, Instant, instant, moment, rfc3339, show_duration
from oncue.domain.schedule import Kind, Schedule, cron_of, describe_schedule, occurrences
from oncue.domain.zones import zone

MOST_SHOWN = 1_000
USUALLY_SHOWN = 10
END_OF_TIME = Instant(instant(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)) - MICROSECOND)


class Occurrence(msgspec.Struct, frozen=True):
    """One nominal instant, in UTC and in the schedule's time zone; the note tells what daylight saving did to it."""

    at: str
    local: str
    note: str | None


class Preview(msgspec.Struct, frozen=True):
    """`skipped` tells what gaps take away from a schedule that skips them: it has no occurrence to be noted on."""

    description: str
    occurrences: tuple[Occurrence, ...]
    skipped: tuple[str, ...] = ()


def preview(schedule: Schedule, count: int, after: Instant | None, now: Instant) -> Preview:
    """The first `count` occurrences later than `after`, or than now; no more than `max_runs` of them."""
    most = count if schedule.max_runs is None else min(count, schedule.max_runs)
    found = tuple(islice(_instants(schedule, after, now), most))
    return Preview(
        _description(schedule),
        tuple(_occurrence(schedule, at, now) for at in found),
        _skipped(schedule, now if after is None else after, found),
    )


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


def _skipped(schedule: Schedule, after: Instant, found: tuple[Instant, ...]) -> tuple[str, ...]:
    if schedule.kind is not Kind.CRON or schedule.dst_gap is not DstGap.SKIP or not found:
        return ()
    if schedule.start_at is not None:
        after = max(after, Instant(schedule.start_at - MICROSECOND))
    return tuple(gone.note for gone in skipped_between(cron_of(schedule), zone(schedule.timezone), after, found[-1]))
