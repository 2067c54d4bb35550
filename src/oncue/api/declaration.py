"""Read a declaration, the body of `POST /jobs/apply`, and check each of its jobs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request

from oncue.api.create import BATCH_BYTES, LARGEST_BATCH, TURN
from oncue.api.http.auth import Caller
from oncue.api.http.items import read_item, read_items_and_more
from oncue.api.http.tracing import trace_of
from oncue.api.shared.context import Api
from oncue.domain.change import JobChange
from oncue.domain.declared import TAG, Action, FieldChange, relative_time
from oncue.domain.definition import MOST_PROBLEMS, USUAL
from oncue.domain.errors import Forbidden, Invalid, Problem
from oncue.domain.fields import Reader, read_fields, text, truth, whole
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.domain.job import Spec
from oncue.domain.plain_text import printable
from oncue.engines.port import NewJob
from oncue.intake.definitions import checked, in_trace
from oncue.intake.secrets import warnings_of

LARGEST_STAMP = 2**53 - 1  # what every reader of JSON can represent
FIELDS: Mapping[str, Reader] = {
    "set": text(USUAL.tag - len(TAG)),
    "prune": truth,
    "adopt": truth,
    "dry_run": truth,
    "stamp": whole(0, LARGEST_STAMP),
}
NULLABLE = frozenset({"stamp"})


class Wanted(msgspec.Struct, frozen=True):
    """A declared job that is valid. `index`: its place in the declaration."""

    index: int
    key: str
    spec: Spec
    payload: bytes | None


class Step(msgspec.Struct, frozen=True):
    """What is to be done for one job, with what was decided for it."""

    action: Action
    key: str
    job_id: JobId | None
    wanted: Wanted | None = None  # None: it is not declared any more
    changes: dict[str, FieldChange] = {}
    owners: tuple[str, ...] = ()
    new: NewJob | None = None
    change: JobChange | None = None


class Declaration:
    """What a request declares: the jobs of a set that are valid, and what is wrong with the others."""

    def __init__(self, asked: Mapping[str, Any], lookups: int) -> None:
        self.lookups = lookups  # of tasks, when the request began
        self.set: str = asked["set"]
        self.prune: bool = asked.get("prune", False)
        self.adopt: bool = asked.get("adopt", False)
        self.dry_run: bool = asked.get("dry_run", False)
        self.stamp: int | None = asked.get("stamp")
        self.jobs: list[Wanted] = []
        self.keys: dict[str, int] = {}
        """The keys of all jobs, wrong ones included, each with its place."""
        self.problems: list[Problem] = []
        self.warnings: list[Mapping[str, str]] = []
        self._digests: list[bytes] = []

    @property
    def tag(self) -> str:
        return TAG + self.set

    def add(self, key: str, index: int, job: dict[str, Any]) -> None:
        """Note a key and the content of its job. Invalid: another job has the key."""
        if key in self.keys:
            message = f"{printable(key)!r} is also the key of job {self.keys[key]}; keys must be unique"
            raise Invalid.of("key", "not_unique", message)
        self.keys[key] = index
        if self.stamp is not None:
            written = msgspec.json.encode(job, order="sorted")
            self._digests.append(hashlib.blake2b(written, digest_size=16).digest())

    def digest(self) -> bytes:
        """Return a digest of the jobs, in any order."""
        return hashlib.blake2b(b"".join(sorted(self._digests)), digest_size=16).digest()


async def read_declaration(api: Api, request: Request, caller: Caller, now: Instant) -> Declaration:
    """Check all jobs. What is wrong with some is among the problems; Invalid: something else is wrong."""
    items, rest = await read_items_and_more(request, "jobs", BATCH_BYTES)
    problems: list[Problem] = []
    found = read_fields(rest, FIELDS, problems, nothing=NULLABLE)
    if "set" not in rest:
        problems.append(Problem("set", "required", 'is required: the name of the set, like "shop"'))
    if len(items) > LARGEST_BATCH:
        problems.append(Problem("jobs", "out_of_range", f"is a list of at most {LARGEST_BATCH} jobs"))
    if problems:
        raise Invalid(*problems)
    declaration, rested = Declaration(found, api.intake.task_registry.lookups), api.clock.monotonic()
    for index, raw in enumerate(items):
        try:
            declaration.jobs.append(await _wanted(api, request, declaration, index, raw, caller, now))
        except Invalid as wrong:
            declaration.problems += wrong.under(f"jobs.{index}").problems
        if len(declaration.problems) >= MOST_PROBLEMS:
            break
        if api.clock.monotonic() - rested > TURN:
            await asyncio.sleep(0)
            rested = api.clock.monotonic()
    return declaration


async def _wanted(
    api: Api, request: Request, declaration: Declaration, index: int, raw: msgspec.Raw, caller: Caller, now: Instant
) -> Wanted:
    job = await read_item(raw, api.largest_job)
    if not isinstance(job, dict):
        raise Invalid.of("", "wrong_type", "must be an object with the fields of a job")
    key, problems = job.get("key"), _own_problems(job)
    if isinstance(key, str) and key:
        declaration.add(key, index, job)
    given = job if job.get("tags") is not None else {name: value for name, value in job.items() if name != "tags"}
    try:
        spec, payload = await checked(api.intake, given, caller, now, lookups=declaration.lookups)
    except Invalid as wrong:
        problems += wrong.problems
    except Forbidden as forbidden:
        problems.append(Problem("task", "forbidden", str(forbidden)))
    if problems:
        raise Invalid(*problems)
    declaration.warnings += warnings_of(api.intake, spec.task, job.get("payload"), f"jobs.{index}.")
    spec = replace(spec, tags=(*spec.tags, declaration.tag))
    return Wanted(index, job["key"], in_trace(spec, trace_of(request)), payload)


def _own_problems(job: dict[str, Any]) -> list[Problem]:
    """Return what a declared job may not say although another job may."""
    problems, tags = [], job.get("tags")
    if not job.get("key"):
        problems.append(Problem("key", "required", "is required: apply finds each job by its key"))
    if isinstance(tags, list) and any(isinstance(tag, str) and tag.startswith(TAG) for tag in tags):
        problems.append(Problem("tags", "reserved", f"must not contain a tag that begins with {TAG}"))
    if (where := relative_time(job.get("schedule"))) is not None:
        message = "would be another instant each time this is applied; write an instant, like 2027-01-31T09:00:00Z"
        problems.append(Problem(f"schedule{where}", "relative_time", message))
    return problems
