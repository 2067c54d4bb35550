"""How many runs come in each step: in all, and by groups such as tasks."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from oncue.domain.instants import Instant

Group = tuple[str, ...]


class Part(msgspec.Struct, frozen=True):
    """Runs that come at the same steps: `groups` says how many of each group come every time that `steps` counts.

    `reached`: there may be more from then on; None: all were counted.
    """

    steps: Mapping[Instant, int]
    groups: Mapping[Group, int]
    reached: Instant | None = None


class Density(msgspec.Struct, frozen=True):
    steps: Mapping[Instant, int]
    reached: Instant | None = None


def in_all(parts: Iterable[Part], reached: Instant | None = None) -> Density:
    """Add up all parts. `reached` is that of what is in no part."""
    return _sum(((part, sum(part.groups.values())) for part in parts), reached)


def largest(parts: Iterable[Part], most: int, reached: Instant | None = None) -> tuple[dict[Group, Density], int]:
    """Add up each of the groups with the most runs, in this order; also return how many groups are left out."""
    of: defaultdict[Group, list[tuple[Part, int]]] = defaultdict(list)
    sizes: Tally[Group] = Tally()
    for part in parts:
        times = sum(part.steps.values())
        for group, n in part.groups.items():
            of[group].append((part, n))
            sizes[group] += n * times
    some = [group for group, n in sizes.items() if n]
    chosen = sorted(some, key=lambda group: (-sizes[group], group))[:most]
    return {group: _sum(of[group], reached) for group in chosen}, len(some) - len(chosen)


def _sum(parts: Iterable[tuple[Part, int]], reached: Instant | None) -> Density:
    steps: dict[Instant, int] = {}
    ends: list[Instant] = [] if reached is None else [reached]
    for part, n in parts:
        for at, times in part.steps.items():
            steps[at] = steps.get(at, 0) + n * times
        if part.reached is not None:
            ends.append(part.reached)
    return Density(dict(sorted(steps.items())), min(ends, default=None))


def counted(at: Iterable[Instant], step: int) -> dict[Instant, int]:
    """Count instants by step."""
    steps: dict[Instant, int] = {}  # a Counter takes longer to make than the few instants of a schedule to count
    for one in at:
        start = Instant(one - one % step)
        steps[start] = steps.get(start, 0) + 1
    return steps
