"""What is done to the store itself."""

from __future__ import annotations

from typing import Protocol

from oncue.domain.instants import Duration, Instant

ROLLED_UP_AT_ONCE = 20_000  # appended counts in one statement


class Maintenance(Protocol):
    """Keeping the store small and its sums exact. Any scheduler, now and then."""

    async def roll_up(self, limit: int = ROLLED_UP_AT_ONCE) -> int:
        """Fold up to `limit` appended counts into their sums; how many. At the limit there may be more.

        Any scheduler, about once a second.
        """
        ...

    async def tended(self, now: Instant, step: Duration) -> Instant:
        """The time to tend by: `now`, but at most `step` later than what the last call of anybody answered.

        So that one wrong reading of a clock drops little: nothing brings back what is gone. The first call ever takes
        `now` as it is; a clock that was set back is followed at once. A repeat may move it a step further.
        """
        ...

    async def maintain(self, now: Instant, keep: Duration) -> int:
        """Make room for history ahead and drop whole stretches that ended before `now - keep`; returns how many.

        Open dead letters stay for `Settings.keep_dead_letters`, whatever becomes of their runs, up to
        `Settings.most_dead_letters` of each user; then the oldest are discarded, and the audit log says so. A recurring
        job that has ended goes when none of its runs is left. Of a finished job that was put by a stable key, it is
        known for `Settings.keep_job_keys` that it was there.

        All of it in bites: no transaction takes long, and none of its parts keeps another from being done. The first
        error is raised after all were tried. Idempotency keys are in two generations: once the
        current one is older than `Settings.repeat_for`, the other one is emptied whole and is current from then on. So
        a key lasts that long, and at most twice as long. One caller turns, however many there are.

        A class goes once no job, open run, dead letter or run in history has it, and nobody has asked for it for a day.
        What it counted is then counted by its task's class of the queue `placement.GONE`, so that sums stay.
        """
        ...
