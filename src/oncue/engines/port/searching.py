"""Find what people name by a part of its id, by a key or by the beginning of a tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.run import RunView
from oncue.engines.listed import JobRow

SEARCHED = 2_000  # most entries of one index that a search reads
SEARCHED_USERS = 500  # for an administrator: whose keys are searched, the newest users


class Search(Protocol):
    """Searches change nothing and read a bounded number of rows. `uid` None: of all users (administrators)."""

    async def ids(self, uid: UserNumber | None, first: UUID, last: UUID, limit: int) -> list[UUID]:
        """Return ids of jobs and runs in [first, last], newest first: up to `limit` that are jobs, and as many others.

        Of each kind the newest `SEARCHED` in the range are read, whoever owns them.
        """
        ...

    async def endings(self, uid: UserNumber | None, digits: str, limit: int) -> list[UUID]:
        """Return ids of jobs and runs that end with these hexadecimal digits in lower case, newest first.

        It looks at the newest `SEARCHED` jobs and runs: of those that wait, at the ones created last and at the ones
        that lists show first; of those that ended, at the ones that ended last; and at the newest dead letters.
        """
        ...

    async def keys(self, uid: UserNumber | None, prefix: str, limit: int) -> list[tuple[str, JobId]]:
        """Return keys that begin with `prefix`, in order of code points, each with the job that has it or had it last.

        For all users: of the `SEARCHED_USERS` newest ones.
        """
        ...

    async def tags(self, uid: UserNumber | None, prefix: str, limit: int) -> list[str]:
        """Return tags of jobs that begin with `prefix`, each once, in order."""
        ...

    async def jobs_by_id(self, uid: UserNumber | None, job_ids: Sequence[JobId]) -> dict[JobId, JobRow]:
        """Return those of these jobs that there are, in any state."""
        ...

    async def runs_by_id(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> dict[RunId, RunView]:
        """Return those of these runs that there are, in any state, without definition and payload."""
        ...
