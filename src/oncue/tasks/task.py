"""A task: its function, the schema of its payload, the defaults of its jobs, and the handle that user code calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum
from typing import Any, Self, overload

import msgspec

from oncue.context import Context
from oncue.domain.errors import Invalid, Problem, tried
from oncue.domain.models import dumped
from oncue.domain.plain_json import is_not_finite
from oncue.domain.secret_refs import filled
from oncue.secret import Asked, RunSecrets, finding, secrets_of_run
from oncue.tasks.handle import Handle, Planned
from oncue.tasks.hooks import Hooked, Hooks, Shared
from oncue.tasks.local import local_context
from oncue.tasks.places import BadDeclaration, place
from oncue.tasks.schedules import caller
from oncue.tasks.signature import decoder, read_signature
from oncue.tasks.typevars import P, R


class Isolation(StrEnum):
    """Where a task's code runs."""

    __hash__ = str.__hash__  # an enum's own is slow Python code, and these are keys for every run

    LOOP = "loop"  # async functions: in the worker's event loop
    THREAD = "thread"  # sync functions: in a thread of the worker
    PROCESS = "process"  # either kind, on request: in a process of its own, which can be killed


class Task(Hooked, Handle[P, R]):
    """One task: its function, the schema of its payload, and the defaults of its jobs.

    It is called like the function, which then runs here and now; and it is the handle by which a worker runs it:

        run = await charge.enqueue(order=7)
        await charge.using(queue="mail", key="order-7").enqueue_in("10m", order=7)
        print(charge.sync.run(order=7))

    `P` are the parameters of the function without the context, `R` is what it returns.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        isolation: Isolation,
        defaults: Mapping[str, Any],
        roles: tuple[str, ...],
        takes: Isolation | None = None,
        filled: tuple[str, ...] = (),
        no_retry_on: tuple[type[BaseException], ...] = (),
        shared: Shared | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.isolation = isolation
        # The kind of slot it takes in a worker: a command's function runs in the loop, its program does not.
        self.takes = takes or isolation
        self.defaults = dict(defaults)
        self.roles = roles
        self.no_retry_on = no_retry_on
        self.shared = shared or Shared()
        self.clients = self.shared.clients
        self.options: Mapping[str, Any] = {}
        self.hooks = Hooks()
        self.state: Any = None  # what the lifespan of its set has yielded in this process
        self._filled = filled  # parameters of any type, in which {"secret": "name"} stands for a text
        parameters = read_signature(function)
        self.takes_context = parameters.takes_context
        self.returns = parameters.returns
        self._signature = parameters.signature
        self._fields = parameters.payload.__struct_fields__
        self._decode, self._schema = decoder(parameters.payload)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def schema(self) -> bytes:
        """Return the JSON Schema of the payload, which workers register."""
        return self._schema

    def arguments(self, payload: bytes | None) -> dict[str, Any]:
        """Decode the payload to keyword arguments. Invalid: it does not fit the signature; a retry does not help."""
        if not self._fields and payload is None:
            return {}
        try:
            given = self._decode(payload or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as wrong:
            raise Invalid.of(
                "payload", "mismatch", f"does not fit the signature of task {self.name!r}: {wrong}"
            ) from None
        arguments = {field: getattr(given, field) for field in self._fields}
        for field in self._filled:
            arguments[field] = filled(arguments[field], secrets_of_run.get().find)
        return arguments

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as JSON values. TypeError: a name is missing or unknown. Invalid: a value does
        not fit the signature."""
        try:
            given = self._signature.bind(*args, **kwargs).arguments
        except TypeError as wrong:
            raise TypeError(f"task {self.name!r}: {wrong}") from None
        try:
            plain: dict[str, Any] = msgspec.to_builtins(given, str_keys=True, enc_hook=dumped)
            stored = msgspec.json.encode(plain)
            if b"null" in stored and is_not_finite(plain):
                raise ValueError("a number in it is not finite")
        except (TypeError, ValueError, RecursionError) as wrong:
            raise Invalid.of("payload", "wrong_type", f"cannot be written as JSON: {wrong}") from None
        with finding(RunSecrets(Asked())):
            self.arguments(stored)
        return plain

    def declare(self, when: Planned, /, *args: P.args, **kwargs: P.kwargs) -> Self:
        """Declare a job that runs the task by a schedule, with the key of `using`, or with the task's name as its key.

        `oncue up` and `oncue apply` create it, and change it when the code changes. Returns the same handle.
        """
        file, line = caller(1)
        self.shared.schedules.read(file)
        try:
            self.declare_at(place(file, line), when, args, kwargs)
        except BadDeclaration as wrong:
            raise wrong.with_traceback(None) from None
        return self

    def declare_at(self, where: str, when: Planned, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Declare a job at a place in user code. BadDeclaration: an argument or the schedule is wrong."""
        what, payload = f"task {self.name!r}:", dict[str, Any]()
        problems: list[Problem] = []
        try:
            payload = self.payload(args, kwargs)
        except TypeError as wrong:
            said = str(wrong).removeprefix(what).strip()
            if said.startswith("missing"):
                said = f"is {said}; pass it with payload=, or give the parameter a default"
            problems.append(Problem("payload", "mismatch", said))
        except Invalid as wrong:
            problems += wrong.problems
        alone = tried(problems, self.job_alone, when)
        if alone is not None:
            fields = {"key": self.name, **self.defaults, **alone, **({"payload": payload} if payload else {})}
            fields["key"] = fields["key"] or self.name
            self.shared.schedules.add(where, fields, problems)
        if problems:
            self.shared.schedules.refuse(BadDeclaration(where, what, tuple(problems)))

    def call(self, ctx: Context[Any], arguments: Mapping[str, Any]) -> Any:
        """Call the function as a run does; the context is passed if the function takes it."""
        return self.function(ctx, **arguments) if self.takes_context else self.function(**arguments)

    def all_hooks(self) -> Hooks:
        """Return the hooks of its set, then its own."""
        return self.shared.hooks + self.hooks

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class _Callable(Task[P, R]):
    """A task that is called like its function, and has the function's name, docstring and module."""

    def __init__(self, name: str, function: Callable[..., Any], **given: Any) -> None:
        super().__init__(name, function, **given)
        functools.update_wrapper(self, function, updated=())  # type: ignore[arg-type]  # subclasses are callable

    def __reduce__(self) -> str:
        """Pickle by name, as Python does with a function."""
        found: str = self.__dict__["__qualname__"]
        return found

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not self.takes_context:
            args = args[1:] if args and isinstance(args[0], Context) else args
        elif not (args and isinstance(args[0], Context)):
            args = (local_context(self.name, self.state), *args)
        return self.function(*args, **kwargs)


class FunctionTask(_Callable[P, R]):
    """A task made of a plain function. Called directly, the function runs here and now, without oncue."""

    @overload
    def __call__(self, ctx: Context[Any], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function. Without a context as the first argument it gets a local one."""
        return self._called(args, kwargs)


class AsyncFunctionTask(_Callable[P, R]):
    """A task made of an async function. Called directly, the function runs here and now, without oncue."""

    @overload
    def __call__(self, ctx: Context[Any], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function. Without a context as the first argument it gets a local one."""
        return self._called(args, kwargs)
