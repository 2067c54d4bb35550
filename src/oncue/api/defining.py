"""What a request makes of a job: its definition, checked as a whole, and how a new one is stored and shown."""

from __future__ import annotations

from typing import Any

import msgspec

from oncue.api.auth import Caller, forbidden
from oncue.api.context import Api
from oncue.api.task_registry import defaults_of, payload_problems
from oncue.domain import change
from oncue.domain.addresses import check_url
from oncue.domain.definition import define, define_payload
from oncue.domain.errors import Invalid, Problem
from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant
from oncue.domain.job import Job, Snapshot, Spec, WaitingRun
from oncue.domain.plain_text import printable
from oncue.engines.port import Hint, NewJob, Quota, Task, Topic


async def checked(api: Api, raw: dict[str, Any], caller: Caller, now: Instant) -> tuple[Spec, bytes | None]:
    """The definition, if all of it is right; else everything that is not, at once."""
    name = raw.get("task")
    task = await api.task_registry.find(name) if isinstance(name, str) else None
    if task is not None and caller.role not in task.roles:
        raise forbidden(f"jobs of the task {printable(task.name)!r} are for these roles: {', '.join(task.roles)}")
    problems: list[Problem] = []
    try:
        spec, payload = define(raw, {} if task is None else defaults_of(task), now, api.limits)
    except Invalid as wrong:
        problems += wrong.problems
    named = {problem.path.partition(".")[0] for problem in problems}
    if task is None and "task" not in named:
        message = "no worker has announced this task: look at its spelling, or start a worker that has it"
        problems.append(Problem("task", "unknown_task", message))
    if task is not None and "payload" not in named:
        problems += _payload_problems(api, task, raw.get("payload") or {})
    if problems:
        raise Invalid(*problems)
    return spec, payload


class Definitions:
    """Definitions one after the other, for one caller. Those that differ from the one before in their payload only, as
    in a batch most do, are checked as far as they differ.
    """

    def __init__(self, api: Api, caller: Caller, now: Instant) -> None:
        self._api = api
        self._caller = caller
        self._now = now
        self._before: tuple[bytes, Task, Spec, ClassId] | None = None

    async def checked(self, raw: Any) -> tuple[Spec, ClassId, bytes | None]:
        """The definition, the number of its class if that is known, and the payload."""
        if not isinstance(raw, dict):
            raise Invalid.of("", "wrong_type", 'is an object like {"task": "send_email"}')
        rest = _encode({name: value for name, value in raw.items() if name != "payload"})
        if self._before is not None and self._before[0] == rest:
            _, task, spec, class_id = self._before
            payload = define_payload(raw.get("payload"), self._api.limits)
            if problems := _payload_problems(self._api, task, raw.get("payload") or {}):
                raise Invalid(*problems)
            return spec, class_id, payload
        spec, payload = await checked(self._api, raw, self._caller, self._now)
        class_id, found = self._api.class_id(spec.class_key), await self._api.task_registry.find(spec.task)
        self._before = None if found is None else (rest, found, spec, class_id)
        return spec, class_id, payload


def _encode(raw: dict[str, Any]) -> bytes:
    """Unlike the values themselves, 1 and true differ as they are written."""
    try:
        return msgspec.json.encode(raw)
    except UnicodeEncodeError:  # not a text that could be stored: whoever checks it says so
        return b""


def _payload_problems(api: Api, task: Task, payload: dict[str, Any]) -> list[Problem]:
    problems = payload_problems(task, payload)
    if task.name == "http" and not problems:
        try:
            check_url(payload["url"], api.reachable)
        except Invalid as wrong:
            problems += wrong.problems
    return problems


def new_job(job: Job, class_id: ClassId, now: Instant, quota: Quota | None) -> NewJob:
    if job.spec.schedule.recurring:
        return NewJob(job, class_id, cursor=change.first_cursor(job.spec.schedule, now), quota=quota)
    return NewJob(job, class_id, run=change.only_run(job, class_id, now), quota=quota)


def hint_of(new: NewJob) -> Hint:
    if new.run is not None:
        return Hint(Topic.RUNS, due=new.run.wanted)
    return Hint(Topic.JOBS, due=new.cursor.next_at if new.cursor else None)


def as_stored(new: NewJob) -> Snapshot:
    """The job as reading it back would give it, without asking."""
    run = new.run
    waiting = () if run is None else (WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=True),)
    return Snapshot(new.job, new.class_id, new.cursor, waiting)
