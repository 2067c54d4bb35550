"""Whether the database of the project has oncue's function `enqueue`, and whether its role may call it."""

from __future__ import annotations

from typing import Any

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
    row: Any
    with connections[database].cursor() as cursor:
        cursor.execute(_LOOK, [schema])
        row = cursor.fetchone()
    return None if row is None else bool(row[0])


def role_of(database: str) -> str:
    return str(connections[database].settings_dict.get("USER") or "ROLE")
