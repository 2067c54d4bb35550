"""What a soak was like in each of its minutes. In a short soak they are shorter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from oncue_bench.notes import Histogram

MEGABYTE = 2**20
SAMPLES_A_MINUTE = 6

COLUMNS = (
    *("from", "runs/s", "lag p50 ms", "p99 ms", "max ms", "memory MB"),
    *("waiting MB", "running MB", "history MB", "pieces", "database MB", "WAL MB/s"),
    *("dead rows waiting, running", "vacuums, last s ago"),
)


class Table(msgspec.Struct, frozen=True):
    """The size of a table with its indexes, and how it is vacuumed."""

    size: int
    dead: int
    vacuums: int
    vacuumed_ago: float | None
    """Seconds since the last one, if there was any."""


class StoreState(msgspec.Struct, frozen=True):
    """Sizes in bytes. `wal` only rises."""

    waiting: Table
    running: Table
    history: int
    pieces: int
    """Of history."""
    database: int
    wal: int


class Sample(msgspec.Struct, frozen=True):
    at: float
    """Its end, in seconds since the first run was due."""
    seconds: float
    runs: int
    lags: Histogram
    longest: float
    memory: Mapping[str, float]
    """Megabytes, by the name of the process."""
    store: StoreState
    wal: int
    """Bytes written meanwhile."""


class Minute(msgspec.Struct, frozen=True):
    """One minute; sizes are those at its end."""

    begins: float
    seconds: float
    runs_per_second: float
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    memory_mb: Mapping[str, float]
    wal_mb_per_second: float
    store: StoreState


def minutes(samples: Sequence[Sample]) -> tuple[Minute, ...]:
    return tuple(minute(samples[n : n + SAMPLES_A_MINUTE]) for n in range(0, len(samples), SAMPLES_A_MINUTE))


def minute(samples: Sequence[Sample]) -> Minute:
    """Summarise the samples of one minute."""
    last, seconds = samples[-1], sum(one.seconds for one in samples)
    lags, longest = Histogram.together([one.lags for one in samples]), max(one.longest for one in samples)
    return Minute(
        round(last.at - seconds, 1),
        round(seconds, 3),
        round(sum(one.runs for one in samples) / seconds, 1),
        min(longest, lags.lag(0.5)),
        min(longest, lags.lag(0.99)),
        longest,
        last.memory,
        round(sum(one.wal for one in samples) / seconds / MEGABYTE, 3),
        last.store,
    )


def levels_of(all_: Sequence[Minute]) -> list[tuple[str, dict[str, list[float]]]]:
    """Return the plots: each a title with the unit, and by name the value in each minute."""
    stores = [one.store for one in all_]
    found = [
        ("runs/s", {"started": [one.runs_per_second for one in all_]}),
        ("start lag, ms", {"p50": [one.lag_p50_ms for one in all_], "p99": [one.lag_p99_ms for one in all_]}),
        ("longest start lag, ms", {"max": [one.lag_max_ms for one in all_]}),
        ("memory, MB", {name: [one.memory_mb.get(name, 0.0) for one in all_] for name in all_[-1].memory_mb}),
        (
            "tables, MB",
            {
                "waiting": [one.waiting.size / MEGABYTE for one in stores],
                "running": [one.running.size / MEGABYTE for one in stores],
            },
        ),
        (
            "store, MB",
            {
                "database": [one.database / MEGABYTE for one in stores],
                "history": [one.history / MEGABYTE for one in stores],
            },
        ),
        ("WAL, MB/s", {"written": [one.wal_mb_per_second for one in all_]}),
        (
            "dead rows",
            {
                "waiting": [float(one.waiting.dead) for one in stores],
                "running": [float(one.running.dead) for one in stores],
            },
        ),
    ]
    return [(title, lines) for title, lines in found if lines]


def cells(one: Minute) -> tuple[str, ...]:
    """Return the cells of the table of minutes, under `COLUMNS`."""
    store = one.store
    tables = (store.waiting, store.running)
    ago = ", ".join("never" if t.vacuumed_ago is None else f"{t.vacuums}: {t.vacuumed_ago:.0f}" for t in tables)
    sizes = (store.waiting.size, store.running.size, store.history)
    return (
        f"{one.begins // 60:.0f}:{one.begins % 60:02.0f}",
        f"{one.runs_per_second:,.0f}",
        *(f"{lag:,.1f}" for lag in (one.lag_p50_ms, one.lag_p99_ms, one.lag_max_ms)),
        ", ".join(f"{name} {size:.0f}" for name, size in one.memory_mb.items()),
        *(f"{size / MEGABYTE:,.1f}" for size in sizes),
        str(store.pieces),
        f"{store.database / MEGABYTE:,.0f}",
        f"{one.wal_mb_per_second:,.1f}",
        ", ".join(f"{t.dead:,}" for t in tables),
        ago,
    )
