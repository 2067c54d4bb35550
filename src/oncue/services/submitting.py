"""Create jobs for the owner of a run, as the run's code asks for them: inside a run the worker itself is the client.

The jobs get the rights of a member, whatever role created the job of the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec.structs import replace

from oncue.clock import Clock
from oncue.context import Submission
from oncue.domain.errors import Conflict, Invalid, KeyReused
from oncue.domain.ids import JobId, UserNumber, sequel, uuid7
from oncue.domain.instants import Instant
from oncue.domain.job import Job
from oncue.domain.run import Claimed
from oncue.engines.port import AuditEntry, Created, Creation, Engine, IdempotencyKey, NewJob, Role
from oncue.intake.context import Intake, UserWithRole
from oncue.intake.definitions import Definitions
from oncue.intake.large_values import LargeValues
from oncue.intake.new_jobs import CREATE, hints_of, new_job, refuse_over_quota
from oncue.services.changes import Changes
from oncue.settings import Settings
from oncue.storage.port import Storage

MOST = 10_000  # jobs at once
HASHED = 16  # bytes
REST_AFTER = 50  # jobs, then others in the loop go on

_decode = msgspec.json.Decoder(Submission).decode


class Submitting:
    """Checks and stores what runs of this worker ask for. All jobs of one call are stored, or none."""

    def __init__(self, engine: Engine, clock: Clock, settings: Settings, storage: Storage) -> None:
        self._engine = engine
        self._clock = clock
        self._large = LargeValues(engine, storage, clock, settings.inline_cap)
        self._intake = Intake(engine, clock, settings, self._large)
        self._changes = Changes(engine.signals, clock)
        self._names: dict[UserNumber, str] = {}

    async def submit(self, run: Claimed, asked: bytes) -> tuple[UUID, ...]:
        """Return the ids of the new jobs, or those of an earlier call with the same idempotency key.

        Invalid, Forbidden, QuotaExceeded, Conflict, KeyReused: nothing was stored.
        """
        try:
            wanted = _decode(asked)
        except (ValueError, RecursionError):
            raise Invalid.of("jobs", "wrong_type", "must be a list of jobs") from None
        if not 1 <= len(wanted.jobs) <= MOST:
            raise Invalid.of("jobs", "out_of_range", f"is a list of 1 to {MOST} jobs")
        now = self._clock.now()
        await self._intake.defaults.refresh()
        news = await self._checked(run, wanted, now)
        if wanted.idempotency_key is not None:
            key = IdempotencyKey(_hash(f"run {wanted.idempotency_key}".encode()), _hash(asked))
            news[0] = replace(news[0], idempotency_key=key)
        await self._large.save(*((new.job.job_id, run.uid, new.job.payload) for new in news))
        created = await self._engine.jobs.create(news, now, whole=True)
        for new, one in zip(news, created, strict=True):
            self._intake.learn(new.job.spec.class_key, one)
        if created[0].outcome is Created.REPEATED:
            return tuple(sequel(created[0].job_id, index) for index in range(len(created)))
        _refuse(created)
        refuse_over_quota(news, created)
        await self._engine.signals.send(hints_of(news, self._clock.now()))
        await self._changes.of([run.uid])
        return tuple(one.job_id for one in created)

    async def _checked(self, run: Claimed, wanted: Submission, now: Instant) -> list[NewJob]:
        author = UserWithRole(run.uid, await self._name(run.uid), Role.MEMBER)
        definitions, first = Definitions(self._intake, author, now, None), uuid7(now, secrets.token_bytes(8))
        detail, quota = msgspec.json.encode({"run_id": run.run_id}), self._intake.quota_of(author)
        news = list[NewJob]()
        for index, raw in enumerate(wanted.jobs):
            try:
                spec, class_id, payload = await definitions.checked(raw)
            except Invalid as wrong:
                raise (wrong if len(wanted.jobs) == 1 else wrong.under(f"jobs.{index}")) from None
            job_id = JobId(sequel(first, index))
            job = Job(job_id, run.uid, spec, payload, created_at=now, updated_at=now)
            new = new_job(job, class_id, now, quota, self._intake.defaults)
            news.append(replace(new, audit_entry=AuditEntry(now, run.uid, None, CREATE, job_id, detail)))
            if index % REST_AFTER == REST_AFTER - 1:
                await asyncio.sleep(0)
        return news

    async def _name(self, uid: UserNumber) -> str:
        if uid not in self._names:
            self._names |= await self._engine.accounts.names([uid])
        return self._names.get(uid, "")


def _refuse(created: Sequence[Creation]) -> None:
    for one in created:
        if one.outcome is Created.KEY_TAKEN:
            raise Conflict(f"Job {one.job_id} already has this key. Replace it with a client, or choose another key.")
        if one.outcome is Created.KEY_REUSED:
            raise KeyReused("This idempotency key was already used with other jobs. Use a new key.")


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HASHED).digest()
