"""Methods of both clients and of their snapshots, declared once.

A method is a generator of calls and pauses (`asking.py`) behind a descriptor. On a `Client` and its snapshots it
returns its result; on an `AsyncClient` and its snapshots, something to await or to iterate over with `async for`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from functools import cached_property, wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

from oncue.client import runs
from oncue.client.asking import Asker, Exchange, Stream, ask, pages
from oncue.client.call import Call, Id, Page
from oncue.client.naming import JobRef, RunRef, WorkerRef, job_id_of, run_id_of, worker_id_of
from oncue.shapes.jobs import Job as JobData
from oncue.shapes.runs import Run as RunData

if TYPE_CHECKING:
    from oncue.client.async_client import AsyncClient
    from oncue.client.client import Client
    from oncue.client.snapshots import AsyncJob, AsyncRun, Job, Run

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
A = TypeVar("A")
AnyRun = TypeVar("AnyRun", bound=RunData)
C_co = TypeVar("C_co", covariant=True)

Awaited = Coroutine[Any, Any, T]
Steps = Callable[..., Generator[Any, Any, Any]]


class Holder(Protocol[C_co]):
    """What methods belong to: a client, a group of its calls, or a snapshot that it returned."""

    @property
    def _client(self) -> C_co: ...


class Method(Generic[P, S, A]):
    """A method with parameters P that returns S on a Client, and A on an AsyncClient."""

    def __init__(
        self, steps: Steps, shown: Callable[..., Any], *, hidden: int = 0, streams: bool = False, own: bool = False
    ) -> None:
        self.steps = steps
        self.shown = shown
        """Has the docstring of the method, and its parameters after the first `hidden` ones."""
        self.hidden = hidden
        self.streams = streams
        self.own = own
        """Its first argument is the snapshot that it is called on."""

    @cached_property
    def signature(self) -> Signature:
        whole = signature(self.shown)
        shown = list(whole.parameters.values())[self.hidden :]
        return whole.replace(parameters=shown, return_annotation=Signature.empty)

    @overload
    def __get__(self, holder: Holder[Client], owner: Any = None) -> Callable[P, S]: ...

    @overload
    def __get__(self, holder: Holder[AsyncClient], owner: Any = None) -> Callable[P, A]: ...

    @overload
    def __get__(self, holder: None, owner: Any = None) -> Method[P, S, A]: ...

    def __get__(self, holder: Any, owner: Any = None) -> Any:
        if holder is None:
            return self
        client = holder._client
        first = (holder,) if self.own else ()

        @wraps(self.shown)
        def method(*args: Any, **kwargs: Any) -> Any:
            steps = self.steps(client, *first, *args, **kwargs)
            return client.stream(steps) if self.streams else client.send(steps)

        method.__signature__ = self.signature  # type: ignore[attr-defined]  # help() and editors read it
        return method


# ------------------------------------------------------------------------------------------------------------- results


def asks(build: Callable[P, Call[T]]) -> Method[P, T, Awaited[T]]:
    """Send one call, and return its result."""
    return Method(_asked(build), build)


def asks_job(build: Callable[P, Call[JobData]]) -> Method[P, Job, Awaited[AsyncJob]]:
    return Method(_asked(build), build)


def asks_run(build: Callable[P, Call[AnyRun]]) -> Method[P, Run[Any], Awaited[AsyncRun[Any]]]:
    return Method(_asked(build), build)


def asks_jobs(build: Callable[P, Call[Page[JobData]]]) -> Method[P, Page[Job], Awaited[Page[AsyncJob]]]:
    return Method(_asked(build), build)


def asks_runs(build: Callable[P, Call[Page[AnyRun]]]) -> Method[P, Page[Run[Any]], Awaited[Page[AsyncRun[Any]]]]:
    return Method(_asked(build), build)


def lists(build: Callable[P, Call[Page[T]]]) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """Iterate over a list, and fetch its pages as needed."""
    return Method(_listed(build), build, streams=True)


def lists_jobs(build: Callable[P, Call[Page[JobData]]]) -> Method[P, Iterator[Job], AsyncIterator[AsyncJob]]:
    return Method(_listed(build), build, streams=True)


def lists_runs(build: Callable[P, Call[Page[AnyRun]]]) -> Method[P, Iterator[Run[Any]], AsyncIterator[AsyncRun[Any]]]:
    return Method(_listed(build), build, streams=True)


def takes(steps: Callable[Concatenate[Asker, P], Exchange[T]]) -> Method[P, T, Awaited[T]]:
    """Take several steps, and return the result of the last."""
    return Method(steps, steps, hidden=1)


def takes_to_run(steps: Callable[Concatenate[Asker, P], Exchange[Any]]) -> Method[P, Run[Any], Awaited[AsyncRun[Any]]]:
    return Method(steps, steps, hidden=1)


def streams(steps: Callable[Concatenate[Asker, P], Stream[T]]) -> Method[P, Iterator[T], AsyncIterator[T]]:
    return Method(steps, steps, hidden=1, streams=True)


def starts_run(build: Callable[P, Call[UUID]]) -> Method[P, Run[Any], Awaited[AsyncRun[Any]]]:
    """Send a call that answers with the id of a new run, and return that run."""

    def steps(asker: Asker, *args: P.args, **kwargs: P.kwargs) -> Exchange[Any]:
        run_id = yield from ask(build(*args, **kwargs), asker.retry_policy)
        return asker.bound((yield from ask(runs.show(run_id), asker.retry_policy)))

    return Method(steps, build)


def _asked(build: Callable[..., Call[Any]]) -> Steps:
    def steps(asker: Asker, *args: Any, **kwargs: Any) -> Exchange[Any]:
        return asker.bound((yield from ask(build(*args, **kwargs), asker.retry_policy)))

    return steps


def _listed(build: Callable[..., Call[Page[Any]]]) -> Steps:
    def steps(asker: Asker, *args: Any, **kwargs: Any) -> Stream[Any]:
        return pages(asker, build(*args, **kwargs))

    return steps


# ------------------------------------------------------------------------------------------------- of what they are


def of_job(method: Method[Concatenate[Id, P], S, A]) -> Method[Concatenate[JobRef, P], S, A]:
    """Take a job as the first argument: a snapshot, an id, the end of one, a key or a name."""
    return _of(method, job_id_of)


def of_run(method: Method[Concatenate[Id, P], S, A]) -> Method[Concatenate[RunRef, P], S, A]:
    """Take a run as the first argument: a snapshot, an id, the end of one, or a job's key or name: its newest run."""
    return _of(method, run_id_of)


def of_worker(method: Method[Concatenate[Id, P], S, A]) -> Method[Concatenate[WorkerRef, P], S, A]:
    return _of(method, worker_id_of)


def _of(method: Method[Any, Any, Any], id_of: Callable[[Asker, Any], Exchange[Any]]) -> Method[Any, Any, Any]:
    def steps(asker: Asker, what: Any, /, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        found = yield from id_of(asker, what)
        return (yield from method.steps(asker, found, *args, **kwargs))

    return Method(steps, method.shown, hidden=method.hidden, streams=method.streams)


def own(method: Method[Concatenate[Any, P], S, A]) -> Method[P, S, A]:
    """Make a call on a job or a run a method of its snapshots."""
    return Method(method.steps, method.shown, hidden=method.hidden + 1, streams=method.streams, own=True)
