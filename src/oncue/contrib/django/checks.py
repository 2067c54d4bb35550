"""What `manage.py check` says about the settings of a backend, and `manage.py check --database default` about oncue in
the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.core.checks import Error
from django.core.checks import Warning as Advice
from django.db import connections

from oncue.client.address import NoServerNamed, find_address
from oncue.contrib.django.database import is_postgres, may_enqueue, role_of
from oncue.contrib.django.framework import InvalidTask
from oncue.domain.errors import Invalid
from oncue.domain.meanings import did_you_mean
from oncue.tasks.options import call_options

if TYPE_CHECKING:
    from oncue.contrib.django.backend import OncueBackend

_KINDS = {"transactional": bool, "database": str, "schema": str, "url": str, "api_key": str}


def option_problems(backend: OncueBackend) -> list[Any]:
    """Check what the settings say; nothing is connected."""
    where = f"TASKS[{backend.alias!r}]"
    found = [*_options(backend, where), *_queues(backend, where)]
    return [*(found or _database(backend, where) or _address(backend, where)), *_declarations(backend)]


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


def _database(backend: OncueBackend, where: str) -> list[Error]:
    if backend.database not in connections:
        hint = f"Write one of these: {', '.join(connections)}."
        return [Error(f"{where}: DATABASES has no {backend.database!r}", hint=hint, id="oncue.E004")]
    if backend.transactional and not is_postgres(backend.database):
        message = f"{where}: transactional needs PostgreSQL, and DATABASES[{backend.database!r}] is another database"
        hint = 'Leave "transactional" out: jobs are then sent to the server by HTTP.'
        return [Error(message, hint=hint, id="oncue.E005")]
    return []


def _address(backend: OncueBackend, where: str) -> Iterator[Error | Advice]:
    by_http = not (is_postgres(backend.database) if backend.transactional is None else backend.transactional)
    try:
        key = find_address(backend.url, backend.api_key).key
    except NoServerNamed as unknown:  # it may run when the application does
        if by_http:
            yield Advice(f"{where}: {unknown}", hint='Set "url" in OPTIONS or ONCUE_URL.', id="oncue.W001")
        return
    except ValueError as wrong:
        yield Error(f"{where}: {wrong}", id="oncue.E006")
        return
    if key is None and by_http:
        yield Advice(
            f"{where}: no API key is set, so jobs cannot be created, nor results read",
            hint='Set "api_key" in OPTIONS or ONCUE_API_KEY; create one with `oncue keys create`.',
            id="oncue.W001",
        )


def _declarations(backend: OncueBackend) -> Iterator[Error | Advice]:
    """What a worker would find wrong in the `tasks` modules, which web processes may import late or never."""
    from oncue.contrib.django.project import as_declared, backends, module_names, tasks_in

    if any(backend.alias != one.alias for one in backends()[:1]):  # each problem is reported once
        return
    for name in module_names():
        try:
            for task in tasks_in(import_module(name)):
                as_declared(task)
        except (Invalid, InvalidTask) as wrong:
            yield Error(f"{name}: {wrong}", id="oncue.E007")
        except (Exception, SystemExit) as error:  # the edge of user code
            message = f"{name} cannot be imported: {type(error).__name__}: {error}"
            yield Advice(message, hint="A worker imports it when it starts, and would not start.", id="oncue.W004")


def check_databases(databases: Iterable[str] | None = None, **_: Any) -> list[Advice]:
    """Warnings, because oncue may be installed after the project's own tables."""
    from oncue.contrib.django.project import backends

    asked = [one for one in backends() if one.database in (databases or ()) and one.transactional is not False]
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
