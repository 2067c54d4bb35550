"""Jobs and runs as a client returns them: frozen snapshots with methods, which return new snapshots.

A snapshot carries its client without showing it: neither `==` nor `repr` nor JSON have it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

import msgspec

from oncue.client import jobs
from oncue.client.asking import Asker, Exchange
from oncue.client.call import Call, Page
from oncue.client.html import table_of
from oncue.client.methods import Method, asks_job, own
from oncue.client.resources import Jobs, Runs
from oncue.domain.models import validated
from oncue.shapes.jobs import Job as JobData
from oncue.shapes.jobs import JobFields
from oncue.shapes.runs import Run as RunData
from oncue.shapes.runs import WholeRun

if TYPE_CHECKING:
    from oncue.client.async_client import AsyncClient  # noqa: F401 - a base class names it
    from oncue.client.client import Client  # noqa: F401

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")
Q = TypeVar("Q")


def _client_of(snapshot: msgspec.Struct) -> Any:
    client = vars(snapshot).get("client")
    if client is None:
        raise RuntimeError("This snapshot has no client: it was copied or created without one. Get it with a client.")
    return client


def _edit(job: JobData, /, **fields: Unpack[JobFields]) -> Call[JobData]:
    """Change fields of the job, for every occurrence that has not started. Raises `Stale`, and changes nothing, if the
    job has changed since this snapshot was read."""
    return jobs.edit(job.job_id, if_match=job.version, **fields)


class JobSnapshot(JobData, Generic[C], frozen=True, kw_only=True, dict=True):
    """A job as it was when it was read."""

    edit = own(asks_job(_edit))
    pause = own(Jobs.pause)
    resume = own(Jobs.resume)
    cancel = own(Jobs.cancel)
    run_now = own(Jobs.run_now)
    backfill = own(Jobs.backfill)
    runs = own(Jobs.runs)
    occurrences = own(Jobs.occurrences)
    explain = own(Jobs.explain)
    refresh = own(Jobs.get)
    export = own(Jobs.export)

    @property
    def _client(self) -> C:
        return _client_of(self)  # type: ignore[no-any-return]  # what the dict has is not typed

    def _repr_html_(self) -> str:
        return table_of(self)


class Job(JobSnapshot["Client"], frozen=True, kw_only=True, dict=True):
    """A job as it was when it was read. Its methods ask the server, and return new snapshots."""


class AsyncJob(JobSnapshot["AsyncClient"], frozen=True, kw_only=True, dict=True):
    """A job as it was when it was read. Its methods ask the server, and return new snapshots: await them."""


class SameRun(Generic[P]):
    """A method of a run that returns a run with the same type of result."""

    def __init__(self, method: Method[P, Any, Any]) -> None:
        def steps(asker: Asker, run: msgspec.Struct, *args: Any, **kwargs: Any) -> Exchange[Any]:
            found = yield from method.steps(asker, run, *args, **kwargs)
            return _returning(found, vars(run).get("returns"))

        self.method: Method[P, Any, Any] = Method(steps, method.shown, hidden=method.hidden, own=True)

    @overload
    def __get__(self, run: Run[R], owner: Any = None) -> Callable[P, Run[R]]: ...

    @overload
    def __get__(self, run: AsyncRun[R], owner: Any = None) -> Callable[P, Coroutine[Any, Any, AsyncRun[R]]]: ...

    @overload
    def __get__(self, run: None, owner: Any = None) -> SameRun[P]: ...

    def __get__(self, run: Any, owner: Any = None) -> Any:
        return self if run is None else self.method.__get__(run, owner)


class RunSnapshot(WholeRun, Generic[C, R], frozen=True, kw_only=True, dict=True):
    """A run as it was when it was read."""

    result: R = None  # type: ignore[assignment]  # null until the run has succeeded
    """the task's return value"""

    wait = SameRun(own(Runs.wait))
    cancel = SameRun(own(Runs.cancel))
    retry = SameRun(own(Runs.retry))
    refresh = SameRun(own(Runs.get))
    explain = own(Runs.explain)
    log_lines = own(Runs.log_lines)

    @property
    def _client(self) -> C:
        return _client_of(self)  # type: ignore[no-any-return]  # what the dict has is not typed

    def _repr_html_(self) -> str:
        return table_of(self)


class Run(RunSnapshot["Client", R], Generic[R], frozen=True, kw_only=True, dict=True):
    """A run as it was when it was read. Its methods ask the server, and return new snapshots."""

    def returning(self, kind: type[Q]) -> Run[Q]:
        """Return the same snapshot with the result read as this type, here and in what its methods return."""
        return _returning(self, kind)  # type: ignore[no-any-return]  # of the same class


class AsyncRun(RunSnapshot["AsyncClient", R], Generic[R], frozen=True, kw_only=True, dict=True):
    """A run as it was when it was read. Its methods ask the server, and return new snapshots: await them."""

    def returning(self, kind: type[Q]) -> AsyncRun[Q]:
        """Return the same snapshot with the result read as this type, here and in what its methods return."""
        return _returning(self, kind)  # type: ignore[no-any-return]  # of the same class


def _returning(run: Any, kind: Any) -> Any:
    """Read the result of a run as this type; a result that is not here stays None. None: as JSON."""
    if kind is None:
        return run
    here = run.status == "succeeded" and "result" not in run.large and "result" not in run.degraded
    read = msgspec.structs.replace(run, result=msgspec.convert(run.result, kind, dec_hook=validated) if here else None)
    vars(read).update(vars(run), returns=kind)
    return read


def bind(value: Any, client: Any, job: type[Any], run: type[Any]) -> Any:
    """Return data of jobs and runs as snapshots of this client, also in pages; other values as they are."""
    match value:
        case JobData():
            return _snapshot(value, job, client)
        case RunData():
            return _snapshot(value, run, client)
        case Page():
            return msgspec.structs.replace(value, items=bind(value.items, client, job, run))
        case tuple():
            return tuple(bind(one, client, job, run) for one in value)
        case _:
            return value


def _snapshot(data: msgspec.Struct, kind: type[Any], client: Any) -> Any:
    made = kind(**{name: getattr(data, name) for name in data.__struct_fields__})
    vars(made)["client"] = client
    return made
