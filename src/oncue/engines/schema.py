"""Which schema a database has, and which code works on it: see docs/design/0015-upgrades.md.

A database stores the numbers of the migrations it has had, and its *level*: the oldest schema whose code still works
on it. An additive migration leaves the level unchanged, so that processes of the version before keep running, and can
restart. A migration that breaks them says so in its first line: `-- compatible from: 7`. One that removes what they
use is marked in addition, `-- contract, compatible from: 7`: only `oncue migrate --contract` applies it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from oncue.domain.errors import OncueError
from oncue.domain.instants import MINUTE, Duration, Instant, rfc3339
from oncue.domain.plain_text import printable
from oncue.engines.values import Member
from oncue.log import log

Migration = tuple[int, str]  # its number and its script


STILL_RUNS = Duration(10 * MINUTE)  # a process with a heartbeat in this time may still use the schema
MOST_NAMED = 10  # processes in a message
MOST_TABLES = 5  # in a message

_STATED = re.compile(r"-- (contract, )?compatible from: (\d+)\n")


class Schema(msgspec.Struct, frozen=True):
    applied: frozenset[int] = frozenset()
    level: int = 0  # 0: there is no table of ours
    others: tuple[str, ...] = ()  # the tables there, while nothing records that they are ours
    shared: bool = False  # whether other programs may have tables beside ours

    @property
    def version(self) -> int:
        return max(self.applied, default=0)

    def after(self, number: int, script: str) -> Schema:
        """Return the schema after this migration. No code works on a level below the first."""
        return Schema(self.applied | {number}, max(self.level, 1, stated_level(script)))


class Pending(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a database has, and which of the known migrations it has not had."""

    version: int  # 0: the database has no table of ours, or does not exist
    level: int
    expand: tuple[int, ...]  # applied at start and by `oncue migrate`
    contract: tuple[int, ...]  # applied by `oncue migrate --contract`
    others: tuple[str, ...] = ()  # tables of other programs, if there is none of ours
    newest: int = 0  # the newest migration that this program knows, if the database has a newer one


def stated_level(script: str) -> int:
    """Return the oldest schema whose code works after this migration; 0: it says nothing."""
    stated = _STATED.match(script)
    return int(stated[2]) if stated else 0


def is_contract(script: str) -> bool:
    stated = _STATED.match(script)
    return stated is not None and stated[1] is not None


def missing(known: Sequence[Migration], found: Schema, where: str) -> list[Migration]:
    """Return the migrations to apply at start, in order. Refuses code that is too old for the database, and a database
    of another program.
    """
    _refuse_others(known, found, where)
    newest = known[-1][0]
    if found.level > newest:
        raise OncueError(
            f"{where} needs a newer version of oncue: its schema has level {found.level}, and this version "
            f"supports levels up to {newest}"
        )
    return [one for one in known if one[0] not in found.applied and not is_contract(one[1])]


def _refuse_others(known: Sequence[Migration], found: Schema, where: str) -> None:
    """Raise OncueError if the tables are another program's, or would clash with ours."""
    is_ours = found.version and created(known[:1]) <= set(found.others)  # 0.1.0 did not record migrations
    foreign = [name for name in found.others if not found.shared or name in created(known)]
    if foreign and not is_ours:
        place = "database or schema" if found.shared else "file"
        raise OncueError(
            f"{where} has tables that are not oncue's: {named(foreign)}. Use another {place}: correct the setting "
            "`engine`"
        )


def created(known: Iterable[Migration]) -> set[str]:
    """Return the names of the tables that these migrations create."""
    return {name for _, script in known for name in re.findall(r"create table (\w+)", script)}


def named(tables: Sequence[str]) -> str:
    """List the names of tables, which are other programs' words, on one line."""
    more = f" and {len(tables) - MOST_TABLES} more" if len(tables) > MOST_TABLES else ""
    return ", ".join(printable(name) for name in tables[:MOST_TABLES]) + more


def missing_contracts(known: Sequence[Migration], found: Schema) -> list[Migration]:
    """Return the contract migrations that the database has not had, in order."""
    return [one for one in known if one[0] not in found.applied and is_contract(one[1])]


def pending(known: Sequence[Migration], found: Schema, where: str) -> Pending:
    return Pending(
        found.version,
        found.level,
        tuple(number for number, _ in missing(known, found, where)),
        tuple(number for number, _ in missing_contracts(known, found)),
        () if found.version else found.others,
        known[-1][0] if found.version > known[-1][0] else 0,
    )


def refuse_while_used(migration: Migration, members: Iterable[Member], now: Instant) -> None:
    """Raise OncueError if a process whose code is too old for this migration had a heartbeat lately."""
    number, script = migration
    level = stated_level(script)
    old = [one for one in members if one.schema < level and now - one.beat_at < STILL_RUNS]
    if not old:
        return
    named = ", ".join(
        f"{printable(one.role)} on {printable(one.host)} (version {printable(one.version)}, schema {one.schema}, "
        f"last heartbeat {rfc3339(one.beat_at)})"
        for one in old[:MOST_NAMED]
    )
    more = f", and {len(old) - MOST_NAMED} more" if len(old) > MOST_NAMED else ""
    raise OncueError(
        f"migration {number} was not applied: processes with a schema older than {level} use this database: "
        f"{named}{more}. Stop or upgrade them, then repeat `oncue migrate --contract`; a process that was killed "
        "counts for 10 minutes after its last heartbeat"
    )


def log_migration(before: int, after: int) -> None:
    """Log that a schema was brought up to date. Creating one in an empty database is no news."""
    if 0 < before != after:
        log.info("Migrated the database schema", kind="migrated", from_version=before, to_version=after)
