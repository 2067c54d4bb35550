"""Complete jobs, runs, tasks with their parameters, queues and workers while a command is typed.

The server is asked for at most 0.3 s, and an answer is used again for 10 s. Whatever goes wrong, nothing is printed:
the command line is being typed on this terminal.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.shell_completion import CompletionItem

from oncue.cli.destination import destination
from oncue.cli.tables import short_id
from oncue.clock import Clock, SystemClock
from oncue.domain.instants import SECOND, Duration

if TYPE_CHECKING:
    from oncue.client import Client

LIMIT = 0.3  # seconds: a person waits with a finger on the tab key
FRESH_FOR = Duration(10 * SECOND)
MOST = 50
_TYPEABLE = re.compile(r"(?!-)[\w.@/+-]+(?::?=)?\Z")  # every shell takes these without quotes, and none is an option
_GIVEN = re.compile(r"(?:\A|\s)([^\s:=]+)\s?:?=")  # bash takes `order:=1` for three words

Word = tuple[str, str]
"""What is typed, and what is shown beside it."""
Find = Callable[["Client", str], Iterable[Word]]


def _completing(kind: str, find: Find) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        try:
            words = _answered(ctx, kind, find, begun)
        except Exception:  # a loop's edge: whatever it is, it must not show up on the line being typed
            return []
        fitting = dict(word for word in words if word[0].startswith(begun) and _TYPEABLE.match(word[0]))
        return [CompletionItem(word, help=shown) for word, shown in fitting.items()]

    return complete


def words_with_commas(*known: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Complete one or more of these words, with commas between them."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        before, comma, last = begun.rpartition(",")
        return [CompletionItem(f"{before}{comma}{word}") for word in known if word.startswith(last)]

    return complete


def _answered(ctx: click.Context, kind: str, find: Find, begun: str) -> list[Word]:
    clock: Clock = ctx.find_root().obj or SystemClock()
    to = destination(ctx.params.get("url") or os.environ.get("ONCUE_URL"), quiet=True)
    kept = _Kept(f"{to} {os.environ.get('ONCUE_API_KEY')} {Path.cwd()} {kind} {begun}", clock)
    if (known := kept.read()) is not None:
        return known
    found: list[list[Word]] = []

    def ask() -> None:
        from oncue.client import Client, ClientError

        try:
            with Client(to.url, timeout=LIMIT, retries=0, context=to.context) as client:
                found.append(list(find(client, begun)))
        except (ClientError, ValueError):
            pass  # there is nothing to complete then

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LIMIT)
    if found:
        kept.write(found[0])
    return found[0] if found else []


class _Kept:
    """An answer in the user's cache folder, where only the user can read it."""

    def __init__(self, asked: str, clock: Clock) -> None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oncue"
        self._file = folder / f"completion-{hashlib.sha256(asked.encode()).hexdigest()[:32]}.json"
        self._clock = clock

    def read(self) -> list[Word] | None:
        try:
            at, words = msgspec.json.decode(self._file.read_bytes(), type=tuple[int, list[Word]])
        except (OSError, msgspec.MsgspecError):
            return None
        return words if 0 <= self._clock.now() - at < FRESH_FOR else None

    def write(self, words: list[Word]) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            for old in self._file.parent.glob("completion-*.json"):
                old.unlink(missing_ok=True)  # each is for a moment only
            with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
                opened.write(msgspec.json.encode((self._clock.now(), words)))
        except OSError:
            pass  # then the server is asked each time


def _jobs(client: Client, begun: str) -> Iterable[Word]:
    if begun:
        from oncue.client.fleet import lookup

        found: Iterable[Any] = client.ask(lookup(begun, kind="job")).jobs
    else:
        found = client.jobs.page(status="active", limit=MOST).items
    for job in found:
        names = [word for word in (job.name, job.key) if word and _TYPEABLE.match(word)]
        word = next((name for name in names if name.startswith(begun)), short_id(job.job_id))
        yield word, f"{job.status} {job.name or job.key or job.task or ''}"


def _runs(client: Client, begun: str) -> Iterable[Word]:
    for run in client.runs.page(limit=MOST).items:
        yield short_id(run.run_id), f"{run.status} {run.task or ''}"
    if begun:
        yield from _jobs(client, begun)


def _tasks(client: Client, _: str) -> Iterable[Word]:
    return [(task.name, "") for task in client.tasks.list()]


def _parameters(client: Client, task: str) -> Iterable[Word]:
    """What begins a parameter, required ones first: `to=` where the task takes text, else `order:=`."""
    schema = payload_schema(next((one.schema for one in client.tasks.list() if one.name == task), None))
    required = set(schema.get("required", ()))
    for name, one in sorted(schema.get("properties", {}).items(), key=lambda item: item[0] not in required):
        needed = "required" if name in required else "optional"
        yield name + ("=" if _is_text(one) else ":="), f"{needed} {_shown_type(one)}".strip()


def payload_schema(schema: Any) -> dict[str, Any]:
    """Return the schema of a payload with its properties: of a reference, what it names in its own definitions."""
    if not isinstance(schema, dict):
        return {}
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: dict[str, Any] = schema.get("$defs", {}).get(name, schema) if name else schema
    return found


def _shown_type(schema: Any) -> str:
    kinds = [schema, *schema.get("anyOf", ())]
    return " or ".join(kind["type"] for kind in kinds if isinstance(kind.get("type"), str))


def _is_text(schema: Any) -> bool:
    """Whether a value may be text: `name=value` passes it as text."""
    match schema:
        case {"enum": [*values]}:
            return any(isinstance(value, str) for value in values)
        case {"anyOf": [*kinds]} | {"oneOf": [*kinds]}:
            return any(_is_text(kind) for kind in kinds)
        case {"type": str(kind)}:
            return kind == "string"
        case {"type": [*kinds]}:
            return "string" in kinds
    return isinstance(schema, dict) and "$ref" not in schema and isinstance(schema.get("default"), str | None)


def _queues(client: Client, _: str) -> Iterable[Word]:
    return [(queue.name, "") for queue in client.queues.list()]


def _workers(client: Client, _: str) -> Iterable[Word]:
    return [(worker.name or short_id(worker.worker_id), worker.host or "") for worker in client.workers.list()]


job_names = _completing("jobs", _jobs)
run_names = _completing("runs", _runs)
task_names = _completing("tasks", _tasks)
queue_names = _completing("queues", _queues)
worker_names = _completing("workers", _workers)


def parameter_names(ctx: click.Context, argument: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete parameters of the task that was typed before, without those that have a value."""
    task = str(ctx.params.get("task"))
    given = _GIVEN.findall(" ".join(ctx.params.get("parameters") or ()))
    found = _completing(f"parameters of {task}", lambda client, _: _parameters(client, task))(ctx, argument, begun)
    return [item for item in found if item.value.rstrip(":=") not in given]
