"""Maintenance of the database itself."""

from __future__ import annotations

from typing import Protocol

from oncue.domain.instants import HOUR, Duration, Instant

ROLLED_UP_AT_ONCE = 20_000  # appended counts in one statement
MEMBERS_STAY = HOUR  # after their last heartbeat


class Maintenance(Protocol):
    """Keep the database small and its sums exact. Any scheduler calls these verbs now and then."""

    async def roll_up(self, limit: int = ROLLED_UP_AT_ONCE) -> int:
        """Add up to `limit` appended counts to their sums and series; return how many. At the limit there may be more.

        Any scheduler calls this about once a second.
        """
        ...

    async def tended(self, now: Instant, step: Duration) -> Instant:
        """Return the time to maintain by: `now`, but at most `step` later than the last answer to any caller.

        So one wrong reading of a clock drops little: dropped data cannot be restored. The first call ever takes `now`
        as it is; a clock that was set back is followed at once. A repeat may advance the time by one more step.
        """
        ...

    async def take_turn(self, name: str, now: Instant, every: Duration) -> bytes | None:
        """Take the next turn of recurring work that any process may do; return the position where it continues.

        None: it is not due yet, or another caller has it. Of any number of callers exactly one gets a turn, and the
        next one is due `every` later, whatever becomes of this caller: one that dies only delays the work. A name that
        no caller has used yet is due at once, at position b"". After a clock was set back the next turn is due at once.
        """
        ...

    async def finish_turn(self, name: str, taken: bytes, position: bytes) -> bool:
        """Store where the next turn continues, if the position is still the one that was `taken`.

        False: this caller took so long that another has finished the turn meanwhile. A repeat answers False, too.
        """
        ...

    async def maintain(self, now: Instant, keep: Duration) -> int:
        """Create partitions of history ahead and drop those that ended before `now - keep`; return how many it dropped.

        The audit log has its own `Settings.keep_audit`; keys that were revoked or have expired go after
        `Settings.keep_keys`. What the archive does not have yet stays: see `Archiving`.

        Open dead letters stay for `Settings.keep_dead_letters`, even when their runs are dropped, up to
        `Settings.most_dead_letters` per user; then the oldest are discarded, with an entry in the audit log. A
        recurring job that has ended is deleted when it has no run left. For a finished job that was put by a stable
        key, the engine remembers for `Settings.keep_job_keys` that it existed.

        Everything is done in bites: no transaction takes long, and no part blocks another. The first error is raised
        after all parts were tried. Idempotency keys are in two generations: once the current one is older than
        `Settings.idempotency_retention`, the other one is emptied as a whole and becomes the current one. So a key
        lasts at least that long, and at most twice as long. Of concurrent callers exactly one switches.

        Series are kept by the minute for two days, then by the hour for a year (`engines.series`).

        A class is dropped once no job, open run, dead letter or run in history has it, and no caller has asked for it
        for a day. Its counts then move to its task's class in the queue `placement.GONE`, so that sums stay.
        A member without a heartbeat for `MEMBERS_STAY` is removed.
        """
        ...
