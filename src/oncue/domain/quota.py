"""How much one user may have at a time: jobs that have not ended, bytes of payload in them, runs asked for by hand."""

from __future__ import annotations

from typing import Final

import msgspec

from oncue.domain.errors import QuotaExceeded


class Usage(msgspec.Struct, frozen=True):
    """What a user has, or is about to have: jobs that have not ended, the bytes of their payloads, and the waiting runs
    that were asked for by hand.
    """

    jobs: int = 0
    payload: int = 0
    runs: int = 0

    def plus(self, more: Usage) -> Usage:
        return Usage(
            min(self.jobs + more.jobs, ANY), min(self.payload + more.payload, ANY), min(self.runs + more.runs, ANY)
        )


ANY: Final = 2**62  # more than anybody has: what is certainly no less than a figure that nobody knows


class Quota(msgspec.Struct, frozen=True):
    """What a user may have; 0: as much as they like, but others of their jobs may be counted against a limit."""

    jobs: int = 0
    payload: int = 0
    runs: int = 0

    def refuses(self, used: Usage, more: Usage) -> bool:
        """Whether there is no room for `more`. Who is over already is refused only what adds to it."""
        return self.lacks_jobs(used, more) or self.lacks_bytes(used, more) or self.lacks_runs(used, more)

    def lacks_jobs(self, used: Usage, more: Usage) -> bool:
        return 0 < self.jobs < used.jobs + more.jobs and more.jobs > 0

    def lacks_bytes(self, used: Usage, more: Usage) -> bool:
        return 0 < self.payload < used.payload + more.payload and more.payload > 0

    def lacks_runs(self, used: Usage, more: Usage) -> bool:
        return 0 < self.runs < used.runs + more.runs and more.runs > 0


def exceeded(quota: Quota, used: Usage, more: Usage, had: Usage | None = None, told: str = "") -> QuotaExceeded:
    """What to tell somebody who is refused `more`; if `used` has more in it than was stored, `had` is what was."""
    had = had or used
    advice = "wait until some have ended or cancel them, or ask an administrator for a larger quota"
    if quota.lacks_jobs(used, more):
        n = f"more than {quota.jobs}" if had.jobs > quota.jobs else str(had.jobs)
        return QuotaExceeded(f"of your jobs {n} have not ended, and at most {quota.jobs} may{told}: {advice}")
    if quota.lacks_runs(used, more):
        n = f"more than {quota.runs}" if had.runs > quota.runs else str(had.runs)
        what = f"of the runs you asked for by hand {n} wait, and at most {quota.runs} may (quota_runs)"
        return QuotaExceeded(f"{what}; this would add {more.runs}: ask for fewer, {advice}")
    what = f"the payloads of your jobs that have not ended have {had.payload} bytes and may have {quota.payload}"
    return QuotaExceeded(f"{what}; this would add {more.payload}{told}: send less, {advice}", "payload")
