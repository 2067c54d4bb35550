"""Sets of declared jobs: what is there, what would be refused, and which declaration was applied last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.change import JobChange
from oncue.domain.ids import UserNumber
from oncue.domain.instants import Instant
from oncue.domain.quota import Quota
from oncue.engines.values import Creation, KeyedJob, NewJob, SetStamp

MOST_SETS = 1_000  # of one user
MOST_KEYS = 1_000  # read by one call


class Declaring(Protocol):
    """What `POST /jobs/apply` and dry runs ask for besides the verbs that write jobs."""

    async def keyed(self, uid: UserNumber, keys: Sequence[str]) -> dict[str, KeyedJob]:
        """Return the user's jobs that have these stable keys, or had them last, by key: `Jobs.keyed` for up to
        MOST_KEYS keys. A recurring job comes with its definition; a one-shot has to be read.
        """
        ...

    async def rehearse(
        self, new: Sequence[NewJob], changes: Sequence[JobChange] = (), quota: Quota | None = None
    ) -> list[Creation]:
        """Return what `Jobs.create(new, whole=True)` would answer after `Jobs.apply` of these changes. Stores nothing.

        Answers are by stable keys and quotas; idempotency keys are not looked at. The changes are of one user, and
        count with what all of them together add to its payloads, or take from them. QuotaExceeded: that alone exceeds
        `quota`. TooManyClasses: one of the users would have too many. A later call of these verbs may be refused even
        so, if somebody else was quicker.
        """
        ...

    async def stamp(self, uid: UserNumber, name: str) -> SetStamp | None:
        """Return the stamp of a user's set. None: the set was never applied with one."""
        ...

    async def put_stamp(self, uid: UserNumber, name: str, stamp: SetStamp, now: Instant) -> bool:
        """Store the stamp of a set, which only rises. A repeat changes nothing.

        False: nothing was stored, because a higher one is there, or because the user has MOST_SETS other sets.
        """
        ...
