"""How many times a second `next_after` answers, by expression and zone. Run: python bench/cron.py

Goals on one core: 100,000 for what fires daily or more often, 50,000 for rarer expressions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter
from zoneinfo import ZoneInfo

from oncue.domain.cron import Cron, next_after, parse_cron
from oncue.domain.instants import Instant, instant
from oncue.domain.zones import Timeline

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
EXPRESSIONS = {
    "* * * * * *": 100_000,
    "*/10 * * * * *": 100_000,
    "* * * * *": 100_000,
    "*/15 9-17 * * *": 100_000,
    "0 * * * *": 100_000,
    "30 2 * * *": 100_000,
    "0 9 * * 1-5": 50_000,
    "0 9 15W * *": 50_000,
    "0 0 L * *": 50_000,
    "0 0 * * 5#5": 50_000,
    "0 0 1 1 *": 50_000,
    "0 0 29 2 *": 50_000,
    "0 0 * 2 1#5": 50_000,
}
START = instant(datetime(2026, 1, 1, tzinfo=UTC))
SECONDS_EACH = 0.1


def rate(cron: Cron, zone: ZoneInfo) -> float:
    """Going from one occurrence to the next, and back to the start when they end."""
    when, calls = START, 0
    next_after(cron, zone, when)
    began = perf_counter()
    while (spent := perf_counter() - began) < SECONDS_EACH:
        for _ in range(500):
            when = next_after(cron, zone, when) or START
        calls += 500
    return calls / spent


def first_use(zone: ZoneInfo) -> float:
    """Milliseconds until a zone never seen before answers."""
    began = perf_counter()
    Timeline(zone).at(Instant(START) // 1_000_000)
    return (perf_counter() - began) * 1000


def main() -> None:
    print(f"{'next_after/s':18}" + "".join(f"{zone:>22}" for zone in ZONES))
    for text, goal in EXPRESSIONS.items():
        rates = [rate(parse_cron(text), ZoneInfo(zone)) for zone in ZONES]
        print(f"{text:18}" + "".join(f"{r:>20,.0f} {'' if r >= goal else '!':1}" for r in rates))
    print(f"{'first use, ms':18}" + "".join(f"{first_use(ZoneInfo(zone)):>20.2f}  " for zone in ZONES))


if __name__ == "__main__":
    main()
