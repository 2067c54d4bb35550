"""Maintenance in small steps: no statement takes more than one bite, and no part blocks the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

BITE = 1_000  # rows read or removed in one transaction
BITES = 1_000  # of one part in one call of `maintain`: the next call does the rest
BITES_AT_ONCE = 1  # of one job, while a caller waits for the answer: schedulers do the rest
USERS_AT_ONCE = 10  # whose dead letters one statement counts, up to `Settings.most_dead_letters` each

Place = TypeVar("Place")


async def all_of(parts: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Do all parts in order, also after one has failed; raise the first error at the end."""
    errors: list[Exception] = []
    for part in parts:
        try:
            await part()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


async def in_bites(bite: Callable[[], Awaitable[int]]) -> None:
    """Repeat `bite`, whose rows an index finds, as long as it removes a full bite."""
    for _ in range(BITES):
        if await bite() < BITE:
            return


class Walk:
    """Walk through a whole table by its key, for rows that no index finds. Continues where it stopped last time."""

    def __init__(self) -> None:
        self._place: object = None

    @property
    def unfinished(self) -> bool:
        return self._place is not None

    async def go(self, start: Place, bite: Callable[[Place], Awaitable[Place | None]]) -> None:
        """Call `bite` with a position; it reads the rows after it and returns the position reached, None at the end."""
        place: Place | None = start if self._place is None else self._place  # type: ignore[assignment]  # as it was left
        for _ in range(BITES):
            assert place is not None
            self._place = place = await bite(place)
            if place is None:
                return
