"""The verbs of a task: enqueue, run, schedule. `Handle` has them for async code, `SyncHandle` for other code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast
from uuid import UUID

import msgspec

from oncue.domain.errors import Invalid
from oncue.domain.meanings import verb_meant
from oncue.domain.models import validated
from oncue.shapes.jobs import Job as JobData
from oncue.shapes.runs import Run as RunData
from oncue.shapes.schedules import Length, Schedule, When, at, duration_text
from oncue.tasks.clients import Clients
from oncue.tasks.inside import job_of, run_of, submit, submit_now
from oncue.tasks.options import NOT_SENT, CallOptions, call_options
from oncue.tasks.typevars import P, R

if TYPE_CHECKING:
    from oncue.client import AsyncClient, AsyncJob, AsyncRun, Client, Job, Run

NOT_AWAITED = frozenset({"bind", "using"})  # of the verbs
MOST_AT_ONCE = 10_000  # jobs in one transaction

Planned = str | Schedule | Mapping[str, Any]


class Bound(msgspec.Struct, Generic[R], frozen=True):
    """A task with its arguments, as a value. `fields` are those of its job, in JSON values."""

    fields: dict[str, Any]


V = TypeVar("V", bound=Callable[..., Coroutine[Any, Any, Any]])


def named(verb: V) -> V:
    """Name the task, and what to write, in Python's warning of a call that nobody awaited."""

    @wraps(verb)
    def call(self: Handle[Any, Any], *args: Any, **kwargs: Any) -> Any:
        begun: Any = verb(self, *args, **kwargs)
        begun.__qualname__ = f"{self.name}.{verb.__name__}(…): write await, or .sync.{verb.__name__}(…) in sync code"
        return begun

    return cast(V, call)


class Handle(ABC, Generic[P, R]):
    """What user code calls to have a task run by a worker.

    Arguments are checked before any request: TypeError for their names, Invalid for values that do not fit the
    signature. Which client is used is decided at each call: see `Clients`.
    """

    name: str
    clients: Clients
    options: Mapping[str, Any]
    returns: Any
    """The type of the result; None: as JSON has it."""

    @abstractmethod
    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as JSON values. TypeError, Invalid: they do not fit the signature."""

    def returned(self, result: Any) -> R:
        """Return a result, decoded from JSON, as the type that the function returns."""
        found: R = result if self.returns is None else msgspec.convert(result, self.returns, dec_hook=validated)
        return found

    def using(self, **options: Unpack[CallOptions]) -> Self:
        """Return the same task with other options for these calls: `hello.using(queue="mail").enqueue()`.

        Fields of the job, and `idempotency_key`, `wait_timeout` (of `run`) and `client`. Invalid: a wrong one.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.options = {**self.options, **call_options(self.name, options)}
        return other

    @property
    def sync(self) -> SyncHandle[P, R]:
        """The same verbs for code without an event loop: `hello.sync.enqueue(name="you")`."""
        return SyncHandle(self)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        """Return a call as a value: `await tasks.enqueue_many(hello.bind(name=name) for name in names)`."""
        return Bound(self.job(args, kwargs))

    def job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], when: Planned | None = None) -> dict[str, Any]:
        """Return the fields of the job of a call, in JSON values."""
        payload, fields = self.payload(args, kwargs), self.job_alone(when)
        return {**fields, "payload": payload} if payload else fields

    def job_alone(self, when: Planned | None = None) -> dict[str, Any]:
        """Return the fields of a job without its payload."""
        fields = {name: value for name, value in self.options.items() if name not in NOT_SENT}
        return {"task": self.name, **fields, **({} if when is None else {"schedule": _plain(when)})}

    if not TYPE_CHECKING:  # a type checker reports such a name by itself

        def __getattr__(self, name: str) -> Any:
            raise _no_verb(self, name, "await .{0}(…), or .sync.{0}(…) in sync code")

    @named
    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncRun[R]:
        """Run the task once, as soon as a worker has a free slot. Returns the run."""
        return await self._enqueued(self.job(args, kwargs))

    @named
    async def enqueue_in(self, delay: Length, /, *args: P.args, **kwargs: P.kwargs) -> AsyncRun[R]:
        """Run the task once after a delay: `await hello.enqueue_in("10m", name="you")`."""
        return await self._enqueued(self.job(args, kwargs, f"in {duration_text(delay)}"))

    @named
    async def enqueue_at(self, when: When, /, *args: P.args, **kwargs: P.kwargs) -> AsyncRun[R]:
        """Run the task once at an instant: an aware datetime, or text like "2027-01-31T09:00:00Z"."""
        return await self._enqueued(self.job(args, kwargs, at(when)))

    @named
    async def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the task once and wait for its result. RunFailed: the run is dead, cancelled or expired.

        WaitTimeout: the run has not ended within the `wait_timeout` of `using`, and continues.
        """
        run = await self._enqueued(self.job(args, kwargs))
        run = await run.wait(timeout=self.options.get("wait_timeout"))
        return run.result if "result" not in run.large else self.returned(await (await self._client()).runs.result(run))

    @named
    async def schedule(self, when: Planned, /, *args: P.args, **kwargs: P.kwargs) -> AsyncJob:
        """Create a job that runs the task by a schedule: `cron(…)`, `every(…)`, or text like "every 1h".

        With a key (`using(key=…)`) this creates the job or replaces the one that has the key.
        """
        fields, once = self.job(args, kwargs, when), self.options.get("idempotency_key")
        if (run := self.clients.in_run(self.options.get("client"))) is not None:
            from oncue.client import AsyncJob

            [job_id] = await submit(run, [fields], once)
            return job_of(AsyncJob, job_id, fields)  # type: ignore[no-any-return]  # of this class
        client = await self._client()
        if (key := fields.pop("key", None)) is not None:
            return await client.jobs.put(key, **fields)
        return await client.jobs.create(**fields, idempotency_key=once)

    @named
    async def run_now(self) -> AsyncRun[R]:
        """Run the scheduled job of this task once more, now: that with the key of `using`, or with the task's name."""
        client = await self._client()
        job = await client.jobs.get_by_key(self.options.get("key") or self.name)
        run = await client.jobs.run_now(job, idempotency_key=self.options.get("idempotency_key"))
        return run.returning(self.returns)

    async def _enqueued(self, fields: dict[str, Any]) -> AsyncRun[R]:
        once = self.options.get("idempotency_key")
        found: AsyncRun[Any]
        if (run := self.clients.in_run(self.options.get("client"))) is not None:
            from oncue.client import AsyncRun

            [job_id] = await submit(run, [fields], once)
            found = run_of(AsyncRun, job_id, fields)
        else:
            client = await self._client()
            found = client.bound(first_run(await client.jobs.create(**fields, idempotency_key=once)))
        return found.returning(self.returns)

    async def _client(self) -> AsyncClient:
        return await self.clients.for_async(self.options.get("client"))


class SyncHandle(Generic[P, R]):
    """The verbs of a task for code without an event loop. Each does what the one of the same name does in `Handle`."""

    def __init__(self, task: Handle[P, R]) -> None:
        self._task = task

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise _no_verb(self, name, ".sync.{0}(…)")

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Run the task once, as soon as a worker has a free slot. Returns the run."""
        return self._enqueued(self._task.job(args, kwargs))

    def enqueue_in(self, delay: Length, /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Run the task once after a delay."""
        return self._enqueued(self._task.job(args, kwargs, f"in {duration_text(delay)}"))

    def enqueue_at(self, when: When, /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Run the task once at an instant."""
        return self._enqueued(self._task.job(args, kwargs, at(when)))

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the task once and wait for its result. RunFailed: the run is dead, cancelled or expired."""
        task = self._task
        run = self._enqueued(task.job(args, kwargs)).wait(timeout=task.options.get("wait_timeout"))
        return run.result if "result" not in run.large else task.returned(self._client().runs.result(run))

    def schedule(self, when: Planned, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Create a job that runs the task by a schedule; with a key, create or replace it."""
        task, fields = self._task, self._task.job(args, kwargs, when)
        once = task.options.get("idempotency_key")
        if (run := task.clients.in_run(task.options.get("client"))) is not None:
            from oncue.client import Job

            [job_id] = submit_now(run, [fields], once)
            return job_of(Job, job_id, fields)  # type: ignore[no-any-return]  # of this class
        client = self._client()
        if (key := fields.pop("key", None)) is not None:
            return client.jobs.put(key, **fields)
        return client.jobs.create(**fields, idempotency_key=once)

    def run_now(self) -> Run[R]:
        """Run the scheduled job of this task once more, now."""
        client, options = self._client(), self._task.options
        job = client.jobs.get_by_key(options.get("key") or self._task.name)
        run = client.jobs.run_now(job, idempotency_key=options.get("idempotency_key"))
        return run.returning(self._task.returns)

    def _enqueued(self, fields: dict[str, Any]) -> Run[R]:
        task, once = self._task, self._task.options.get("idempotency_key")
        found: Run[Any]
        if (run := task.clients.in_run(task.options.get("client"))) is not None:
            from oncue.client import Run

            [job_id] = submit_now(run, [fields], once)
            found = run_of(Run, job_id, fields)
        else:
            client = self._client()
            found = client.bound(first_run(client.jobs.create(**fields, idempotency_key=once)))
        return found.returning(task.returns)

    def _client(self) -> Client:
        return self._task.clients.for_sync(self._task.options.get("client"))


class SyncTasks:
    """The verbs of a set for code without an event loop."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def enqueue_many(self, calls: Iterable[Bound[Any]], *, idempotency_key: str | None = None) -> tuple[UUID, ...]:
        """Run these calls, stored in one transaction, at most 10,000. Returns the ids of their runs."""
        if not (found := batch(calls)):
            return ()
        if (run := self._clients.in_run(None)) is not None:
            return submit_now(run, found, idempotency_key)
        return self._clients.for_sync(None).jobs.create_many(found, idempotency_key=idempotency_key)


def batch(calls: Iterable[Bound[Any]]) -> list[Any]:
    """Return the fields of the jobs of these calls. Invalid: there are too many."""
    found: list[Any] = []
    for call in calls:
        if not isinstance(call, Bound):
            raise TypeError(f"enqueue_many takes calls like hello.bind(name='you'), not {call!r:.80}")
        found.append(call.fields)
    if len(found) > MOST_AT_ONCE:
        message = (
            f"are {len(found)} calls; at most {MOST_AT_ONCE:,} are stored in one transaction, pass fewer at a time"
        )
        raise Invalid.of("calls", "out_of_range", message)
    return found


def first_run(job: JobData) -> RunData:
    """Return the run of a job that runs once, as of its creation: it has the job's id."""
    last = job.last_run
    later = job.next_run_at is not None and job.created_at is not None and job.next_run_at > job.created_at
    return RunData(
        run_id=job.job_id,
        job_id=job.job_id,
        job_name=job.name,
        job_key=job.key,
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        status=("scheduled" if later else "queued") if last is None else last.status,
        scheduled_for=job.next_run_at if last is None else last.scheduled_for,
        trigger="schedule",
    )


def _no_verb(handle: object, name: str, write: str) -> AttributeError:
    """Return the error of an attribute that is not there; of a verb of another library it says what to write."""
    words = f"{type(handle).__name__!r} object has no attribute {name!r}"
    if (verb := verb_meant(name)) is not None:
        task = vars(handle).get("_task", handle)
        meant = (".{0}(…)" if verb in NOT_AWAITED else write).format(verb)
        words = f"task {vars(task).get('name')!r} has no .{name}(…): write {meant}"
    return AttributeError(words, name=name, obj=handle)


def _plain(when: Planned) -> Any:
    try:
        return msgspec.to_builtins(when)
    except TypeError:
        message = f'must be cron(…), every(…), at(…) or text like "every 1h", not {when!r:.80}'
        raise Invalid.of("schedule", "wrong_type", message) from None
