"""Wait for a run to end, and read its log as it grows."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Any

from oncue.client import runs
from oncue.client.asking import Asker, Exchange, Items, Pause, Stream, ask
from oncue.client.call import Call, Id, TimeLimit, seconds_of
from oncue.client.errors import RunFailed, WaitTimeout

FIRST_POLL_INTERVAL = 0.05  # seconds
LONGEST_POLL_INTERVAL = 2.0  # seconds
LOG_POLL_INTERVAL = 0.5  # seconds


def wait(
    asker: Asker,
    run: Id,
    /,
    timeout: TimeLimit | None = None,
    *,
    check: bool = True,
    seen: Callable[[Any], object] | None = None,
) -> Exchange[Any]:
    """Wait until a run has ended, and return it. Raises `RunFailed` unless it succeeded; with `check=False` any end is
    returned. Raises `WaitTimeout` after `timeout` ("5m", a timedelta, or seconds); the run continues.

    `seen` is called with the run at each poll, for instance to show progress.
    """
    limit, policy = None if timeout is None else seconds_of(timeout), asker.retry_policy
    end = None if limit is None else policy.now() + limit
    gap = FIRST_POLL_INTERVAL
    while True:
        found = yield from ask(runs.show(run), policy, end)
        snapshot = asker.bound(found)
        if seen is not None:
            seen(snapshot)
        if found.final:
            if check and found.status != "succeeded":
                raise RunFailed(snapshot)
            return snapshot
        left = gap if end is None else end - policy.now()
        if left <= 0:
            message = f"Run {run} is still {found.status} after {limit:g} s and continues. Wait again or cancel it."
            raise WaitTimeout(message)
        yield Pause(min(gap, left))
        gap = min(gap * 1.5, LONGEST_POLL_INTERVAL)


class LogFollowing:
    """The position in a log that grows. Read the run before the log: that of a final run is complete, or `delayed`."""

    def __init__(self, run: Id, tail: int | None) -> None:
        self._run = run
        self._tail = tail
        self._after = 0
        self.delayed = False
        """A part that is already written was not stored yet when the log was read last."""
        self._decode = getincrementaldecoder("utf-8")("replace").decode

    def more(self) -> Call[runs.LogRest]:
        return runs.logs_after(self._run, self._after)

    def read(self, added: runs.LogRest) -> str:
        """Return the text to show of what was added."""
        first, self._after = self._after == 0, self._after + len(added.text)
        self.delayed = added.delayed
        text = self._decode(added.text)
        if first and self._tail is not None:
            return "".join(text.splitlines(keepends=True)[-self._tail :]) if self._tail else ""
        return text


def follow_logs(
    asker: Asker, run: Id, /, *, tail: int | None = None, on_delay: Callable[[], object] | None = None
) -> Stream[str]:
    """Yield the log of a run as it grows, until the run has ended; with `tail`, from its last lines on.

    If a part of the log is not stored by then, because object storage is unavailable, it waits for that part. Then
    `on_delay` is called, once.
    """
    place, policy = LogFollowing(run, tail), asker.retry_policy
    while True:
        final = (yield from ask(runs.show(run), policy)).final
        text = place.read((yield from ask(place.more(), policy)))
        if text:
            yield Items([text])
        if final and not place.delayed:
            return
        if final and on_delay is not None:
            on_delay()
            on_delay = None
        yield Pause(LOG_POLL_INTERVAL)


def log_lines(asker: Asker, run: Id, /, *, follow: bool = False, tail: int | None = None) -> Stream[str]:
    """Yield the lines of a run's log so far; with `follow`, also those to come, until the run has ended. With `tail`,
    from its last lines on."""
    if follow:
        yield from _in_lines(follow_logs(asker, run, tail=tail))
    else:
        text = yield from ask(runs.logs(run, tail=tail), asker.retry_policy)
        yield Items(text.splitlines())


def _in_lines(texts: Stream[str]) -> Stream[str]:
    """Cut a stream of texts into lines, wherever the texts end."""
    rest, reply = "", None
    for_reader: list[str]
    while True:
        try:
            step = texts.send(reply)
        except StopIteration:
            break
        if isinstance(step, Items):
            *for_reader, rest = "".join([rest, *step.items]).split("\n")
            reply = yield Items(for_reader)
        else:
            reply = yield step
    if rest:
        yield Items([rest])
