"""oncue in the database of the project: whether it is there, and what it says of a job that is not created yet."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from django.db import connections

_FOUND: set[tuple[str, str]] = set()
_LOOK = """
    select has_function_privilege(p.oid, 'execute') and has_schema_privilege(n.oid, 'usage')
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = %s and p.proname = 'enqueue'
"""


def is_installed(database: str, schema: str) -> bool:
    """Look for the function until it is there; then it stays."""
    if (database, schema) not in _FOUND and may_enqueue(database, schema) is not None:
        _FOUND.add((database, schema))
    return (database, schema) in _FOUND


def is_postgres(database: str) -> bool:
    return bool(connections[database].vendor == "postgresql")


def may_enqueue(database: str, schema: str) -> bool | None:
    """Return whether the role of the connection may call the function. None: there is no function."""
    if not is_postgres(database):
        return None
    with connections[database].cursor() as cursor:
        cursor.execute(_LOOK, [schema])
        row: Any = cursor.fetchone()
    return None if row is None else bool(row[0])


def enqueued(database: str, schema: str, job_id: UUID) -> Any:
    """Return what the outbox has of a job that no scheduler has created yet. None: it has no such job."""
    if not is_installed(database, schema):
        return None
    quoted = connections[database].ops.quote_name(schema)
    with connections[database].cursor() as cursor:
        cursor.execute(f"select cast({quoted}.enqueued(%s) as text)", [job_id])
        row: Any = cursor.fetchone()
    return None if row[0] is None else msgspec.json.decode(row[0])


def role_of(database: str) -> str:
    return str(connections[database].settings_dict.get("USER") or "ROLE")
