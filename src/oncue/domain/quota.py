"""Quotas per user: active and paused jobs, their payload bytes, and waiting runs started by hand."""

from __future__ import annotations

from typing import Final

import msgspec

from oncue.domain.errors import QuotaExceeded


class Usage(msgspec.Struct, frozen=True):
    """What a user has, or is about to add: active and paused jobs, the bytes of their payloads, and the waiting runs
    started by hand.
    """

    jobs: int = 0
    payload: int = 0
    runs: int = 0

    def plus(self, more: Usage) -> Usage:
        return Usage(
            min(self.jobs + more.jobs, ANY), min(self.payload + more.payload, ANY), min(self.runs + more.runs, ANY)
        )


ANY: Final = 2**62  # more than any user has: an upper bound for an unknown figure


class Quota(msgspec.Struct, frozen=True):
    """What a user may have; 0: no limit, but the jobs count when another request of the user has a limit."""

    jobs: int = 0
    payload: int = 0
    runs: int = 0

    def refuses(self, used: Usage, more: Usage) -> bool:
        """Whether `more` exceeds a quota. A user who is over a quota already is refused only additions to it."""
        return self.lacks_jobs(used, more) or self.lacks_bytes(used, more) or self.lacks_runs(used, more)

    def lacks_jobs(self, used: Usage, more: Usage) -> bool:
        return 0 < self.jobs < used.jobs + more.jobs and more.jobs > 0

    def lacks_bytes(self, used: Usage, more: Usage) -> bool:
        return 0 < self.payload < used.payload + more.payload and more.payload > 0

    def lacks_runs(self, used: Usage, more: Usage) -> bool:
        return 0 < self.runs < used.runs + more.runs and more.runs > 0


def exceeded(quota: Quota, used: Usage, more: Usage, had: Usage | None = None, told: str = "") -> QuotaExceeded:
    """Build the error for a refused `more`. `had` is the stored usage, if `used` counts other requests, too."""
    had = had or used
    advice = "Wait until some have ended, cancel some, or ask an administrator for a larger quota."
    if quota.lacks_jobs(used, more):
        n = f"more than {quota.jobs}" if had.jobs > quota.jobs else str(had.jobs)
        return QuotaExceeded(f"You have {n} active or paused jobs; at most {quota.jobs} are allowed{told}. {advice}")
    if quota.lacks_runs(used, more):
        n = f"more than {quota.runs}" if had.runs > quota.runs else str(had.runs)
        what = f"You have {n} waiting runs started by hand; at most {quota.runs} are allowed (quota_runs)"
        return QuotaExceeded(f"{what}, and this request adds {more.runs}. {advice}")
    what = f"your active and paused jobs have {had.payload} bytes of payload; at most {quota.payload} are allowed"
    advice = f"{advice[0].lower()}{advice[1:-1]}"  # this one is a field's message
    return QuotaExceeded(f"{what}, and this request adds {more.payload}{told}; {advice}", "payload")
