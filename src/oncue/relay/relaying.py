"""Create a job for each row, then delete the row."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from oncue.clock import Clock
from oncue.domain.errors import Invalid
from oncue.domain.instants import MINUTE, Duration, Instant, rfc3339
from oncue.domain.plain_text import printable
from oncue.domain.schedule import parse_schedule
from oncue.relay.sources import Refusal, Row, Source

if TYPE_CHECKING:  # importing the client takes 0.2 s
    from oncue.client import AsyncClient

AT_ONCE = 32  # requests
RETRY_INTERVAL = Duration(MINUTE)  # of a row that was refused: a task may be registered, a quota raised
LONGEST_WHY = 2_000  # characters
LAST = Instant(2**55)  # in the year 3111


class Passed(msgspec.Struct, frozen=True):
    """What one pass did. `full`: there may be more."""

    created: int = 0
    refused: tuple[tuple[Row, str], ...] = ()
    full: bool = False


class Relay:
    """Any number may read one outbox: a row that two of them send becomes one job."""

    def __init__(self, source: Source, client: AsyncClient, clock: Clock) -> None:
        self._source = source
        self._client = client
        self._clock = clock

    async def run_once(self) -> Passed:
        """Send the next rows. Raises, after settling the rows that were answered, what says nothing about a row: no
        answer, a server that is unavailable, or an invalid API key.
        """
        rows = await self._source.next(self._clock.now(), AT_ONCE)
        answers = await asyncio.gather(*map(self._sent, rows), return_exceptions=True)
        answered = list(zip(rows, answers, strict=True))
        refused = [(row, printable(why)[:LONGEST_WHY]) for row, why in answered if isinstance(why, str)]
        done = [row.id for row, why in answered if why is None]
        retry_at = Instant(self._clock.now() + RETRY_INTERVAL)
        if answered:
            await self._source.settle(done, [Refusal(why, retry_at, row.id) for row, why in refused])
        for failed in answers:
            if isinstance(failed, BaseException):
                raise failed
        return Passed(len(done), tuple(refused), full=len(rows) == AT_ONCE)

    async def _sent(self, row: Row) -> str | None:
        """Create the job of a row. Returns why it was refused, if it was."""
        from oncue.client import OncueApiError, TooManyRequests, Unauthorized, Unavailable

        try:
            fields = fields_of(row)
        except (msgspec.DecodeError, RecursionError) as wrong:
            return f"payload and options must be JSON objects: {wrong}"
        except (TypeError, ValueError) as wrong:
            return str(wrong)
        try:
            await self._client.jobs.create(**fields, idempotency_key=row.idempotency_key or row.id)
        except (TypeError, ValueError) as wrong:  # of the row: nothing was sent
            return f"it cannot be sent: {wrong}"
        except (Unauthorized, Unavailable, TooManyRequests):
            raise
        except OncueApiError as refused:
            if refused.status >= 500:
                raise
            return str(refused)
        return None


def fields_of(row: Row) -> dict[str, Any]:
    """Return the fields of a row's job: always the same ones. `in 10m` counts from when the row was written."""
    if not isinstance(row.at, int) or abs(row.at) > LAST:  # SQLite stores whatever it is given
        raise TypeError(f"at must be microseconds since 1970, not {row.at!r}")
    if not isinstance(row.task, str):
        raise TypeError(f"task must be the name of a task, not {row.task!r}")
    fields = msgspec.json.decode(row.options, type=dict[str, Any])
    if "idempotency_key" in fields:
        raise ValueError("idempotency_key is a column of its own")
    fields |= {"task": row.task, "payload": msgspec.json.decode(row.payload, type=dict[str, Any])}
    schedule = fields.get("schedule")
    if isinstance(schedule, str) and schedule.startswith("in "):
        try:
            at = parse_schedule(schedule, row.at).at
        except Invalid:  # the server says what is wrong
            return fields
        fields["schedule"] = schedule if at is None else rfc3339(at)
    return fields
