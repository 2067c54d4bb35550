"""Making jobs: one at a time, or many that are stored all or none."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.answers import answer
from oncue.api.audit import audit_entry
from oncue.api.auth import Caller
from oncue.api.changes import Changed
from oncue.api.context import Api
from oncue.api.defining import Definitions, as_stored, checked, hint_of, new_job
from oncue.api.idempotency import HEADER, BodyHash, idempotency_key_of, idempotency_key_with, refuse_reused
from oncue.api.items import read_item, read_items
from oncue.api.jobs import shown
from oncue.api.outcome import Interrupted, Outcome, Unlogged, outcome, unchanged
from oncue.api.quotas import naming_jobs, refuse_over_quota
from oncue.api.reading import read_object
from oncue.domain.definition import MOST_PROBLEMS
from oncue.domain.errors import Invalid, NotFound, Problem
from oncue.domain.ids import ClassId, JobId, sequel
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.job import Job, Spec
from oncue.engines.port import Created, Hint, NewJob, Topic

CREATE = "job.create"  # as the audit log calls it
FAR_OFF = Duration(10 * SECOND)  # whoever plans and runs jobs looks by itself before that
LARGEST_BATCH = 10_000
BATCH_BYTES = 64 * 1024 * 1024
TURN = Duration(5 * MILLISECOND)  # so long others wait for one who has a large batch


async def create(api: Api, request: Request, caller: Caller) -> Outcome:
    """Stored with its line in the audit log, both or none."""
    raw, now = await read_object(request), api.clock.now()
    idempotency_key, job_id = idempotency_key_of(request, raw), JobId(api.new_id(now))
    spec, payload = await checked(api, raw, caller, now)
    new = _made_of((spec, api.class_id(spec.class_key), payload), job_id, api, caller, now)
    new = replace(new, idempotency_key=idempotency_key, audit_entry=audit_entry(CREATE, request, caller, job_id, now))
    try:
        created = await api.commits.store(new)
    except Exception as error:
        raise Interrupted(error, (), Unlogged.STORED) from error
    api.learn(spec.class_key, created)
    if created.outcome is not Created.NEW:
        refuse_reused(created)
        refuse_over_quota([new], [created])
    if created.outcome is Created.REPEATED:
        return unchanged(await _made_before(api, created.job_id, caller))
    if (hint := hint_of(new)).due is None or hint.due < now + FAR_OFF:
        await api.engine.signals.send([hint])
    headers = {"Location": f"/v1/jobs/{new.job.job_id}", "ETag": views.etag(new.job)}
    shown = answer(views.job(as_stored(new), caller.user_id, None), HTTPStatus.CREATED, headers)
    return Outcome(shown, (Changed(caller.uid, job_id),), Unlogged.STORED)


async def _made_before(api: Api, job_id: JobId, caller: Caller) -> Response:
    snap = await api.engine.jobs.read(caller.uid, job_id)
    if snap is None:
        raise NotFound
    return await shown(api, snap, caller)


async def batch(api: Api, request: Request, caller: Caller) -> Outcome:
    """All or nothing. The same idempotency key and body again: the ids of the first time.

    The key is stored with the first job, and from its id those of the others follow.
    """
    now = api.clock.now()
    hashing = BodyHash("jobs") if HEADER in request.headers else None
    news = await _checked_jobs(api, await _wanted(request), caller, now, hashing)
    if hashing is not None:
        news[0] = replace(news[0], idempotency_key=idempotency_key_with(request, hashing.digest()))
    with naming_jobs(news):
        created = await api.engine.jobs.create(news, now, whole=True)
    for new, one in zip(news, created, strict=True):
        api.learn(new.job.spec.class_key, one)
    if created[0].outcome is Created.REPEATED:
        return unchanged(answer({"job_ids": [sequel(created[0].job_id, index) for index in range(len(created))]}))
    refuse_reused(*created)
    refuse_over_quota(news, created)
    await api.engine.signals.send(_hints(news))
    made = answer({"job_ids": [one.job_id for one in created]}, HTTPStatus.CREATED)
    return outcome(made, (Changed(caller.uid, jobs=True),))


async def _wanted(request: Request) -> list[msgspec.Raw]:
    jobs = await read_items(request, "jobs", BATCH_BYTES)
    if not 1 <= len(jobs) <= LARGEST_BATCH:
        raise Invalid.of("jobs", "out_of_range", f"is a list of 1 to {LARGEST_BATCH} jobs")
    return jobs


async def _checked_jobs(
    api: Api, wanted: list[msgspec.Raw], caller: Caller, now: Instant, hashing: BodyHash | None
) -> list[NewJob]:
    """All of them, or what is wrong with any. Others have their turns meanwhile."""
    definitions, first = Definitions(api, caller, now), api.new_id(now)
    problems, news, rested = list[Problem](), list[NewJob](), api.clock.monotonic()
    for index, raw in enumerate(wanted):
        try:
            job = await read_item(raw)
            found = await definitions.checked(job)
            news.append(_made_of(found, JobId(sequel(first, index)), api, caller, now))
            if hashing is not None:
                hashing.add(job)
        except Invalid as wrong:
            problems += wrong.under(f"jobs.{index}").problems
        if len(problems) >= MOST_PROBLEMS:
            break
        if api.clock.monotonic() - rested > TURN:
            await asyncio.sleep(0)
            rested = api.clock.monotonic()
    if problems:
        raise Invalid(*problems[:MOST_PROBLEMS])
    return news


def _made_of(
    found: tuple[Spec, ClassId, bytes | None], job_id: JobId, api: Api, caller: Caller, now: Instant
) -> NewJob:
    spec, class_id, payload = found
    job = Job(job_id, caller.uid, spec, payload, created_at=now, updated_at=now)
    return new_job(job, class_id, now, api.quota_of(caller))


def _hints(news: list[NewJob]) -> list[Hint]:
    """Of each topic the earliest."""
    first: dict[Topic, Hint] = {}
    for found in map(hint_of, news):
        known = first.get(found.topic)
        if known is None or (known.due is not None and (found.due is None or found.due < known.due)):
            first[found.topic] = found
    return list(first.values())
