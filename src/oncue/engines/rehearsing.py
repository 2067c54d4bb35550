"""What all engines share about rehearsals: whether jobs and changes would be admitted, by figures that engines read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.domain.change import JobChange
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.placement import ClassKey
from oncue.domain.quota import exceeded
from oncue.engines.admitting import Admission, StableKey, admit, quotas_of
from oncue.engines.classing import wanted as wanted_classes
from oncue.engines.port import Created, Creation, NewJob, Quota, Usage


class Rehearsal:
    """New jobs and changes of one call, in the order: changes, then jobs."""

    def __init__(self, new: Sequence[NewJob], changes: Sequence[JobChange], quota: Quota | None) -> None:
        self._new = new
        self._grows = {change.uid: Usage() for change in changes} if quota is not None else {}
        for uid in self._grows:
            self._grows[uid] = Usage(payload=sum(one.grows for one in changes if one.uid == uid))  # or shrink
        self._quota = quota
        self.quotas = quotas_of(new)
        """The users whose usage decides, each with a quota."""
        if quota is not None:
            self.quotas |= {uid: quota for uid in self._grows if uid not in self.quotas}
        self.classes: dict[ClassKey, UserNumber | None] = wanted_classes(new)
        """Classes that must exist, or be created for these users."""
        for change in changes:
            if change.new_class is not None:
                self.classes.setdefault(change.new_class, change.uid)

    def keys(self) -> list[StableKey]:
        named = ((job.job.uid, job.job.spec.key) for job in self._new)
        return sorted({(uid, key) for uid, key in named if key is not None})

    def admission(self, holders: Mapping[StableKey, JobId], used: Mapping[UserNumber, Usage]) -> Admission:
        """Return who would be admitted if users had `used` this much; `over_quota` also has users who grow too much."""
        grown = {uid: had.plus(self._grows.get(uid, Usage())) for uid, had in used.items()}
        answers = [Creation(Created.NEW, job.job.job_id) for job in self._new]
        admission = admit(self._new, answers, holders, grown)
        admission.over_quota.update(uid for uid in self._grows if self._grows_too_much(uid, used[uid]))
        return admission

    def refuse_growth(self, used: Mapping[UserNumber, Usage]) -> None:
        """Raise QuotaExceeded for a user whose changes alone exceed the quota."""
        for uid, had in used.items():
            if self._quota is not None and self._grows_too_much(uid, had):
                raise exceeded(self._quota, had, self._grows[uid])

    def _grows_too_much(self, uid: UserNumber, used: Usage) -> bool:
        return self._quota is not None and uid in self._grows and self._quota.refuses(used, self._grows[uid])
