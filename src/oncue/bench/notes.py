"""What the measuring task wrote down, read from outside: due and start of each run, and what follows from them."""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, log10
from pathlib import Path

import msgspec

from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant

# The folder in which each worker process keeps a file of notes. Tasks do not get what begins with ONCUE_.
ENVIRONMENT = "BENCH_NOTES"
RECORD = struct.Struct("=qq")  # due and start, in microseconds since 1970; a start of 0 is a place not written yet
WINDOW = RECORD.size * 65_536  # files grow by so many bytes

BINS = 8  # of a histogram, in each power of ten
SHORTEST, LONGEST = 0.1, 100_000.0  # milliseconds: what a histogram tells apart


class Histogram(msgspec.Struct, frozen=True):
    """How many lags lie between each two edges, in milliseconds. The outermost also hold what lies beyond."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def lag(self, part: float) -> float:
        """No more than this, for this part of them: the upper edge that they lie below."""
        target, so_far = ceil(sum(self.counts) * part), 0
        for edge, count in zip(self.edges[1:], self.counts, strict=True):
            so_far += count
            if so_far >= max(1, target):
                return edge
        return 0.0

    def coarse(self, times: int) -> Histogram:
        """With so many bins in one."""
        starts = range(0, len(self.counts), times)
        return Histogram(self.edges[::times], tuple(sum(self.counts[n : n + times]) for n in starts))

    @classmethod
    def together(cls, all_: Sequence[Histogram]) -> Histogram:
        """Of several that have the same edges."""
        return cls(all_[0].edges, tuple(map(sum, zip(*(one.counts for one in all_), strict=True))))


class Series(msgspec.Struct, frozen=True):
    """How many runs started in each stretch of so many milliseconds, from the first to the last."""

    step_ms: int
    counts: tuple[int, ...]


class Noted:
    """Runs that started."""

    def __init__(self, due: Sequence[int], start: Sequence[int]) -> None:
        self.due = due
        self.start = start
        self.lags = sorted((began - at) / MILLISECOND for at, began in zip(due, start, strict=True))

    def __len__(self) -> int:
        return len(self.lags)

    @property
    def early(self) -> int:
        return bisect_left(self.lags, 0)

    @property
    def last(self) -> Instant:
        return Instant(max(self.start))

    def lag(self, part: float) -> float:
        """The smallest lag that this part of them does not exceed, in milliseconds."""
        return self.lags[max(0, ceil(len(self.lags) * part) - 1)]

    def due_within(self, begin: Instant, end: Instant) -> Noted:
        kept = [pair for pair in zip(self.due, self.start, strict=True) if begin <= pair[0] < end]
        return Noted([due for due, _ in kept], [start for _, start in kept])

    def started_within(self, begin: Instant, end: Instant) -> int:
        return sum(begin <= start < end for start in self.start)

    def histogram(self, bins_each: int = BINS) -> Histogram:
        """With so many bins in each power of ten."""
        bins = round(bins_each * log10(LONGEST / SHORTEST))
        edges = [SHORTEST * 10 ** (i / bins_each) for i in range(bins + 1)]
        below = [0, *(bisect_left(self.lags, edge) for edge in edges[1:-1]), len(self.lags)]
        counts = tuple(b - a for a, b in pairwise(below))
        return Histogram(tuple(round(edge, 4) for edge in edges), counts)

    def by_time(self, begin: Instant, step: Duration = SECOND) -> Series:
        """From `begin` on; whatever started before it counts as started then."""
        counts = [0] * ((self.last - begin) // step + 1)
        for start in self.start:
            counts[max(0, start - begin) // step] += 1
        return Series(step // MILLISECOND, tuple(counts))


class Notes:
    """The notes of all worker processes there are or were, each to be taken once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: dict[Path, int] = {}  # records of each file

    def count(self) -> int:
        """How many there are that were not taken yet. Reads next to nothing."""
        return sum(there - self._taken.get(path, 0) for path, there in self._there().items())

    def take(self) -> Noted:
        """Those that were not taken yet."""
        found = array("q")
        for path, there in self._there().items():
            seen = self._taken.get(path, 0)
            with path.open("rb") as file:
                file.seek(seen * RECORD.size)
                found.frombytes(file.read((there - seen) * RECORD.size))
            self._taken[path] = there
        return Noted(found[0::2], found[1::2])

    def _there(self) -> dict[Path, int]:
        return {path: _written(path, self._taken.get(path, 0)) for path in sorted(self._folder.glob("*.notes"))}


def _written(path: Path, at_least: int) -> int:
    """How many records a file holds: they are written one after the other, into room that is all zero."""
    with path.open("rb") as file:
        low, high = at_least, os.fstat(file.fileno()).st_size // RECORD.size
        while low < high:
            middle = (low + high) // 2
            _, start = RECORD.unpack(os.pread(file.fileno(), RECORD.size, middle * RECORD.size))
            low, high = (middle + 1, high) if start else (low, middle)
    return low
