"""All that is stored, read past the engine in one look, and put back as it was."""

from typing import Any

import asyncpg
import msgspec

Row = dict[str, Any]
Session = asyncpg.Connection

TABLES = (
    "waiting running history dead jobs agenda job_versions job_tags job_keys ledger lanes meters grants tally workers"
).split()
_LOOK = " union all ".join(f"select '{name}', to_jsonb(t)::text from {name} t" for name in TABLES)


class Image(msgspec.Struct, frozen=True):
    """What is stored at one moment; equal images are equal in everything but the order in which it came."""

    tables: dict[str, tuple[str, ...]]

    def rows(self, table: str) -> list[Row]:
        return [msgspec.json.decode(row) for row in self.tables[table]]

    def differs_in(self, other: "Image") -> list[str]:
        return [name for name in TABLES if self.tables[name] != other.tables[name]]

    @property
    def key(self) -> int:
        return hash(tuple(self.tables[name] for name in TABLES))


async def look(session: Session) -> Image:
    found: dict[str, list[str]] = {name: [] for name in TABLES}
    for name, row in await session.fetch(_LOOK):
        found[name].append(_without_number(row) if name == "ledger" else row)
    found["tally"] = _summed(found["tally"])
    return Image({name: tuple(sorted(some)) for name, some in found.items()})


def _without_number(row: str) -> str:
    """A line of the ledger without the number that the server gave it."""
    values = msgspec.json.decode(row)
    del values["entry_id"]
    return msgspec.json.encode(values).decode()


def _summed(rows: list[str]) -> list[str]:
    sums: dict[tuple[int, str], int] = {}
    for row in map(msgspec.json.decode, rows):
        sums[row["uid"], row["what"]] = sums.get((row["uid"], row["what"]), 0) + row["n"]
    return [msgspec.json.encode({"uid": uid, "what": what, "n": n}).decode() for (uid, what), n in sums.items()]


class Kept:
    """A state kept in a schema of its own, to begin from again and again."""

    def __init__(self, session: Session, schema: str, image: Image) -> None:
        self._session = session
        self._schema = schema
        self.image = image

    @classmethod
    async def of(cls, session: Session, schema: str) -> "Kept":
        copies = [f"create table {schema}.{name} as table {name}" for name in TABLES]
        await session.execute(";".join([f"drop schema if exists {schema} cascade; create schema {schema}", *copies]))
        return cls(session, schema, await look(session))

    async def restore(self, now: Image | None) -> None:
        """From what is there now; None: nobody knows."""
        changed = TABLES if now is None else now.differs_in(self.image)
        if changed:
            await self._session.execute(";".join(f"delete from {name}; {self._copy(name)}" for name in changed))

    def _copy(self, name: str) -> str:
        numbered = "overriding system value" if name == "ledger" else ""
        return f"insert into {name} {numbered} select * from {self._schema}.{name}"
