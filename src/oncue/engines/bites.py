"""Tidying up a little at a time: no statement takes more than a bite, and no part keeps the others from their turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

BITE = 1_000  # rows looked at, or removed, in one transaction
BITES = 1_000  # of one part in one tending: what is left then is for the next
BITES_AT_ONCE = 1  # of one job, while somebody waits for the answer: what is left is for schedulers
USERS_AT_ONCE = 10  # whose dead letters are counted in one statement, up to `Settings.most_dead_letters` each

Place = TypeVar("Place")


async def all_of(parts: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Each of them in order, whatever became of those before; the first error is raised in the end."""
    errors: list[Exception] = []
    for part in parts:
        try:
            await part()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


async def in_bites(bite: Callable[[], Awaitable[int]]) -> None:
    """For what an index finds: while there is a full bite of it."""
    for _ in range(BITES):
        if await bite() < BITE:
            return


class Walk:
    """Through a whole table in the order of its key, for what no index finds. It goes on where it stopped last time."""

    def __init__(self) -> None:
        self._place: object = None

    @property
    def unfinished(self) -> bool:
        return self._place is not None

    async def go(self, start: Place, bite: Callable[[Place], Awaitable[Place | None]]) -> None:
        """`bite` looks at those after a place, and says where it came to; None: there were none."""
        place: Place | None = start if self._place is None else self._place  # type: ignore[assignment]  # as it was left
        for _ in range(BITES):
            assert place is not None
            self._place = place = await bite(place)
            if place is None:
                return
