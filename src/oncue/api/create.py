"""Create jobs: one, or a batch stored in one transaction. Validate definitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.audit import audit_entry
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller, forbidden
from oncue.api.http.items import read_item, read_items
from oncue.api.http.reading import read_object
from oncue.api.http.tracing import trace_of
from oncue.api.jobs import shown
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import HEADER, BodyHash, idempotency_key_of, idempotency_key_with, refuse_reused
from oncue.api.shared.outcome import Changed, Interrupted, Outcome, Unlogged, outcome, unchanged
from oncue.api.shared.payloads import beside_others, payload_alone, problems_with
from oncue.api.shared.secrets import warnings_of, with_access
from oncue.api.shared.task_registry import defaults_of
from oncue.domain import change
from oncue.domain.definition import MOST_PROBLEMS, define
from oncue.domain.errors import Invalid, NotFound, Problem, TooManyClasses
from oncue.domain.fields import Reader, choice
from oncue.domain.ids import ClassId, JobId, sequel
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.job import Job, Snapshot, Spec, WaitingRun
from oncue.domain.notices import late_notices
from oncue.domain.notify import refused
from oncue.domain.plain_text import printable
from oncue.domain.quota import exceeded
from oncue.domain.reference import size_of
from oncue.domain.trace import Trace
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Created, Creation, Hint, NewJob, Quota, Role, Task, Topic, Usage
from oncue.metrics.table import ACCEPTED

DRY_RUN: Mapping[str, Reader] = {"dry_run": choice({"true": True, "false": False})}
CREATE = "job.create"  # its name in the audit log
FAR_OFF = Duration(10 * SECOND)  # schedulers and workers poll sooner than this, without a hint
LARGEST_BATCH = 10_000  # jobs
BATCH_BYTES = 64 * 1024 * 1024  # of a batch's body
TURN = Duration(5 * MILLISECOND)  # other requests wait at most this long for a large batch


async def create(api: Api, request: Request, caller: Caller) -> Outcome:
    """Store a job and its line in the audit log in one transaction."""
    dry = is_dry_run(request)
    raw, now = await read_object(request, api.largest_job), api.clock.now()
    await api.defaults.refresh()
    idempotency_key, job_id = idempotency_key_of(request, raw), JobId(api.new_id(now))
    spec, payload = await checked(api, raw, caller, now)
    spec = in_trace(spec, trace_of(request))
    class_key = spec.class_key
    new = _made_of((spec, api.class_id(class_key), payload), job_id, api, caller, now)
    warnings = warnings_of(api, spec.task, raw.get("payload"))
    if dry:
        await rehearse(api, [new])
        return unchanged(answer(views.job(as_stored(new), caller.user_id, None, warnings)))
    new = replace(new, idempotency_key=idempotency_key, audit_entry=audit_entry(CREATE, request, caller, job_id, now))
    await api.large.save((job_id, caller.uid, payload))
    try:
        created = await api.commits.store(new)
    except Exception as error:
        raise Interrupted(error, (), Unlogged.STORED) from error
    api.learn(class_key, created)
    if created.outcome is not Created.NEW:
        refuse_reused(created)
        refuse_over_quota([new], [created])
    if created.outcome is Created.REPEATED:
        return unchanged(await _made_before(api, created.job_id, caller))
    api.numbers.add(ACCEPTED, "single")
    if (hint := hint_of(new)).due is None or hint.due < now + FAR_OFF:
        await api.engine.signals.send([hint])
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
    await api.defaults.refresh()
    hashing = BodyHash("jobs") if HEADER in request.headers else None
    definitions = Definitions(api, caller, now, trace_of(request))
    news = await _checked_jobs(api, definitions, await _wanted(request), caller, now, hashing)
    if dry:
        await rehearse(api, news)
        return unchanged(answer({"job_ids": [], "warnings": definitions.warnings}))
    if hashing is not None:
        news[0] = replace(news[0], idempotency_key=idempotency_key_with(request, hashing.digest()))
    await api.large.save(*((new.job.job_id, caller.uid, new.job.payload) for new in news))
    with naming_jobs(news):
        created = await api.engine.jobs.create(news, now, whole=True)
    for new, one in zip(news, created, strict=True):
        api.learn(new.job.spec.class_key, one)
    if created[0].outcome is Created.REPEATED:
        ids = [sequel(created[0].job_id, index) for index in range(len(created))]
        return unchanged(answer({"job_ids": ids, "warnings": definitions.warnings}))
    refuse_reused(*created)
    refuse_over_quota(news, created)
    api.numbers.add(ACCEPTED, "batch", n=len(created))
    await api.engine.signals.send(_hints(news))
    made = {"job_ids": [one.job_id for one in created], "warnings": definitions.warnings}
    return outcome(answer(made, HTTPStatus.CREATED), (Changed(caller.uid, jobs=True),))


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
    problems, news, rested = list[Problem](), list[NewJob](), api.clock.monotonic()
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
    return new_job(job, class_id, now, api.quota_of(caller), api.defaults)


def _hints(news: list[NewJob]) -> list[Hint]:
    """Of each topic, the earliest hint."""
    first: dict[Topic, Hint] = {}
    for found in map(hint_of, news):
        known = first.get(found.topic)
        if known is None or (known.due is not None and (found.due is None or found.due < known.due)):
            first[found.topic] = found
    return list(first.values())


def refuse_over_quota(new: Sequence[NewJob], created: Sequence[Creation]) -> None:
    """Raise QuotaExceeded if some of these jobs exceed a quota. Of several, stored all or none, none was stored."""
    refused = next((index for index, one in enumerate(created) if one.outcome is Created.OVER_QUOTA), None)
    if refused is None:
        return
    job, used = new[refused], created[refused].used
    assert job.quota is not None
    assert used is not None
    fitting = [index for index, one in enumerate(created) if one.outcome is Created.NEW]
    before = [_size(new[index]) for index in fitting if index < refused]
    had = Usage(used.jobs - len(before), used.payload - sum(size.payload for size in before))
    told = "" if len(new) == 1 else f"; {len(fitting)} of these {len(new)} would fit"
    error = exceeded(job.quota, used, _size(job), had, told)
    if len(new) > 1 and error.path:
        error.path = f"jobs.{refused}.{error.path}"
    raise error


@contextmanager
def naming_jobs(new: Sequence[NewJob]) -> Iterator[None]:
    """Name the job that was refused a class, if there are several."""
    try:
        yield
    except TooManyClasses as error:
        refused = next(index for index, one in enumerate(new) if one.job.spec.class_key == error.key)
        error.path = f"jobs.{refused}.{error.path}"
        raise


def _size(job: NewJob) -> Usage:
    return Usage(1, size_of(job.job.payload))


async def checked(
    api: Api,
    raw: dict[str, Any],
    caller: Caller,
    now: Instant,
    owner: str | None = None,
    lookups: int | None = None,
) -> tuple[Spec, bytes | None]:
    """Return the definition if all of it is valid; else raise all its problems at once.

    Its payload is as it will be stored: call `api.large.save` before that. `lookups`: see `TaskRegistry.find`.
    """
    name = raw.get("task")
    task = await api.task_registry.find(name, lookups) if isinstance(name, str) else None
    if task is not None and caller.role not in task.roles:
        raise forbidden(f"Task {printable(task.name)!r} needs a key with one of these roles: {', '.join(task.roles)}.")
    spec, payload = await beside_others(raw.get("payload"), lambda: _defined(api, raw, task, caller, now))
    return with_access(api, spec, payload, caller, owner), await api.large.referred(payload, caller.uid)


def _defined(
    api: Api, raw: dict[str, Any], task: Task | None, caller: Caller, now: Instant
) -> tuple[Spec, bytes | None]:
    problems: list[Problem] = []
    try:
        spec, payload = define(raw, {} if task is None else defaults_of(task), now, api.limits)
        problems += refused(spec.notify or (), api.notify_policy, "notify", anybody=caller.role is Role.ADMIN)
    except Invalid as wrong:
        problems += wrong.problems
    named = {problem.path.partition(".")[0] for problem in problems}
    if task is None and "task" not in named:
        message = "is not registered; check the spelling, or start a worker that has this task"
        problems.append(Problem("task", "unknown_task", message))
    if task is not None and "payload" not in named:
        problems += problems_with(api, task, raw.get("payload") or {})
    if problems:
        raise Invalid(*problems)
    return spec, payload


def in_trace(spec: Spec, trace: Trace | None) -> Spec:
    """Return the definition with the trace context of the request that sent it, if it has one."""
    return spec if trace is None else replace(spec, trace=trace)


class Definitions:
    """Validates one caller's definitions one after the other. If a definition differs from the previous one in its
    payload only, as most do in a batch, only the payload is checked.
    """

    def __init__(self, api: Api, caller: Caller, now: Instant, trace: Trace | None) -> None:
        self._api = api
        self._caller = caller
        self._now = now
        self._trace = trace
        self._lookups = api.task_registry.lookups
        self._before: tuple[bytes, Task, Spec, ClassId] | None = None
        self.warnings: list[Mapping[str, str]] = []

    def warn(self, task: str, raw: dict[str, Any], index: int) -> None:
        """Note what is accepted and should not stay so."""
        if len(self.warnings) < MOST_PROBLEMS:
            self.warnings += warnings_of(self._api, task, raw.get("payload"), f"jobs.{index}.")

    async def checked(self, raw: Any) -> tuple[Spec, ClassId, bytes | None]:
        """Return the definition, the number of its class if that is cached, and the payload."""
        if not isinstance(raw, dict):
            raise Invalid.of("", "wrong_type", 'is an object like {"task": "send_email"}')
        rest = _encode({name: value for name, value in raw.items() if name != "payload"})
        if self._before is not None and self._before[0] == rest:
            _, task, spec, class_id = self._before
            given = raw.get("payload")
            payload = await beside_others(given, lambda: payload_alone(self._api, task, given))
            spec = with_access(self._api, spec, payload, self._caller)
            return spec, class_id, await self._api.large.referred(payload, self._caller.uid)
        spec, payload = await checked(self._api, raw, self._caller, self._now, lookups=self._lookups)
        spec = in_trace(spec, self._trace)
        class_id, found = self._api.class_id(spec.class_key), await self._api.task_registry.find(spec.task)
        self._before = None if found is None else (rest, found, spec, class_id)
        return spec, class_id, payload


def _encode(raw: dict[str, Any]) -> bytes:
    """Encode a definition for comparison. Unlike the values themselves, 1 and true differ when encoded."""
    try:
        return msgspec.json.encode(raw)
    except UnicodeEncodeError:  # not storable text: its validation reports it
        return b""


def new_job(job: Job, class_id: ClassId, now: Instant, quota: Quota | None, defaults: KnownDefaults) -> NewJob:
    if job.spec.schedule.recurring:
        return NewJob(job, class_id, cursor=change.first_cursor(job.spec.schedule, now), quota=quota)
    run = change.only_run(job, class_id, now)
    late = late_notices(run, job.spec, defaults.of(job.uid), defaults.rate)
    return NewJob(job, class_id, run=run, quota=quota, notices=late)


def hint_of(new: NewJob) -> Hint:
    if new.run is not None:
        return Hint(Topic.RUNS, due=new.run.wanted)
    return Hint(Topic.JOBS, due=new.cursor.next_at if new.cursor else None)


def as_stored(new: NewJob) -> Snapshot:
    """Build the job as reading it back would return it, without a query."""
    run = new.run
    waiting = () if run is None else (WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=True),)
    return Snapshot(new.job, new.class_id, new.cursor, waiting)
