"""Decide what becomes of rows of the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from oncue.domain.errors import (
    Forbidden,
    Invalid,
    QuotaExceeded,
    StorageRefused,
    StorageUnavailable,
)
from oncue.domain.ids import ClassId, RunId, UserNumber
from oncue.domain.instants import SECOND, Duration, Instant, show_duration
from oncue.domain.job import Job, Spec
from oncue.domain.lane import FREE
from oncue.domain.schedule import Schedule
from oncue.domain.secret_refs import may_name_any
from oncue.engines.outbox_values import Decision, Enqueued, Kept
from oncue.engines.port import AuditEntry, Created, Creation, NewJob, Role, Task
from oncue.intake.context import Intake, UserWithRole
from oncue.intake.definitions import Definitions, checked
from oncue.intake.new_jobs import CREATE, new_job, refuse_over_quota
from oncue.intake.payloads import payload_alone

RETRY_INTERVAL = Duration(10 * SECOND)  # of a row that may still become a job
LONGEST_WHY = 2_000  # characters

SMALL = 8_192  # characters of a payload that is checked without giving way to others
BETWEEN_TURNS = 200  # rows: others in this process wait a few milliseconds
NOW = Schedule()

_Kind: TypeAlias = tuple[UserNumber, Role, str, str, str]  # author, database role, task and options
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
        self._models: dict[_Kind, tuple[Task, NewJob]] = {}
        self.last: Enqueued | None = None  # that was decided about

    async def decide(self, rows: Sequence[Enqueued]) -> list[Decision]:
        decided: list[Decision] = []
        for place, row in enumerate(rows, 1):
            self.last = row
            if place % BETWEEN_TURNS == 0:
                await asyncio.sleep(0)
            try:
                decided.append(self._like_others(row) or await self._decided(row))
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

    def _like_others(self, row: Enqueued) -> NewJob | None:
        """Return the job of a row that differs in its payload only from one before. None: it has to be looked at."""
        found = self._models.get((row.uid, row.role, row.db_role, row.task, row.options))
        if found is None or len(row.payload) > SMALL or row.seq in self._unstorable:
            return None
        task, model = found
        payload = payload_alone(self._intake, task, _decode(row.payload))
        if payload is None or may_name_any(payload) or not self._intake.large.is_inline(payload):
            return None
        assert model.run is not None
        assert model.audit_entry is not None
        return NewJob(
            Job(row.job_id, row.uid, model.job.spec, payload, created_at=row.at, updated_at=row.at),
            model.class_id,
            replace(model.run, run_id=RunId(row.job_id), job_id=row.job_id, payload=payload),
            idempotency_key=row.idempotency_key,
            audit_entry=replace(model.audit_entry, object_id=row.job_id),
            quota=model.quota,
        )

    async def _note(self, row: Enqueued, new: NewJob) -> None:
        """Remember a job whose run says nothing of its own but its payload: no time, no secret, no notice, no lane."""
        spec, task = new.job.spec, await self._intake.task_registry.find(row.task)
        lanes_or_notices = new.run is None or new.run.lanes is not FREE or new.notices
        if task is not None and not lanes_or_notices and spec.secrets is None and spec.schedule == NOW:
            self._models[row.uid, row.role, row.db_role, row.task, row.options] = task, new

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
        new = replace(new, idempotency_key=row.idempotency_key, audit_entry=entry)
        await self._note(row, new)
        return new

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
