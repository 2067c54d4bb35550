"""Calls on jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Unpack
from uuid import UUID

import msgspec

from oncue.client import fleet
from oncue.client.asking import Asker, Exchange, ask
from oncue.client.call import Call, Id, Page, Parse, change, field, get, given, make, model, nothing, page_of, path
from oncue.shapes.applied import Applied
from oncue.shapes.jobs import Explanation, Job, JobFields, JobState, JobStats, Length, Occurrence, Preview, When
from oncue.shapes.overview import OccurrenceHeat
from oncue.shapes.runs import Run
from oncue.shapes.versions import EditPreview, JobVersion

T = TypeVar("T")

APPLIED_WITHIN = 600.0  # seconds: a set may have 10,000 jobs, each changed by itself

_job: Parse[Job] = model(Job)
_ids: Parse[tuple[UUID, ...]] = field("job_ids", tuple[UUID, ...])
_run_ids: Parse[tuple[UUID, ...]] = field("run_ids", tuple[UUID, ...])


def create(*, idempotency_key: str | None = None, dry_run: bool = False, **fields: Unpack[JobFields]) -> Call[Job]:
    """Create a job. Only `task` is required; without a schedule it runs now. With `dry_run` nothing is created: the
    answer is the job as it would be, or what is wrong with it.

    Automatic retries create one job only. With an `idempotency_key` of your own, this also holds when you repeat the
    call yourself, for instance after a crash.
    """
    return _dry(make(path("jobs"), _job, _sent(fields), idempotency_key), dry_run)


def create_many(
    jobs: Iterable[JobFields], *, idempotency_key: str | None = None, dry_run: bool = False
) -> Call[tuple[UUID, ...]]:
    """Create up to 10,000 jobs in one transaction. Returns their ids in this order; with `dry_run`, which only checks
    them, none."""
    return _dry(make(path("jobs", "batch"), _ids, {"jobs": [_sent(one) for one in jobs]}, idempotency_key), dry_run)


def put(key: str, /, *, dry_run: bool = False, **fields: Unpack[JobFields]) -> Call[Job]:
    """Create or replace the job with this key; with `dry_run`, return only what it would be."""
    return _dry(change("PUT", path("jobs", "by-key", key), _job, _sent(fields)), dry_run)


def apply(
    set: str,  # noqa: A002 - the name of the field
    jobs: Iterable[JobFields],
    *,
    prune: bool = False,
    adopt: bool = False,
    stamp: int | None = None,
    dry_run: bool = False,
) -> Call[Applied]:
    """Make the jobs of a set as they are declared here, each with its `key`; nothing is done if one is refused.

    `prune` cancels jobs of the set that are not declared, `adopt` takes jobs with these keys from other sets. A `stamp`
    below that of an earlier call is refused. With `dry_run` nothing changes: the answer tells what would.
    """
    body = {
        "set": set,
        "jobs": [_sent(one) for one in jobs],
        "prune": prune,
        "adopt": adopt,
        "stamp": stamp,
        "dry_run": dry_run,
    }
    call = change("POST", path("jobs", "apply"), model(Applied), body)
    return msgspec.structs.replace(call, timeout=APPLIED_WITHIN, reads=dry_run)


def _dry(call: Call[T], dry_run: bool) -> Call[T]:
    return msgspec.structs.replace(call, params={"dry_run": "true"}) if dry_run else call


def show(job: Id, /) -> Call[Job]:
    """Get a job: its definition and status."""
    return get(path("jobs", job), _job)


def show_by_key(key: str) -> Call[Job]:
    """Get your job with this key: the active or paused one, else the last one that had the key."""
    return get(path("jobs", "by-key", key), _job)


def page(
    *,
    status: str | None = None,
    last_status: str | None = None,
    task: str | None = None,
    name: str | None = None,
    name_prefix: str | None = None,
    tag: str | None = None,
    queue: str | None = None,
    start_time: When | None = None,
    end_time: When | None = None,
    user_id: str | None = None,
    health: str | None = None,
    recent: int | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> Call[Page[Job]]:
    """List jobs that match all filters. `status` and `last_status` take one or more, like "active,paused"; `start_time`
    and `end_time` bound the next run; `limit` is the size of a page; `user_id` is for administrators. With `recent`,
    each job has its last so many ended runs."""
    return get(
        path("jobs"),
        page_of("jobs", Job),
        status=status,
        last_status=last_status,
        task=task,
        name=name,
        name_prefix=name_prefix,
        tag=tag,
        queue=queue,
        start_time=start_time,
        end_time=end_time,
        user_id=user_id,
        health=health,
        recent=recent,
        limit=limit,
        page_token=page_token,
    )


def edit(job: Id, /, *, if_match: int | str | None = None, **fields: Unpack[JobFields]) -> Call[Job]:
    """Change fields of a job, for every occurrence that has not started.

    Pass the `version` that you read as `if_match` to raise `Stale`, and change nothing, if the job has changed since.
    """
    headers = {} if if_match is None else {"If-Match": _etag(if_match)}
    return change("PATCH", path("jobs", job), _job, _sent(fields), headers)


def preview(job: Id, /, *, count: int | None = None, **fields: Unpack[JobFields]) -> Call[EditPreview]:
    """Get what `edit` with these fields would do: occurrences before and after, runs withdrawn. Nothing changes."""
    call = change("POST", path("jobs", job, "preview"), model(EditPreview), _sent(fields))
    params = {} if count is None else {"count": str(count)}
    return msgspec.structs.replace(call, reads=True, params=params)


def versions_page(job: Id, /, *, limit: int | None = None, page_token: str | None = None) -> Call[Page[JobVersion]]:
    """List the definitions that a job has and had, the present one first, with who changed it."""
    return get(path("jobs", job, "versions"), page_of("versions", JobVersion), limit=limit, page_token=page_token)


def pause(job: Id, /) -> Call[Job]:
    """Pause a job. Active runs continue, and runs started by hand still start."""
    return change("POST", path("jobs", job, "pause"), _job)


def resume(job: Id, /, *, missed: str | None = None) -> Call[Job]:
    """Resume a paused job from now on. `missed` decides which missed occurrences run: "skip", "last" or "all"."""
    return change("POST", path("jobs", job, "resume"), _job, None if missed is None else {"missed": missed})


def cancel(job: Id, /) -> Call[Job]:
    """Cancel a job and stop its running runs."""
    return change("DELETE", path("jobs", job), _job)


def purge(job: Id, /) -> Call[None]:
    """Delete a job with its runs, results and logs. For administrators."""
    return Call(method="DELETE", path=path("jobs", job), parse=nothing, params={"purge": "true"}, removes=True)


def run_now(job: Id, /, *, payload: Mapping[str, Any] | None = None, idempotency_key: str | None = None) -> Call[UUID]:
    """Run a job now, in addition to its schedule; with a payload, that of this run only. Returns the run."""
    return make(path("jobs", job, "runNow"), field("run_id", UUID), given(payload=payload), idempotency_key)


def status(job: Id, /) -> Call[JobState]:
    """Get the status of a job's latest run."""
    return get(path("jobs", job, "status"), model(JobState))


def stats(job: Id, /, *, last: int | None = None) -> Call[JobStats]:
    """Get how the last runs of a job ended, how long they took and how late they started."""
    return get(path("jobs", job, "stats"), model(JobStats), last=last)


def runs_page(job: Id, /, *, limit: int | None = None, page_token: str | None = None) -> Call[Page[Run]]:
    """List a job's runs, newest first."""
    return get(path("jobs", job, "runs"), page_of("runs", Run), limit=limit, page_token=page_token)


def occurrences_page(
    job: Id,
    /,
    *,
    start_time: When | None = None,
    end_time: When | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> Call[Page[Occurrence]]:
    """List a job's occurrences with their outcomes, newest first; those scheduled from `start_time` to `end_time`."""
    window = {"start_time": start_time, "end_time": end_time, "limit": limit, "page_token": page_token}
    return get(path("jobs", job, "occurrences"), page_of("occurrences", Occurrence), **window)


def occurrence_heat(
    job: Id, /, *, start_time: When | None = None, end_time: When | None = None, step: Length | None = None
) -> Call[OccurrenceHeat]:
    """Count a job's occurrences by outcome over time, by default of the last day."""
    window = {"from": start_time, "to": end_time}
    return get(path("jobs", job, "occurrences", "heat"), model(OccurrenceHeat), step=step, **window)


def explain(job: Id, /) -> Call[Explanation]:
    """Explain why a job has or has not run."""
    return get(path("jobs", job, "explain"), model(Explanation))


def backfill(job: Id, /, start: When, end: When, *, idempotency_key: str | None = None) -> Call[tuple[UUID, ...]]:
    """Run the occurrences of a time range now, at most 10,000. Returns the ids of the runs."""
    body = {"from": start, "to": end}
    return make(path("jobs", job, "backfill"), _run_ids, body, idempotency_key)


def export(asker: Asker, job: Id, /) -> Exchange[dict[str, Any]]:
    """Return the definition of a job as `apply` takes it, with a key and without what equals a default."""
    from oncue.domain.exported import exported  # only here, because it takes a while to import

    found = yield from ask(show(job).plain(), asker.retry_policy)
    tasks = yield from ask(fleet.tasks(), asker.retry_policy)
    defaults = {task.name: task.defaults for task in tasks}
    return exported(found, defaults.get(found["task"], {}))


def preview_schedule(
    schedule: When | Mapping[str, Any], *, count: int | None = None, after: When | None = None
) -> Call[Preview]:
    """Preview when a schedule fires, without storing it."""
    asked = {"schedule": schedule, "count": count, "after": after}
    body = {name: value for name, value in asked.items() if value is not None}
    call = change("POST", path("schedules", "preview"), model(Preview), body)
    return msgspec.structs.replace(call, reads=True)


def _sent(fields: JobFields) -> Mapping[str, Any]:
    """Return the fields as the API takes them: a task by its name. It refuses what is no object, and says where."""
    task = fields.get("task") if isinstance(fields, Mapping) else None
    return fields if task is None or isinstance(task, str) else {**fields, "task": task.name}


def _etag(version: int | str) -> str:
    text = str(version)
    return text if text.endswith('"') else f'"{text}"'
