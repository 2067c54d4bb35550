"""Which schema a database has, and which code works on it: see docs/design/0015-upgrades.md.

A database stores the numbers of the migrations it has had, and its *level*: the oldest schema whose code still works
on it. An additive migration leaves the level unchanged, so that processes of the version before keep running, and can
restart. A migration that breaks them says so in its first line: `-- compatible from: 7`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import structlog

from oncue.domain.errors import OncueError

Migration = tuple[int, str]  # its number and its script

log = structlog.get_logger()

_STATED = re.compile(r"-- compatible from: (\d+)\n")


class Schema(msgspec.Struct, frozen=True):
    applied: frozenset[int] = frozenset()
    level: int = 0  # 0: the database is empty

    @property
    def version(self) -> int:
        return max(self.applied, default=0)

    def after(self, number: int, script: str) -> Schema:
        """Return the schema after this migration. No code works on a level below the first."""
        stated = _STATED.match(script)
        return Schema(self.applied | {number}, max(self.level, 1, int(stated[1]) if stated else 0))


def missing(known: Sequence[Migration], found: Schema, where: str) -> list[Migration]:
    """Return the known migrations that the database has not had, in order. Refuses code that is too old for it."""
    newest = known[-1][0]
    if found.level > newest:
        raise OncueError(
            f"{where} needs a newer version of oncue: its schema has level {found.level}, and this version "
            f"supports levels up to {newest}"
        )
    return [one for one in known if one[0] not in found.applied]


def log_migration(before: int, after: int) -> None:
    if before != after:
        log.info("Migrated the database schema", kind="migrated", from_version=before, to_version=after)
