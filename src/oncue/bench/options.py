"""How much of everything is measured."""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct, frozen=True):
    runs: int = 100_000
    """Runs that are due at once, to be drained."""
    singles: int = 20_000
    batched: int = 100_000
    burst: int = 10_000
    spread_rate: int = 100
    spread_seconds: int = 15
    rate: int = 10_000
    """Runs a second of the sustained load and of the soak."""
    seconds: int = 30
    """Length of the sustained load."""
    minutes: float = 30
    """Length of the soak."""
    history: str = "drop"
    """Of the soak: drop it as it ages, archive it before that, or keep it."""
    workers: tuple[int, ...] = (1, 2, 4)
    """Workers in each round of `scale`."""
    rounds: int | None = None
    """Of `counting`, each with and without (None: 9), and of `fleet` (None: 3)."""
    fleet: tuple[int, ...] = (1, 10, 20, 50)
    """Workers in each step of a round of `fleet`."""
    fleet_rates: tuple[int, ...] = (0, 20, 100)
    """Runs a second that each of these fleets has."""
    fleet_seconds: int = 10
    beside: str | None = None
    """The `src` of another version, which `fleet` measures in turn with this one."""
    intake: int = 50_000
    """Rows of the outbox that are taken in."""
    recurring: tuple[int, ...] = (3_000, 10_000)
    """Jobs that run every second, in each round."""
    recurring_seconds: int = 10
    idle_seconds: int = 10
    more: int = 1_000_000
    """Runs after all parts, during which memory must not grow."""
    future: int = 5_000_000
    finished: int = 10_000_000


QUICK = Options(
    runs=10_000,
    singles=4_000,
    batched=20_000,
    burst=5_000,
    spread_seconds=3,
    seconds=4,
    minutes=1,
    rounds=1,
    fleet=(1, 4),
    fleet_seconds=3,
    intake=10_000,
    recurring=(3_000,),
    recurring_seconds=3,
    idle_seconds=2,
    more=20_000,
    future=50_000,
    finished=100_000,
)
