"""The reference pages of the site, written from the docstrings of the public Python API. Nothing here is committed."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, get_overloads

import oncue
from oncue import client, testing
from oncue.client import resources
from oncue.client.methods import Method
from oncue.shapes.jobs import JobFields
from oncue.shapes.schedules import Series
from oncue.tasks import Failure, Task
from oncue.tasks.options import CallOptions, JobOptions, TaskOptions
from oncue.testing import plugin
from oncue.testing.app import SyncApp
from oncue.testing.calls import Enqueued
from oncue.testing.clock import SOME_DAY
from oncue.testing.postgres import PrivatePostgres
from oncue.testing.single_run import FinishedAttempt

WIDEST = 88  # characters of a signature on one line


class Entry(NamedTuple):
    """One class or function. `members` are the methods and attributes to describe; None: all public ones."""

    name: str
    what: Any
    members: Sequence[str] | None = None


VERBS = ("enqueue", "enqueue_in", "enqueue_at", "run", "schedule", "run_now", "declare", "using", "bind", "sync")
ERRORS = [
    name
    for name in client.__all__
    if isinstance(getattr(client, name), type) and issubclass(getattr(client, name), Exception)
]
GROUPS = {
    name: type(group)
    for name, group in vars(client.Client("http://reference", "none")).items()
    if isinstance(group, resources.Resource)
}

TASKS = [
    Entry(
        "Tasks",
        oncue.Tasks,
        ("task", "enqueue_many", "sync", "connected", "include", "middleware", "on_failure", "on_success", "on_dead"),
    ),
    Entry("Options of a task", TaskOptions),
    Entry("Options of a job", JobOptions),
    Entry("Task", Task, VERBS),
    Entry("Options of a call", CallOptions),
    Entry("Context", oncue.Context),
    Entry("NoRetry", oncue.NoRetry),
    Entry("RetryAfter", oncue.RetryAfter),
    Entry("cron", oncue.cron),
    Entry("every", oncue.every),
    Entry("at", oncue.at),
    Entry("Options of a recurring schedule", Series),
    Entry("enqueue", oncue.enqueue),
    Entry("Outbox", oncue.Outbox),
    Entry("embedded", oncue.embedded),
    Entry("Secret", oncue.Secret, ("named", "of", "reveal")),
    Entry("oncue.tasks.Failure", Failure),
    Entry("OncueError", oncue.OncueError),
]
CLIENT = [
    Entry("Client", client.Client, ("events", "close")),
    Entry("AsyncClient", client.AsyncClient, ("events", "close")),
    Entry("Job", client.Job),
    Entry("Run", client.Run),
    Entry("client", resources.Calls),
    *(Entry(f"client.{name}", GROUPS[name]) for name in GROUPS if name != "_client"),
    *(Entry(name, getattr(client, name)) for name in ERRORS),
]
TESTING = [
    Entry("run", testing.run),
    Entry("arun", testing.arun),
    Entry("FinishedRun", testing.FinishedRun),
    Entry("FinishedAttempt", FinishedAttempt),
    Entry("fake_state", testing.fake_state),
    Entry("FakeContext", testing.FakeContext, ()),
    *(
        Entry(f"{name} (fixture)", getattr(plugin, name))
        for name in ("oncue_tasks", "oncue_fake", "oncue_inline", "oncue_app")
    ),
    Entry("OncueFake", testing.OncueFake, ("enqueued", "assert_enqueued", "assert_not_enqueued")),
    Entry("OncueInline", testing.OncueInline, ()),
    Entry("OncueApp", testing.OncueApp, ("apply", "drain", "travel", "now", "sync", "assert_ran")),
    Entry("OncueApp.sync", SyncApp),
    Entry("Enqueued", Enqueued, ()),
    Entry("FakeClock", testing.FakeClock, ("now", "advance", "jump")),
    Entry(
        "oncue.testing.postgres.PrivatePostgres",
        PrivatePostgres,
        ("url", "create_database", "drop_database", "restart", "close"),
    ),
]
PAGES = {
    "reference/tasks.md": (
        "Reference: tasks",
        "What `oncue` exports. [Writing tasks](../tasks.md) explains how to use it.",
        TASKS,
    ),
    "reference/client.md": (
        "Reference: client",
        "What `oncue.client` exports. [Python client](../client.md) explains how to use it; `**fields` are the "
        "[fields of a job](../api.md#a-job). The calls of `client.jobs` and the other groups are those of both "
        "clients: with an `AsyncClient`, await them, and iterate over lists with `async for`.",
        CLIENT,
    ),
    "reference/testing.md": (
        "Reference: testing",
        "What `oncue.testing` exports. [Test your tasks](../testing-your-tasks.md) explains how to use it.",
        TESTING,
    ),
}

CREATED = {
    *(oncue.Tasks, oncue.RetryAfter, oncue.Outbox, client.Client, client.AsyncClient, PrivatePostgres),
    *(testing.FakeContext, testing.OncueFake, testing.OncueInline, testing.OncueApp, testing.FakeClock),
}


def pages() -> dict[str, str]:
    """Return the text of each reference page, by its path in the site."""
    return {path: _page(*page) for path, page in PAGES.items()}


def _page(title: str, intro: str, entries: list[Entry]) -> str:
    return "\n\n".join([f"# {title}", intro, *(part for entry in entries for part in _described(entry))]) + "\n"


def _described(entry: Entry) -> Iterator[str]:
    yield f"## {entry.name}"
    if _is_called(entry.what) and not entry.name.endswith("(fixture)"):
        yield _code(entry.name.rsplit(".", 1)[-1], entry.what)
    yield doc(entry.what)
    if rows := list(fields(entry.what)):
        yield "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])
    for name, member in members(entry):
        yield f"### {entry.name}.{name}"
        if not isinstance(member, property):
            yield _code(name, member)
        yield doc(member)


def members(entry: Entry) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of a class that its entry describes, in the order of the code."""
    if not isinstance(entry.what, type) or issubclass(entry.what, dict):
        return
    found = {
        name: one for kind in reversed(_ours(entry.what)) for name, one in vars(kind).items() if _is_member(name, one)
    }
    for name in found if entry.members is None else entry.members:
        yield name, found[name]


def _is_member(name: str, one: Any) -> bool:
    return not name.startswith("_") and (
        _method(one) is not None or inspect.isfunction(one) or isinstance(one, property | classmethod)
    )


def _ours(kind: type) -> list[type]:
    """The class and those of oncue that it inherits from. Data of the API is described as fields."""
    return [one for one in kind.__mro__ if one.__module__.startswith("oncue.")]


def _method(one: Any) -> Method[..., Any, Any] | None:
    """The method of a client behind a descriptor, if this is one."""
    one = getattr(one, "method", one)
    return one if isinstance(one, Method) else None


def doc(what: Any) -> str:
    """Return the docstring of a class, function, property or method of a client."""
    method = _method(what)
    return inspect.cleandoc((method.shown if method is not None else what).__doc__ or "")


def _is_called(what: Any) -> bool:
    """Whether user code calls it: a function, or a class of which it creates objects."""
    return what in CREATED if isinstance(what, type) else inspect.isroutine(what)


def _code(name: str, what: Any) -> str:
    return f"```py\n{signature(name, what)}\n```"


def signature(name: str, what: Any) -> str:
    """Return how something is called, as Python code."""
    method = _method(what)
    what = getattr(what, "__func__", what)
    if inspect.isfunction(what):
        what = next(reversed(get_overloads(what)), what)  # the last one is the most general
    found = method.signature if method is not None else inspect.signature(what)
    parts = list(_parameters(one for one in found.parameters.values() if one.name not in ("self", "cls")))
    answer = found.return_annotation
    end = "" if isinstance(what, type) or answer is inspect.Signature.empty else f" -> {answer}"
    start = f"{'async ' if inspect.iscoroutinefunction(what) else ''}{name}"
    line = f"{start}({', '.join(parts)}){end}"
    return line if len(line) <= WIDEST else "\n".join([f"{start}(", *(f"    {part}," for part in parts), f"){end}"])


def _parameters(found: Iterable[inspect.Parameter]) -> Iterator[str]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    kind = None
    for one in found:
        if kind is inspect.Parameter.POSITIONAL_ONLY and one.kind is not kind:
            yield "/"
        if one.kind is inspect.Parameter.KEYWORD_ONLY and kind not in (one.kind, inspect.Parameter.VAR_POSITIONAL):
            yield "*"
        kind = one.kind
        type_ = "" if one.annotation is one.empty else re.sub(r"Unpack\[(\w+)\]", r"\1", f": {one.annotation}")
        default = "" if one.default is one.empty else f" = {'…' if one.default == SOME_DAY else repr(one.default)}"
        yield f"{stars.get(one.kind, '')}{one.name}{type_}{default}"
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def fields(what: Any) -> Iterator[str]:
    """Yield rows with the fields of a struct or a typed dict, and the words that stand below each."""
    if not isinstance(what, type) or not (issubclass(what, dict) or hasattr(what, "__struct_fields__")):
        return
    found: dict[str, tuple[str, str]] = {}
    for kind in reversed(_ours(what)) if not issubclass(what, dict) else [what]:
        found |= _declared(kind)
    for name, (type_, words) in found.items():
        if not words and (issubclass(what, dict) or what is client.Job):
            words = OF_JOBS.get(name, ("", ""))[1]
        words = re.sub(r"\]\((?=[a-z-]+\.md)", "](../", words).replace("](#", "](../api.md#")  # written for api.md
        if not name.startswith("_"):
            yield f"| `{name}` | `{type_.replace('|', chr(92) + '|')}` | {words} |"


def _declared(kind: type) -> dict[str, tuple[str, str]]:
    [body] = [
        node.body for node in ast.parse(textwrap.dedent(inspect.getsource(kind))).body if isinstance(node, ast.ClassDef)
    ]
    found = {}
    for node, below in pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            says = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            found[node.target.id] = (
                ast.unparse(node.annotation),
                " ".join(str(below.value.value).split()) if says else "",
            )
    return found


OF_JOBS = _declared(JobFields)  # the options of tasks and calls are fields of jobs, described there
