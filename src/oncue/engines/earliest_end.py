"""Since when runs of a job can have ended: partitions of the time before need not be searched for them."""

from __future__ import annotations

from oncue.domain.ids import JobId, created_at
from oncue.domain.instants import DAY, Instant

CLOCKS_DIFFER = DAY  # at most, between who created a job and who ends its runs


def earliest_end(job_id: JobId) -> Instant:
    return Instant(created_at(job_id) - CLOCKS_DIFFER)
