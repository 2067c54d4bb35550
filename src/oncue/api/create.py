"""Create jobs: one, or a batch stored in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from http import HTTPStatus

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.audit import audit_entry
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.items import read_item, read_items
from oncue.api.http.reading import read_object
from oncue.api.http.tracing import trace_of
from oncue.api.jobs import shown
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import HEADER, BodyHash, idempotency_key_of, idempotency_key_with, refuse_reused
from oncue.api.shared.outcome import Changed, Interrupted, Outcome, Unlogged, outcome, unchanged
from oncue.domain.errors import Invalid, NotFound, Problem, TooManyClasses
from oncue.domain.fields import Reader, choice
from oncue.domain.ids import ClassId, JobId, sequel
from oncue.domain.instants import Instant
from oncue.domain.job import Job, Snapshot, Spec, WaitingRun
from oncue.engines.port import Created, NewJob
from oncue.intake.definitions import Definitions, Pace, checked, in_trace
from oncue.intake.new_jobs import CREATE, hints_of, new_job, refuse_over_quota
from oncue.intake.secrets import warnings_of
from oncue.metrics.table import ACCEPTED

DRY_RUN: Mapping[str, Reader] = {"dry_run": choice({"true": True, "false": False})}
LARGEST_BATCH = 10_000  # jobs
BATCH_BYTES = 64 * 1024 * 1024  # of a batch's body


async def create(api: Api, request: Request, caller: Caller) -> Outcome:
    """Store a job and its line in the audit log in one transaction."""
    dry = is_dry_run(request)
    raw, now = await read_object(request, api.largest_job), api.clock.now()
    api.live_workers.look()
    await api.intake.defaults.refresh()
    idempotency_key, job_id = idempotency_key_of(request, raw), JobId(api.new_id(now))
    spec, payload = await checked(api.intake, raw, caller, now)
    spec = in_trace(spec, trace_of(request))
    class_key = spec.class_key
    new = _made_of((spec, api.intake.class_id(class_key), payload), job_id, api, caller, now)
    warnings = warnings_of(api.intake, spec.task, raw.get("payload"))
    if dry:
        await rehearse(api, [new])
        warnings = [*warnings, *await api.live_workers.warnings(spec)]
        return unchanged(answer(views.job(as_stored(new), caller.user_id, None, warnings)))
    new = replace(new, idempotency_key=idempotency_key, audit_entry=audit_entry(CREATE, request, caller, job_id, now))
    await api.large.save((job_id, caller.uid, payload))
    try:
        created = await api.commits.store(new)
    except Exception as error:
        raise Interrupted(error, (), Unlogged.STORED) from error
    api.intake.learn(class_key, created)
    if created.outcome is not Created.NEW:
        refuse_reused(created)
        refuse_over_quota([new], [created])
    if created.outcome is Created.REPEATED:
        return unchanged(await _made_before(api, created.job_id, caller))
    api.numbers.add(ACCEPTED, "single")
    await api.engine.signals.send(hints_of([new], api.clock.now()))
    warnings = [*warnings, *await api.live_workers.warnings(spec)]
    headers = {"Location": f"/v1/jobs/{new.job.job_id}", "ETag": views.etag(new.job)}
    shown = answer(views.job(as_stored(new), caller.user_id, None, warnings), HTTPStatus.CREATED, headers)
    return Outcome(shown, (Changed(caller.uid, job_id),), Unlogged.STORED)


def is_dry_run(request: Request) -> bool:
    """Whether to check the request without storing anything."""
    return bool(request.scope["query_string"]) and bool(read_query(request, DRY_RUN).get("dry_run"))


async def rehearse(api: Api, news: Sequence[NewJob]) -> None:
    """Raise what storing these jobs would: a key is taken, or a quota used up."""
    with naming_jobs(news) if len(news) > 1 else nullcontext():
        answers = await api.engine.declaring.rehearse(news)
    refuse_reused(*answers)
    refuse_over_quota(news, answers)


async def _made_before(api: Api, job_id: JobId, caller: Caller) -> Response:
    snap = await api.engine.jobs.read(caller.uid, job_id)
    if snap is None:
        raise NotFound
    return await shown(api, snap, caller)


async def batch(api: Api, request: Request, caller: Caller) -> Outcome:
    """Store all jobs or none. The same idempotency key with the same body returns the ids of the first request.

    The key is stored with the first job, and the ids of the others derive from that job's id.
    """
    dry, now = is_dry_run(request), api.clock.now()
    api.live_workers.look()
    await api.intake.defaults.refresh()
    hashing = BodyHash("jobs") if HEADER in request.headers else None
    definitions = Definitions(api.intake, caller, now, trace_of(request))
    news = await _checked_jobs(api, definitions, await _wanted(request), caller, now, hashing)
    if dry:
        await rehearse(api, news)
        return unchanged(answer({"job_ids": [], "warnings": await _warnings(api, definitions, news)}))
    if hashing is not None:
        news[0] = replace(news[0], idempotency_key=idempotency_key_with(request, hashing.digest()))
    await api.large.save(*((new.job.job_id, caller.uid, new.job.payload) for new in news))
    with naming_jobs(news):
        created = await api.engine.jobs.create(news, now, whole=True)
    for new, one in zip(news, created, strict=True):
        api.intake.learn(new.job.spec.class_key, one)
    warnings = await _warnings(api, definitions, news)
    if created[0].outcome is Created.REPEATED:
        ids = [sequel(created[0].job_id, index) for index in range(len(created))]
        return unchanged(answer({"job_ids": ids, "warnings": warnings}))
    refuse_reused(*created)
    refuse_over_quota(news, created)
    api.numbers.add(ACCEPTED, "batch", n=len(created))
    await api.engine.signals.send(hints_of(news, api.clock.now()))
    made = {"job_ids": [one.job_id for one in created], "warnings": warnings}
    return outcome(answer(made, HTTPStatus.CREATED), (Changed(caller.uid, jobs=True),))


async def _warnings(api: Api, definitions: Definitions, news: Sequence[NewJob]) -> list[Mapping[str, str]]:
    unserved = await api.live_workers.of_many((index, new.job.spec) for index, new in enumerate(news))
    return [*definitions.warnings, *unserved]


async def _wanted(request: Request) -> list[msgspec.Raw]:
    jobs = await read_items(request, "jobs", BATCH_BYTES)
    if not 1 <= len(jobs) <= LARGEST_BATCH:
        raise Invalid.of("jobs", "out_of_range", f"is a list of 1 to {LARGEST_BATCH} jobs")
    return jobs


async def _checked_jobs(
    api: Api,
    definitions: Definitions,
    wanted: list[msgspec.Raw],
    caller: Caller,
    now: Instant,
    hashing: BodyHash | None,
) -> list[NewJob]:
    """Return all jobs, or report what is wrong with any of them. Yields to other requests meanwhile."""
    first = api.new_id(now)
    problems, news, pace = list[Problem](), list[NewJob](), Pace(api.clock)
    for index, raw in enumerate(wanted):
        try:
            job = await read_item(raw)
            found = await definitions.checked(job)
            news.append(_made_of(found, JobId(sequel(first, index)), api, caller, now))
            definitions.warn(found[0].task, job, index)
            if hashing is not None:
                hashing.add(job)
        except Invalid as wrong:
            problems += wrong.under(f"jobs.{index}").problems
        if not await pace.goes_on(problems):
            break
    if problems:
        raise Invalid(*problems)
    return news


def _made_of(
    found: tuple[Spec, ClassId, bytes | None], job_id: JobId, api: Api, caller: Caller, now: Instant
) -> NewJob:
    spec, class_id, payload = found
    job = Job(job_id, caller.uid, spec, payload, created_at=now, updated_at=now)
    return new_job(job, class_id, now, api.intake.quota_of(caller), api.intake.defaults)


@contextmanager
def naming_jobs(new: Sequence[NewJob]) -> Iterator[None]:
    """Name the job that was refused a class, if there are several."""
    try:
        yield
    except TooManyClasses as error:
        refused = next(index for index, one in enumerate(new) if one.job.spec.class_key == error.key)
        error.path = f"jobs.{refused}.{error.path}"
        raise


def as_stored(new: NewJob) -> Snapshot:
    """Build the job as reading it back would return it, without a query."""
    run = new.run
    waiting = () if run is None else (WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=True),)
    return Snapshot(new.job, new.class_id, new.cursor, waiting)
