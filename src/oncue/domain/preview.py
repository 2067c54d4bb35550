"""Preview when a schedule fires, before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice

import msgspec
from msgspec.structs import replace

from oncue.domain.cron import DstGap
from oncue.domain.cron.text import Skipped, note_on, skipped_between
from oncue.domain.instants import LAST_YEAR, MICROSECOND, Instant, instant, moment, rfc3339, show_duration
from oncue.domain.schedule import Kind, Schedule, cron_of, describe_schedule, occurrences
from oncue.domain.zones import zone

MOST_SHOWN = 1_000
USUALLY_SHOWN = 10
CUT_OFF = "truncated here because computing more took too long; request the occurrences after this one"
END_OF_TIME = Instant(instant(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)) - MICROSECOND)


class Occurrence(msgspec.Struct, frozen=True):
    """One nominal instant, in UTC and in the schedule's time zone; the note says what daylight saving changed."""

    at: str
    local: str
    note: str | None


class Preview(msgspec.Struct, frozen=True):
    """The next occurrences. `skipped` lists what `dst_gap: skip` drops, which has no occurrence to carry a note."""

    description: str
    occurrences: tuple[Occurrence, ...]
    skipped: tuple[str, ...] = ()


class Previewing:
    """A preview computed step by step: the first `count` occurrences later than `after`, or than now; at most
    `max_runs`."""

    def __init__(self, schedule: Schedule, count: int, after: Instant | None, now: Instant) -> None:
        self._schedule = schedule
        self._after = now if after is None else after
        self._now = now
        most = count if schedule.max_runs is None else min(count, schedule.max_runs)
        self._instants = islice(_instants(schedule, after, now), most)
        self._last: Instant | None = None

    def steps(self) -> Iterator[Occurrence]:
        for at in self._instants:
            self._last = at
            yield occurrence_at(self._schedule, at, self._now)

    def whole(self, found: Sequence[Occurrence]) -> Preview:
        """Build the preview from the steps, with the times skipped up to the last one."""
        skipped = _skipped(self._schedule, self._after, self._last)
        return Preview(_description(self._schedule), tuple(found), skipped)

    def cut_off(self, found: Sequence[Occurrence]) -> Preview:
        """Build a preview that was truncated because it took too long; its last occurrence says so."""
        *before, last = found
        return self.whole([*before, replace(last, note="; ".join(filter(None, (last.note, CUT_OFF))))])


def preview(schedule: Schedule, count: int, after: Instant | None, now: Instant) -> Preview:
    """Compute the whole preview at once."""
    asked = Previewing(schedule, count, after, now)
    return asked.whole(tuple(asked.steps()))


def _instants(schedule: Schedule, after: Instant | None, now: Instant) -> Iterator[Instant]:
    if schedule.recurring:
        yield from occurrences(schedule, now if after is None else after, END_OF_TIME)
        return
    at = now if schedule.at is None else schedule.at
    if after is None or at > after:
        yield at


def occurrence_at(schedule: Schedule, at: Instant, now: Instant) -> Occurrence:
    """Describe one occurrence of a schedule."""
    here = zone(schedule.timezone)
    local = moment(at).astimezone(here).isoformat(timespec="milliseconds")
    note = None
    if schedule.kind is Kind.CRON:
        note = note_on(cron_of(schedule), here, at, schedule.dst_gap)
    elif schedule.kind is Kind.AT and at < now:
        note = "in the past: runs now"
    return Occurrence(rfc3339(at), local, note)


def _description(schedule: Schedule) -> str:
    jitter = f", each up to {show_duration(schedule.jitter)} later" if schedule.recurring and schedule.jitter else ""
    return describe_schedule(schedule) + jitter


def _skipped(schedule: Schedule, after: Instant, last: Instant | None) -> tuple[str, ...]:
    return () if last is None else tuple(gone.note for gone in skipped_in(schedule, after, last))


def skipped_in(schedule: Schedule, after: Instant, until: Instant) -> tuple[Skipped, ...]:
    """Return what `dst_gap: skip` drops in the gaps that end in (after, until]."""
    if schedule.kind is not Kind.CRON or schedule.dst_gap is not DstGap.SKIP:
        return ()
    if schedule.start_at is not None:
        after = max(after, Instant(schedule.start_at - MICROSECOND))
    if schedule.end_at is not None:
        until = min(until, schedule.end_at)
    return skipped_between(cron_of(schedule), zone(schedule.timezone), after, until)
