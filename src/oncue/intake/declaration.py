"""A declaration: the jobs of a set as they should be. Each is checked, and all that is wrong is collected."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from oncue.domain.change import JobChange
from oncue.domain.declared import TAG, Action, FieldChange, relative_time
from oncue.domain.definition import USUAL, define
from oncue.domain.errors import Forbidden, Invalid, Problem, Superseded, tried
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.domain.job import Spec
from oncue.domain.plain_text import printable
from oncue.domain.trace import Trace
from oncue.engines.port import NewJob, SetStamp
from oncue.intake.context import Author, Intake
from oncue.intake.definitions import checked, in_trace
from oncue.intake.secrets import warnings_of

LONGEST_NAME = USUAL.tag - len(TAG)  # of a set
NO_JOBS = hashlib.blake2b(digest_size=16).digest()  # the digest of a declaration without any


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
    """What is declared: the jobs of a set that are valid, and what is wrong with the others."""

    def __init__(self, asked: Mapping[str, Any], lookups: int) -> None:
        self.lookups = lookups  # of tasks, when its reading began
        self.set: str = asked["set"]
        self.prune: bool = asked.get("prune", False)
        self.adopt: bool = asked.get("adopt", False)
        self.dry_run: bool = asked.get("dry_run", False)
        self.stamp: int | None = asked.get("stamp")
        self.jobs: list[Wanted] = []
        self.keys: dict[str, int] = {}
        """The keys of all jobs, wrong ones included, each with its first place."""
        self.problems: list[Problem] = []
        self.warnings: list[Mapping[str, str]] = []
        self._digests: list[bytes] = []

    @property
    def tag(self) -> str:
        return TAG + self.set

    def add(self, key: str, index: int) -> list[Problem]:
        """Note a key. Return what is wrong with it: another job has it."""
        first = self.keys.setdefault(key, index)
        message = f"{printable(key)!r} is also the key of jobs.{first}; keys must be unique"
        return [] if first == index else [Problem("key", "not_unique", message)]

    def note(self, job: dict[str, Any]) -> None:
        """Note the content of a valid job: an invalid one may have strings that cannot be encoded."""
        if self.stamp is not None:
            written = msgspec.json.encode(job, order="sorted")
            self._digests.append(hashlib.blake2b(written, digest_size=16).digest())

    def digest(self) -> bytes:
        """Return a digest of the jobs, in any order."""
        return hashlib.blake2b(b"".join(sorted(self._digests)), digest_size=16).digest()


def superseded(declaration: Declaration, there: SetStamp) -> Superseded:
    return Superseded(
        f"The set {printable(declaration.set)!r} was applied with stamp {there.stamp}, which is higher than"
        f" {declaration.stamp}: a newer declaration is in place. Nothing was changed."
    )


async def want(
    intake: Intake,
    declaration: Declaration,
    index: int,
    job: Any,
    author: Author,
    now: Instant,
    trace: Trace | None = None,
) -> None:
    """Check a declared job, and add it, or what is wrong with it, to the declaration."""
    try:
        declaration.jobs.append(await _wanted(intake, declaration, index, job, author, now, trace))
    except Invalid as wrong:
        declaration.problems += wrong.under(f"jobs.{index}").problems


async def _wanted(
    intake: Intake, declaration: Declaration, index: int, job: Any, author: Author, now: Instant, trace: Trace | None
) -> Wanted:
    if not isinstance(job, dict):
        raise Invalid.of("", "wrong_type", "must be an object with the fields of a job")
    key, problems = job.get("key"), _own_problems(job)
    if isinstance(key, str) and key:
        problems += declaration.add(key, index)
    given = job if job.get("tags") is not None else {name: value for name, value in job.items() if name != "tags"}
    try:
        spec, payload = await checked(intake, given, author, now, lookups=declaration.lookups)
    except Invalid as wrong:
        problems += wrong.problems
    except Forbidden as forbidden:
        problems.append(Problem("task", "forbidden", str(forbidden)))
        tried(problems, define, given, {}, now, intake.limits)
    if problems:
        raise Invalid(*problems)
    declaration.note(job)
    declaration.warnings += warnings_of(intake, spec.task, job.get("payload"), f"jobs.{index}.")
    spec = replace(spec, tags=(*spec.tags, declaration.tag))
    return Wanted(index, job["key"], in_trace(spec, trace), payload)


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
