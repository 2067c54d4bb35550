"""Decide what becomes of rows of the outbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import msgspec

from oncue.domain.errors import (
    Forbidden,
    Invalid,
    QuotaExceeded,
    StorageRefused,
    StorageUnavailable,
)
from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import SECOND, Duration, Instant, show_duration
from oncue.domain.job import Job, Spec
from oncue.engines.outbox_values import Decision, Enqueued, Kept
from oncue.engines.port import AuditEntry, Created, Creation, NewJob, Role
from oncue.intake.context import Intake, UserWithRole
from oncue.intake.definitions import Definitions, checked
from oncue.intake.new_jobs import CREATE, new_job, refuse_over_quota

RETRY_INTERVAL = Duration(10 * SECOND)  # of a row that may still become a job
LONGEST_WHY = 2_000  # characters

_decode = msgspec.json.decode


class OutboxDecisions:
    """The decisions of one pass. A row that may become a job later is kept for `timeout`; others are refused.

    `crowded`: classes that the users who need them may not have. `unstorable`: rows that the database refuses, and why.
    """

    def __init__(
        self,
        intake: Intake,
        now: Instant,
        timeout: Duration,
        crowded: Set[object] = frozenset(),
        unstorable: Mapping[int, str] | None = None,
    ) -> None:
        self._intake = intake
        self._now = now
        self._timeout = timeout
        self._crowded = crowded
        self._unstorable = unstorable or {}
        self._lookups = intake.task_registry.lookups
        self._authors: dict[tuple[UserNumber, Role], tuple[UserWithRole, Definitions]] = {}
        self.last: Enqueued | None = None  # that was decided about

    async def decide(self, rows: Sequence[Enqueued]) -> list[Decision]:
        decided: list[Decision] = []
        for row in rows:
            self.last = row
            try:
                decided.append(await self._decided(row))
            except Invalid as wrong:
                decided.append(self._kept(row, str(wrong), heals=_may_fit_later(row, wrong)))
            except (Forbidden, ValueError, RecursionError) as wrong:
                decided.append(self._kept(row, str(wrong), heals=False))
        new = [one for one in decided if isinstance(one, NewJob)]
        try:
            await self._intake.large.save(*((one.job.job_id, one.job.uid, one.job.payload) for one in new))
        except (StorageUnavailable, StorageRefused) as away:
            return [
                self._kept(row, str(away), heals=True) if isinstance(one, NewJob) else one
                for row, one in zip(rows, decided, strict=True)
            ]
        return decided

    def not_created(self, row: Enqueued, new: NewJob, answer: Creation) -> Kept:
        match answer.outcome:
            case Created.KEY_TAKEN:
                return self._kept(row, f"job {answer.job_id} has the key {new.job.spec.key!r}", heals=True)
            case Created.OVER_QUOTA:
                try:
                    refuse_over_quota([new], [answer])
                except QuotaExceeded as exceeded:
                    return self._kept(row, str(exceeded), heals=True)
        return self._kept(row, "its idempotency key was used with another body", heals=False)

    def _kept(self, row: Enqueued, why: str, *, heals: bool) -> Kept:
        why = why[:LONGEST_WHY]
        if not heals:
            return Kept(why)
        if self._now - row.since >= self._timeout:
            return Kept(f"{why}; given up after {show_duration(self._timeout)}"[:LONGEST_WHY])
        return Kept(why, Instant(self._now + RETRY_INTERVAL))

    async def _decided(self, row: Enqueued) -> Decision:
        if row.seq in self._unstorable:
            return self._kept(row, self._unstorable[row.seq], heals=False)
        author, definitions = self._author(row)
        raw: dict[str, Any] = {**_decode(row.options), "task": row.task, "payload": _decode(row.payload)}
        spec, class_id, payload = await self._checked(row, raw, author, definitions)
        if self._crowded and spec.class_key in self._crowded:
            return self._kept(row, "its user has too many combinations of queue, labels and size", heals=True)
        recurring = spec.schedule.recurring
        job = Job(row.job_id, row.uid, spec, payload, created_at=row.at, updated_at=row.at)
        quota, defaults = self._intake.quota_of(author), self._intake.defaults
        new = new_job(job, class_id, row.at if recurring else self._now, quota, defaults)
        entry = AuditEntry(self._now, row.uid, None, CREATE, row.job_id, _detail(row.db_role))
        return msgspec.structs.replace(new, idempotency_key=row.idempotency_key, audit_entry=entry)

    def _author(self, row: Enqueued) -> tuple[UserWithRole, Definitions]:
        found = self._authors.get((row.uid, row.role))
        if found is None:
            author = UserWithRole(row.uid, row.user_id, row.role)
            found = self._authors[row.uid, row.role] = author, Definitions(self._intake, author, self._now, None)
        return found

    async def _checked(
        self, row: Enqueued, raw: dict[str, Any], author: UserWithRole, definitions: Definitions
    ) -> tuple[Spec, ClassId, bytes | None]:
        """Check a definition. Times in it are relative to when the row was written; without one it is due now."""
        if "schedule" not in raw:
            return await definitions.checked(raw)
        spec, payload = await checked(self._intake, raw, author, row.at, lookups=self._lookups)
        return spec, self._intake.class_id(spec.class_key), payload


def _may_fit_later(row: Enqueued, wrong: Invalid) -> bool:
    """Whether a worker that starts later may register a task that this job fits."""
    return all(
        one.code == "unknown_task" or (not row.require_task and one.path.partition(".")[0] == "payload")
        for one in wrong.problems
    )


@lru_cache(maxsize=1_024)
def _detail(db_role: str) -> bytes:
    return msgspec.json.encode({"db_role": db_role})
