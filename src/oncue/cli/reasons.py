"""Why a run waits, said while a command waits for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from oncue.cli.output import Output
from oncue.cli.printing import text
from oncue.cli.showing import explained
from oncue.domain.explain import rough_length
from oncue.domain.instants import SECOND

if TYPE_CHECKING:
    from oncue.client import Attempt, Client, Run
    from oncue.shapes.jobs import Explanation

ASK_INTERVAL = 2 * SECOND
SHORT = 2.0  # seconds for an answer: it only explains
ACTIVE = ("running", "cancelling")
FAILED = {"failed": "failed", "timed_out": "timed out", "lost": "was lost", "preempted": "was preempted"}
_NUMBERS = re.compile(r"\d[\w:.,+-]*")


class Reasons:
    """Says why a run waits, in the words of `oncue runs explain`, and which of its attempts did not succeed.

    The server is asked at most every two seconds, and only while the run waits.
    """

    def __init__(self, client: Client, run_id: UUID, output: Output, tell: Callable[[str], object]) -> None:
        self._client = client
        self._run_id = run_id
        self._output = output
        self._tell = tell
        self._asked_at = output.clock.monotonic()
        self._told = ""
        self._ended: int | None = None  # the number of the last attempt that is told or was there before

    def see(self, run: Run[Any]) -> None:
        """Take a look at the run, and say what is new."""
        failed = self._newly_failed(run)
        if run.final or run.status in ACTIVE:
            self._told = ""
            self._tell_attempts(failed, None)
            return
        if not failed and self._output.clock.monotonic() - self._asked_at < ASK_INTERVAL:
            return
        self._asked_at = self._output.clock.monotonic()
        found = self.explanation()
        self._tell_attempts(failed, found)
        if found is not None and not (run.status == "retrying" and found.reason == "not_due"):
            self._tell_reason(found)

    def explanation(self) -> Explanation | None:
        """Ask why the run waits. None: no answer came soon."""
        from oncue.client import ClientError, runs
        from oncue.client.asking import ask

        call = msgspec.structs.replace(runs.explain(self._run_id), timeout=SHORT)
        once = msgspec.structs.replace(self._client.retry_policy, retries=0)
        with suppress(ClientError):
            return self._client.send(ask(call, once))
        return None

    def _newly_failed(self, run: Run[Any]) -> list[Attempt]:
        """Return the attempts that failed since the last look, but for the last one of a run that has ended."""
        numbers = [one.number for one in run.attempts]
        if self._ended is None:
            self._ended = max(numbers, default=0) - (run.status == "retrying")
        ended, self._ended = self._ended, max([self._ended, *numbers])
        last = run.attempt_number if run.final else None
        return [one for one in run.attempts if one.number > ended and one.number != last and one.outcome in FAILED]

    def _tell_attempts(self, failed: Sequence[Attempt], found: Explanation | None) -> None:
        for place, one in enumerate(failed, 1):
            again = ""
            if place == len(failed) and found is not None and found.until is not None and one.end_time is not None:
                again = f", retry in {_length(found.until - one.end_time)}"
            error = ": ".join(filter(None, (text(one.error_type), text((one.error_message or "").partition("\n")[0]))))
            self._tell(f"attempt {one.number} {FAILED[str(one.outcome)]}{again}" + (f": {error}" if error else ""))

    def _tell_reason(self, found: Explanation) -> None:
        if self.is_new(found):
            self._told = _kept(found)
            self._tell(explained(found))

    def is_new(self, found: Explanation) -> bool:
        """Whether more than times, ids and numbers changed since a reason was said last."""
        return _kept(found) != self._told


def _kept(found: Explanation) -> str:
    return _NUMBERS.sub("", explained(found))


def _length(length: timedelta) -> str:
    seconds = round(length.total_seconds(), 1)
    return f"{seconds:g} s" if seconds < 120 else rough_length(round(seconds) * SECOND)
