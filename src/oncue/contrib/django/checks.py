"""What `manage.py check` says about the settings of a backend, and `manage.py check --database default` about oncue in
the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django.core.checks import Error
from django.core.checks import Warning as Advice
from django.db import connections

from oncue.client.address import find_address
from oncue.contrib.django.database import is_postgres, may_enqueue, role_of
from oncue.domain.errors import Invalid
from oncue.domain.fields import did_you_mean
from oncue.tasks.options import call_options

if TYPE_CHECKING:
    from oncue.contrib.django.backend import OncueBackend

_KINDS = {"transactional": bool, "database": str, "schema": str, "url": str, "api_key": str}


def option_problems(backend: OncueBackend) -> list[Any]:
    """Check what the settings say; nothing is connected."""
    where = f"TASKS[{backend.alias!r}]"
    found = [*_options(backend, where), *_queues(backend, where)]
    return found or [*_database(backend, where), *_address(backend, where)]


def _options(backend: OncueBackend, where: str) -> Iterator[Error]:
    for name, value in backend.options.items():
        if (kind := _KINDS.get(name)) is None:
            message = f"{where}: OPTIONS has an unknown name {name!r}; {did_you_mean(name, _KINDS)}"
            yield Error(message, hint=f"Known are: {', '.join(_KINDS)}.", id="oncue.E001")
        elif not isinstance(value, kind):
            yield Error(f"{where}: OPTIONS[{name!r}] must be a {kind.__name__}, not {value!r}", id="oncue.E002")


def _queues(backend: OncueBackend, where: str) -> Iterator[Error]:
    for queue in sorted(backend.queues):
        try:
            call_options("task", {"queue": queue})
        except Invalid as wrong:
            yield Error(f"{where}: QUEUES: {wrong}", id="oncue.E003")


def _database(backend: OncueBackend, where: str) -> Iterator[Error]:
    if backend.database not in connections:
        hint = f"Write one of these: {', '.join(connections)}."
        yield Error(f"{where}: DATABASES has no {backend.database!r}", hint=hint, id="oncue.E004")
    elif backend.transactional and not is_postgres(backend.database):
        message = f"{where}: transactional needs PostgreSQL, and DATABASES[{backend.database!r}] is another database"
        hint = 'Leave "transactional" out: jobs are then sent to the server by HTTP.'
        yield Error(message, hint=hint, id="oncue.E005")


def _address(backend: OncueBackend, where: str) -> Iterator[Error | Advice]:
    try:
        key = find_address(backend.url, backend.api_key).key
    except ValueError as wrong:
        yield Error(f"{where}: {wrong}", id="oncue.E006")
        return
    if key is None:
        yield Advice(
            f"{where}: no API key is set, so results cannot be read, nor jobs created outside of transactions",
            hint='Set "api_key" in OPTIONS or ONCUE_API_KEY; create one with `oncue keys create`.',
            id="oncue.W001",
        )


def check_databases(databases: Iterable[str] | None = None, **_: Any) -> list[Advice]:
    """Warnings, because oncue may be installed after the project's own tables."""
    from oncue.contrib.django.backend import OncueBackend
    from oncue.contrib.django.framework import task_backends

    ours = [backend for backend in task_backends.all() if isinstance(backend, OncueBackend)]
    asked = [one for one in ours if one.database in (databases or ()) and one.transactional is not False]
    return [problem for backend in asked for problem in _function(backend, f"TASKS[{backend.alias!r}]")]


def _function(backend: OncueBackend, where: str) -> Iterator[Advice]:
    if not is_postgres(backend.database):
        return
    allowed = may_enqueue(backend.database, backend.schema)
    if allowed is None:
        message = f"{where}: DATABASES[{backend.database!r}] has no oncue in the schema {backend.schema!r}"
        hint = (
            f"Run `oncue migrate --engine 'postgresql://…?schema={backend.schema}'`, or set \"transactional\": False."
        )
        yield Advice(message, hint=hint, id="oncue.W002")
    elif not allowed:
        role = role_of(backend.database)
        hint = f"Run `oncue db grant {role} --user USER --role member`."
        yield Advice(f"{where}: the database role {role!r} may not enqueue jobs", hint=hint, id="oncue.W003")
