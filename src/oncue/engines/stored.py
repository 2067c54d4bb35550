"""The numbers that engines store for names, the same in every engine.

A number keeps its meaning for ever, since old rows have it. The domain has those of `State`, `Trigger`, `Held` and
`Priority`. In SQL a comment on the same line names each number.
"""

from __future__ import annotations

from functools import lru_cache

from oncue.domain.job import JobStatus
from oncue.domain.lane import Held
from oncue.domain.run import State, Trigger

STATUS_NUMBER: dict[JobStatus, int] = {
    JobStatus.ACTIVE: 0,
    JobStatus.PAUSED: 1,
    JobStatus.FINISHED: 2,
    JobStatus.CANCELLED: 3,
}

# Used for every row: looking up a number takes a tenth of the time of calling the enum.
STATUSES: dict[int, JobStatus] = {number: status for status, number in STATUS_NUMBER.items()}
TRIGGERS: dict[int, Trigger] = {trigger.value: trigger for trigger in Trigger}
STATES: dict[int, State] = {state.value: state for state in State}
held_of = lru_cache(maxsize=256)(Held)  # also bits of a newer oncue

ENDED = frozenset({JobStatus.FINISHED, JobStatus.CANCELLED})
