"""Edit some fields of a job, or replace the whole job by its key."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.create import as_stored, is_dry_run, rehearse
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_object
from oncue.api.http.tracing import trace_of
from oncue.api.jobs import changed_by, path_key, shown, snapshot
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Outcome, outcome, unchanged
from oncue.domain import change
from oncue.domain.edits import changed
from oncue.domain.errors import Invalid, ObjectLost, Problem, Stale
from oncue.domain.ids import ClassId, JobId, created_at
from oncue.domain.instants import Instant
from oncue.domain.job import Job, JobStatus, Snapshot, Spec, definition_of
from oncue.domain.schedule import KINDS, rescheduled
from oncue.engines.port import Created
from oncue.intake.definitions import checked, in_trace
from oncue.intake.edits import decide, in_step, is_so, is_stored, store_edit, until_settled
from oncue.intake.new_jobs import hints_of, new_job, refuse_over_quota
from oncue.intake.secrets import Warnings, warnings_of
from oncue.metrics.table import ACCEPTED
from oncue.shapes.jobs import READ_ONLY

NOTHING = object()
LOST = "is no longer in object storage, or is damaged there; send it again"
# These change on their own: a client sends back an earlier value.
TOLD = ("next_run_at", "last_run", "recent", "large", "warnings")
KEPT = tuple(name for name in READ_ONLY if name not in TOLD)  # may be sent back unchanged


async def edit(api: Api, request: Request, caller: Caller) -> Outcome:
    """Edit a job, for every occurrence that has not started. Fields that the request does not name stay unchanged."""
    check_match(request, (await snapshot(api, request, caller)).job)
    raw = await read_object(request, api.largest_job)

    async def attempt() -> Outcome | None:
        snap, now = await snapshot(api, request, caller), api.clock.now()
        check_match(request, snap.job)
        change.edit(snap, snap.job.spec, snap.job.payload, snap.class_id, now)  # Conflict: too late for any edit
        spec, payload = await edited_definition(api, snap, raw, caller, now)
        stored = await store_edit(api.intake, snap, (in_trace(spec, trace_of(request)), payload), caller, now)
        if stored is None:
            return None
        warnings = await _warnings(api, snap, spec, raw)
        return outcome(await shown(api, stored, caller, warnings), changed_by(snap, stored))

    return await until_settled(api.clock, attempt)


async def put(api: Api, request: Request, caller: Caller) -> Outcome:
    """Give the caller's job with this key this definition: create it, change it, or leave it if it is equal.

    A cancelled job is created again. A finished job is created again only if the definition differs: sending the same
    definition again runs nothing twice.
    """
    key, dry = path_key(api, request), is_dry_run(request)
    raw = {"key": key} | await read_object(request, api.largest_job)
    if raw["key"] != key:
        raise Invalid.of("key", "not_the_key", "differs from the key in the path; leave it out, or send the same key")
    return await until_settled(api.clock, lambda: _put(api, request, raw, caller, dry=dry))


async def _put(api: Api, request: Request, raw: dict[str, Any], caller: Caller, *, dry: bool) -> Outcome | None:
    """None: the job changed meanwhile, or another request created it first."""
    now = api.clock.now()
    holder = await api.engine.jobs.keyed(caller.uid, raw["key"])
    snap = None if holder is None else await api.engine.jobs.read(caller.uid, holder.job_id)
    check_match(request, None if snap is None else snap.job)
    _check_absent(request, None if snap is None else snap.job)
    spec, payload = await _replacing(api, snap, raw, caller, now)
    spec = in_trace(spec, trace_of(request))
    if snap is None and holder is not None and holder.definition == definition_of(spec, payload):
        return unchanged(_forgotten(holder.job_id, spec, payload, caller))
    warnings = await _warnings(api, snap, spec, raw)
    kept = spec if snap is None else in_step(snap.job.spec, spec)
    if snap is None or _is_over(snap.job, kept, payload):
        job = Job(JobId(api.new_id(now)), caller.uid, spec, payload, now, now)
        return await _made(api, job, caller, now, warnings, dry=dry)
    if await is_stored(api.intake, snap.job, kept, payload):
        return unchanged(await shown(api, snap, caller, warnings))
    if dry:
        return unchanged(await _tried(api, snap, (kept, payload), caller, now, warnings))
    stored = await store_edit(api.intake, snap, (kept, payload), caller, now)
    if stored is None:
        return None
    return outcome(await shown(api, stored, caller, warnings), changed_by(snap, stored))


async def _warnings(api: Api, snap: Snapshot | None, spec: Spec, raw: dict[str, Any]) -> Warnings:
    """Warn also that no live worker can run the job, if it is new or would be for other workers."""
    warnings = warnings_of(api.intake, spec.task, raw.get("payload"))
    if snap is not None and snap.job.spec.class_key == spec.class_key:
        return warnings
    return [*warnings, *await api.live_workers.warnings(spec)]


def check_match(request: Request, job: Job | None) -> None:
    """Stale: the caller means another version than the current one, or another job that had the key."""
    asked = request.headers.get("if-match")
    if asked is None:
        return
    if job is None:
        raise Stale("No job has this key yet. Leave out If-Match to create it.")
    if not _tags(asked) & {"*", views.etag(job), f'"{job.version}"'}:
        raise Stale(f"This job now has version {job.version}. Read it again before you change it.")


def _check_absent(request: Request, job: Job | None) -> None:
    """Stale: the caller wants to create the job, and an active or paused one has the key."""
    wanted = "*" in _tags(request.headers.get("if-none-match", ""))
    if wanted and job is not None and job.status in (JobStatus.ACTIVE, JobStatus.PAUSED):
        raise Stale(f"Job {job.job_id} already has this key. Leave out If-None-Match to replace it.")


def _tags(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",")}


def _without_time(there: dict[str, Any], given: Any) -> list[Problem]:
    """Refuse an object that says no time, such as a zone alone: a recurring job would run now, and only once."""
    if not isinstance(given, dict) or not given or KINDS.isdisjoint(there) or not KINDS.isdisjoint(given):
        return []
    message = 'says no time, and an object replaces the schedule whole; add cron, every, at or calendar, or send "now"'
    return [Problem("schedule", "says_no_time", message)]


async def edited_definition(
    api: Api, snap: Snapshot, raw: dict[str, Any], caller: Caller, now: Instant
) -> tuple[Spec, bytes | None]:
    """Return the definition with these fields changed, validated as a whole, like that of a new job."""
    job = snap.job
    there = await _as_shown(api, snap, caller)
    given, problems = _own_fields(raw, there)
    if "payload" not in given:
        there["payload"] = await _kept_payload(api, job)
    if "key" in given and given["key"] != job.spec.key:
        message = "cannot be changed; create another job with PUT /v1/jobs/by-key/{key}"
        problems.append(Problem("key", "read_only", message))
    if "schedule" in given:
        problems += _without_time(there["schedule"], given["schedule"])
        given["schedule"] = rescheduled(there["schedule"], given["schedule"])
    try:
        owner = None if job.uid == caller.uid else there["user_id"]
        spec, payload = await checked(api.intake, _own_fields(there, there)[0] | given, caller, now, owner)
    except Invalid as wrong:
        problems += wrong.problems
    if problems:
        raise Invalid(*problems)
    changed = {name: getattr(spec, name) for name in given if name != "payload"}
    if given.keys() & {"payload", "task"}:
        changed["secrets"] = spec.secrets
    return in_step(job.spec, replace(job.spec, **changed)), payload if "payload" in given else job.payload


async def _replacing(
    api: Api, snap: Snapshot | None, raw: dict[str, Any], caller: Caller, now: Instant
) -> tuple[Spec, bytes | None]:
    """Return the definition that this request asks for, whatever the previous one was."""
    if snap is None:
        return await checked(api.intake, raw, caller, now)
    given, problems = _own_fields(raw, await _as_shown(api, snap, caller))
    if problems:
        raise Invalid(*problems)
    if raw.get("large") and "payload" not in given:
        given["payload"] = await _kept_payload(api, snap.job)
    return await checked(api.intake, given, caller, now)


async def _kept_payload(api: Api, job: Job) -> Any:
    try:
        return msgspec.json.decode(await api.large.read(job.payload) or b"null")
    except ObjectLost:
        raise Invalid.of("payload", "lost", LOST) from None


async def _as_shown(api: Api, snap: Snapshot, caller: Caller) -> dict[str, Any]:
    """The job as its owner reads it, so that a client can send back what it read."""
    shown = views.job(snap, await api.owner_of(snap.job.uid, caller), None)
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shown))
    return found


def _own_fields(raw: dict[str, Any], there: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the fields that define a job, without read-only ones; a read-only field with another value is refused."""
    problems = [
        Problem(name, "read_only", "is read-only; leave it out, or send the value that was read")
        for name in KEPT
        if name in raw and raw[name] != there[name]
    ]
    given = {name: value for name, value in raw.items() if name not in (*KEPT, *TOLD)}
    if raw.get("large") and given.get("payload", NOTHING) is None:
        del given["payload"]  # it was too large for the answer that is sent back here
    return given, problems


async def _tried(
    api: Api,
    snap: Snapshot,
    wanted: tuple[Spec, bytes | None],
    caller: Caller,
    now: Instant,
    warnings: Warnings,
) -> Response:
    """Return the job as it would be with this definition."""
    decided = decide(api.intake, snap, wanted, now)
    await api.engine.declaring.rehearse([], [decided], api.intake.quota_of(caller))
    return await shown(api, changed(snap, decided), caller, warnings)


def _is_over(job: Job, spec: Spec, payload: bytes | None) -> bool:
    """Whether a new job takes its place."""
    if job.status is JobStatus.FINISHED:
        return not is_so(job, spec, payload)
    return job.status is JobStatus.CANCELLED


def _forgotten(job_id: JobId, spec: Spec, payload: bytes | None, caller: Caller) -> Response:
    """Answer for a one-shot that finished so long ago that only its key is left: it had this definition."""
    made = created_at(job_id)
    job = Job(job_id, caller.uid, spec, payload, made, made, status=JobStatus.FINISHED)
    shown = views.job(Snapshot(job, ClassId(0), cursor=None), caller.user_id, None)
    return answer(shown, headers={"ETag": views.etag(job)})


async def _made(api: Api, job: Job, caller: Caller, now: Instant, warnings: Warnings, *, dry: bool) -> Outcome | None:
    """None: another request created a job with this key first."""
    intake = api.intake
    await intake.defaults.refresh()
    made = new_job(job, intake.class_id(job.spec.class_key), now, intake.quota_of(caller), intake.defaults)
    new = replace(made, applied=True)
    if dry:
        await rehearse(api, [new])
        return unchanged(answer(views.job(as_stored(new), caller.user_id, None, warnings)))
    await api.large.save((job.job_id, job.uid, job.payload))
    created = await api.commits.store(new)
    intake.learn(job.spec.class_key, created)
    refuse_over_quota([new], [created])
    if created.outcome is not Created.NEW:
        return None
    api.numbers.add(ACCEPTED, "apply")
    await api.engine.signals.send(hints_of([new], api.clock.now()))
    headers = {"Location": f"/v1/jobs/{job.job_id}", "ETag": views.etag(job)}
    shown = answer(views.job(as_stored(new), caller.user_id, None, warnings), HTTPStatus.CREATED, headers)
    return outcome(shown, (Changed(job.uid, job.job_id),))
