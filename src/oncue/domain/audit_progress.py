"""How far the self-audit has come: whoever takes the next step continues from there."""

from __future__ import annotations

from uuid import UUID

import msgspec

from oncue.domain.instants import Instant

TURN = "self-audit"
PASS_STEPS = 700  # so that a pass over all jobs takes about an hour
SMALLEST_PAGE, LARGEST_PAGE = 500, 5_000  # jobs


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the audit has come, stored as the position of its turn."""

    after: UUID | None = None  # the last job of the last step; None: a pass begins
    runs_after: UUID | None = None  # the same of what runs
    jobs: int = 0  # in this pass so far
    jobs_before: int = 0  # in the pass before
    passed_at: Instant | None = None  # when a pass was complete
    summed_at: Instant | None = None
    checked: dict[str, int] = {}  # how many objects, by check, ever

    @property
    def page(self) -> int:
        return min(max(self.jobs_before // PASS_STEPS, SMALLEST_PAGE), LARGEST_PAGE)


def read_progress(position: bytes) -> Progress:
    """Decode a position. One that cannot be read begins a new pass."""
    try:
        return msgspec.json.decode(position, type=Progress) if position else Progress()
    except msgspec.DecodeError:
        return Progress()
