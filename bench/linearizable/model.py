"""A key as one client after the other would find it: the sequential model that histories are compared with."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

ACTIVE, PAUSED, CANCELLED = "active", "paused", "cancelled"
UNSEEN = "(unseen)"  # stands for every payload that no answer ever showed


class Kind(StrEnum):
    PUT = "PUT"
    PATCH = "PATCH"
    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "DELETE"
    RUN = "runNow"
    READ = "GET"
    READ_KEY = "GET by key"


READS = (Kind.READ, Kind.READ_KEY)


class Job(NamedTuple):
    """A job as an answer shows it. `job_id` None: it was created without anybody being told its id."""

    job_id: str | None
    version: int
    status: str
    payload: str
    schedule: str


class Match(NamedTuple):
    """`If-Match`: an ETag, or without a job the bare version."""

    version: int
    job_id: str | None = None


class Call(NamedTuple):
    """One call on a key. `returned` None: whether it had an effect is unknown, and if so, when."""

    number: int
    kind: Kind
    invoked: int  # ns of a clock that all clients share
    returned: int | None = None
    job_id: str | None = None  # of the job that it names; None: by the key
    match: Match | None = None
    must_be_new: bool = False  # If-None-Match: *
    payload: str = ""
    schedule: str | None = None  # None: as it was
    idempotency_key: str = ""
    status: int = 0  # of the answer; 0: unknown
    shown: Job | None = None
    run_id: str | None = None

    @property
    def known(self) -> bool:
        return self.returned is not None


class Key(NamedTuple):
    """The state of a key: its job, those that had it earlier, which are cancelled, and what its runs answer again."""

    job: Job | None = None
    earlier: tuple[Job, ...] = ()
    runs: tuple[tuple[str, str | None], ...] = ()  # by idempotency key; None: nobody was told the id

    def find(self, job_id: str) -> Job | None:
        if self.job is not None and self.job.job_id == job_id:
            return self.job
        return next((job for job in self.earlier if job.job_id == job_id), None)


class Answer(NamedTuple):
    status: int
    key: Key
    shown: Job | None = None
    run_id: str | None = None


def step(key: Key, call: Call) -> Key | None:
    """Return the key after this call. None: it cannot be answered so here; of an unknown call: it changes nothing."""
    answer = perform(key, call)
    if answer is None:
        return None
    if not call.known:
        return None if answer.key == key else answer.key
    if answer.status != call.status:
        return None
    if answer.run_id is not None and answer.run_id != call.run_id:
        return None
    if answer.shown is None or call.shown is None:
        return answer.key if answer.shown is call.shown else None
    return answer.key if answer.shown == call.shown else _named(answer.key, answer.shown, call.shown)


def _named(key: Key, unnamed: Job, shown: Job) -> Key | None:
    """Return the key with the id of its job, which nobody knew before."""
    named = unnamed.job_id is None and unnamed._replace(job_id=shown.job_id) == shown
    if not named or shown.job_id is None or key.find(shown.job_id) is not None:
        return None
    return key._replace(job=shown)


def perform(key: Key, call: Call) -> Answer | None:
    """Return the only answer that this call has here, and the key after it. None: nobody could call so here."""
    if call.kind is Kind.PUT:
        return _put(key, call)
    if call.kind is Kind.READ_KEY:
        return Answer(404, key) if key.job is None else Answer(200, key, key.job)
    job = None if call.job_id is None else key.find(call.job_id)
    if job is None:
        return None  # whoever knows the id was told of the job
    match call.kind:
        case Kind.READ:
            return Answer(200, key, job)
        case Kind.PATCH if not _matches(job, call.match):
            return Answer(412, key)
        case Kind.RUN:
            return _run(key, job, call)
        case Kind.DELETE:
            return _changed(key, job, job._replace(status=CANCELLED))
    if job.status == CANCELLED:
        return Answer(409, key)
    match call.kind:
        case Kind.PAUSE:
            return _changed(key, job, job._replace(status=PAUSED))
        case Kind.RESUME:
            return _changed(key, job, job._replace(status=ACTIVE))
        case _:
            return _changed(key, job, _edited(job, call))


def _put(key: Key, call: Call) -> Answer:
    job = key.job
    if call.match is not None and (job is None or not _matches(job, call.match)):
        return Answer(412, key)
    if job is not None and job.status != CANCELLED:
        return Answer(412, key) if call.must_be_new else _changed(key, job, _edited(job, call))
    made = Job(None, 1, ACTIVE, call.payload, call.schedule or "")
    earlier = key.earlier if job is None or job.job_id is None else (*key.earlier, job)
    return Answer(201, key._replace(job=made, earlier=earlier), made)


def _edited(job: Job, call: Call) -> Job:
    """A definition that is the same raises no version. Of payloads that nobody saw, no two are the same."""
    edited = job._replace(payload=call.payload, schedule=call.schedule or job.schedule)
    return job if edited == job and call.payload != UNSEEN else edited._replace(version=job.version + 1)


def _changed(key: Key, job: Job, after: Job) -> Answer:
    """An earlier job is cancelled and stays so."""
    return Answer(200, key._replace(job=after) if key.job == job else key, after)


def _run(key: Key, job: Job, call: Call) -> Answer:
    """What was accepted once is accepted again, with the same run, whatever has become of the job."""
    for idempotency_key, run_id in key.runs:
        if idempotency_key == call.idempotency_key:
            runs = dict(key.runs) | {idempotency_key: run_id or call.run_id}
            return Answer(202, key._replace(runs=tuple(sorted(runs.items()))), run_id=run_id)
    if job.status == CANCELLED:
        return Answer(409, key)
    return Answer(202, key._replace(runs=tuple(sorted([*key.runs, (call.idempotency_key, call.run_id)]))))


def _matches(job: Job, match: Match | None) -> bool:
    return match is None or (match.version == job.version and match.job_id in (None, job.job_id))
