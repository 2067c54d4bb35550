"""The outcomes that a worker wrote lately: what a replica has not received by its promotion can be written again."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import TypeAlias

from oncue.clock import Clock
from oncue.domain.ids import RunId
from oncue.domain.instants import MINUTE, Duration, Instant
from oncue.domain.run import Claimed, Settlement
from oncue.services.attempts import End

KEPT_FOR = Duration(MINUTE)
MOST = 20_000  # outcomes
MOST_BYTES = 32 * 1024 * 1024  # of payloads and results

Key: TypeAlias = tuple[RunId, int]  # a run and its token


class RecentEnds:
    """Keeps batches, not runs: the hot path appends, and only who misses a run searches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._batches: deque[tuple[Instant, Sequence[End], int]] = deque()
        self._count = self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def add(self, ends: Sequence[End]) -> None:
        """Keep what was written, at least the newest batch."""
        size = sum(map(_size, ends))
        self._batches.append((self._clock.monotonic(), ends, size))
        self._count += len(ends)
        self._bytes += size
        while len(self._batches) > 1 and (self._count > MOST or self._bytes > MOST_BYTES):
            self._drop()
        self.forget()

    def forget(self) -> None:
        """Drop what is older than a minute."""
        before = self._clock.monotonic() - KEPT_FOR
        while self._batches and self._batches[0][0] < before:
            self._drop()

    def of(self, keys: Collection[Key]) -> dict[Key, End]:
        """Return the newest outcome of each of these attempts, as far as it is kept."""
        self.forget()
        found: dict[Key, End] = {}
        for _, ends, _ in self._batches:
            for end in ends:
                run = run_of(end)
                if (key := (run.run_id, run.token)) in keys:
                    found[key] = end
        return found

    def _drop(self) -> None:
        _, ends, size = self._batches.popleft()
        self._count -= len(ends)
        self._bytes -= size


def run_of(end: End) -> Claimed:
    return end.run if isinstance(end, Settlement) else end


def _size(end: End) -> int:
    if isinstance(end, Settlement):
        return len(end.run.payload or b"") + len(end.result or b"")
    return len(end.payload or b"")
