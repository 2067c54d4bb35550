"""What is stored about notices besides their runs: users' defaults, targets that fail, and replaced secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Instant
from oncue.domain.notify import NotifyDefault
from oncue.domain.run import NewRun
from oncue.engines.values import Dropped, Generation, Target


class Notices(Protocol):
    """Whom users want told. The notices themselves are runs: `settle`, `recover_runs`, `expire` and `plan` insert them,
    each under the condition that its decision names, together with the streaks of their jobs. If `MOST_WAITING` of a
    user wait, further ones are dropped, and counted by the same transaction.
    """

    async def add(self, runs: Sequence[NewRun], now: Instant) -> None:
        """Insert notices, of no class yet. A repeat changes nothing as long as they wait."""
        ...

    async def default(self, uid: UserNumber) -> NotifyDefault:
        """Return a user's default; an empty one if there is none."""
        ...

    async def defaults(self, since: Instant) -> dict[UserNumber, NotifyDefault]:
        """Return the defaults that were put at or after this instant, also the empty ones."""
        ...

    async def put_default(self, uid: UserNumber, default: NotifyDefault, now: Instant) -> None:
        """Replace a user's default. A repeat changes nothing."""
        ...

    async def targets(self, uid: UserNumber) -> list[Target]:
        """Return the user's targets that notices did not reach lately, with the muted ones."""
        ...

    async def target_failed(self, uid: UserNumber, target: str, shown: str, most: int, now: Instant) -> Target:
        """Count one more dead notice in a row; with `most` of them the target is muted, from the first time on."""
        ...

    async def target_reached(self, uid: UserNumber, target: str) -> None:
        """Forget what failed: the target is not muted any more."""
        ...

    async def dropped(self, uid: UserNumber) -> Dropped:
        """Return how many notices of a user were dropped because too many waited."""
        ...

    async def dropped_reported(self, uid: UserNumber, total: int) -> None:
        """Note that a digest has reported the first `total` that were dropped. A repeat changes nothing."""
        ...

    async def generation(self, uid: UserNumber, url_hash: bytes) -> Generation:
        """Return how often the derived secret of a URL was replaced."""
        ...

    async def rotate(self, uid: UserNumber, url_hash: bytes, now: Instant) -> Generation:
        """Replace the derived secret of a URL. A repeat replaces it again."""
        ...
