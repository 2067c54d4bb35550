"""Reads the notes of the measuring task from outside: due and start of each run, and what follows from them."""

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

# The folder in which each worker process has a file of notes. Tasks do not get variables that begin with ONCUE_.
ENVIRONMENT = "BENCH_NOTES"
RECORD = struct.Struct("=qq")  # due and start, in microseconds since 1970; a start of 0: not written yet
WINDOW = RECORD.size * 65_536  # bytes by which files grow

BINS = 8  # of a histogram, in each power of ten
SHORTEST, LONGEST = 0.1, 100_000.0  # milliseconds: the range of a histogram


class Histogram(msgspec.Struct, frozen=True):
    """How many lags lie between each two edges, in milliseconds. The outermost bins also hold what lies beyond."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def lag(self, part: float) -> float:
        """Return a bound for this fraction of lags: the upper edge of their bin."""
        target, so_far = ceil(sum(self.counts) * part), 0
        for edge, count in zip(self.edges[1:], self.counts, strict=True):
            so_far += count
            if so_far >= max(1, target):
                return edge
        return 0.0

    def coarse(self, times: int) -> Histogram:
        """Return a histogram with this many bins merged into one."""
        starts = range(0, len(self.counts), times)
        return Histogram(self.edges[::times], tuple(sum(self.counts[n : n + times]) for n in starts))

    @classmethod
    def together(cls, all_: Sequence[Histogram]) -> Histogram:
        """Return the sum of histograms with the same edges."""
        return cls(all_[0].edges, tuple(map(sum, zip(*(one.counts for one in all_), strict=True))))


class Series(msgspec.Struct, frozen=True):
    """How many runs started in each interval of `step_ms` milliseconds, from the first to the last."""

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
        """Return the smallest lag that this fraction of runs does not exceed, in milliseconds."""
        return self.lags[max(0, ceil(len(self.lags) * part) - 1)]

    def due_within(self, begin: Instant, end: Instant) -> Noted:
        kept = [pair for pair in zip(self.due, self.start, strict=True) if begin <= pair[0] < end]
        return Noted([due for due, _ in kept], [start for _, start in kept])

    def started_within(self, begin: Instant, end: Instant) -> int:
        return sum(begin <= start < end for start in self.start)

    def histogram(self, bins_each: int = BINS) -> Histogram:
        """Return a histogram with this many bins in each power of ten."""
        bins = round(bins_each * log10(LONGEST / SHORTEST))
        edges = [SHORTEST * 10 ** (i / bins_each) for i in range(bins + 1)]
        below = [0, *(bisect_left(self.lags, edge) for edge in edges[1:-1]), len(self.lags)]
        counts = tuple(b - a for a, b in pairwise(below))
        return Histogram(tuple(round(edge, 4) for edge in edges), counts)

    def by_time(self, begin: Instant, step: Duration = SECOND) -> Series:
        """Return the series from `begin` on; an earlier start counts as at `begin`."""
        counts = [0] * ((self.last - begin) // step + 1)
        for start in self.start:
            counts[max(0, start - begin) // step] += 1
        return Series(step // MILLISECOND, tuple(counts))


class Notes:
    """The notes of all worker processes there are or were; each note is taken once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: dict[Path, int] = {}  # records of each file

    def count(self) -> int:
        """Return how many notes were not taken yet. Reads next to nothing."""
        return sum(there - self._taken.get(path, 0) for path, there in self._there().items())

    def take(self) -> Noted:
        """Take the notes that were not taken yet."""
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
    """Return how many records a file has: they are written one after the other, into space that is all zero."""
    with path.open("rb") as file:
        low, high = at_least, os.fstat(file.fileno()).st_size // RECORD.size
        while low < high:
            middle = (low + high) // 2
            _, start = RECORD.unpack(os.pread(file.fileno(), RECORD.size, middle * RECORD.size))
            low, high = (middle + 1, high) if start else (low, middle)
    return low
