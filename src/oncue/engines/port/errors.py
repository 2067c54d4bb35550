"""Failures of one kind, counted together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.error_groups import ErrorGroup, GroupKey
from oncue.domain.ids import RunId, UserNumber
from oncue.engines.values import Page

FOLDED_AT_ONCE = 1_000  # appended rows in one transaction
LETTERS_COUNTED = 100  # open dead letters of one group


class Errors(Protocol):
    """Groups of failures: `settle` and `recover_runs` append, `roll_up` adds up, users read.

    The verbs that end an attempt append `domain.error_groups.failures_of` what they write, in the same transaction, and
    store the fingerprint with a dead letter. `Maintenance.maintain` drops groups `domain.error_groups.KEPT` after their
    last failure.
    """

    async def roll_up(self, limit: int = FOLDED_AT_ONCE) -> int:
        """Add up to `limit` appended rows to their groups, as `domain.error_groups.folded` says; return how many.

        A user has at most `MOST_GROUPS` groups and the one of the rest. 0 may also mean that another caller does it.
        """
        ...

    async def groups(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[ErrorGroup]:
        """Return groups of a user, or of all users, the one with the newest failure first."""
        ...

    async def open_letters(self, groups: Sequence[GroupKey], most: int = LETTERS_COUNTED) -> dict[GroupKey, int]:
        """Return how many open dead letters each group has, counted up to `most`; groups without any are left out."""
        ...

    async def fingerprints(self, run_ids: Sequence[RunId]) -> dict[RunId, int]:
        """Return the fingerprints of those of these runs that are open dead letters and have one."""
        ...
