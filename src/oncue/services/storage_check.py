"""`oncue storage check`: compare object storage with what the database knows of it.

Both are read in pages, in any order, and nothing is changed. So it takes a request for each object, and little memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

import msgspec

from oncue.domain.instants import Instant
from oncue.domain.reference import VERSION, Kind
from oncue.engines.port import UNUSED_FOR, Engine, KnownObject
from oncue.storage.port import Listed, Storage

PAGE = 1_000
TOGETHER = 16  # requests at a time
MOST_NAMED = 1_000  # of each kind; all are counted

Now = Callable[[], Awaitable[Instant]]  # the database's clock
Tell = Callable[[str, int], None]  # what is being done, and how many objects so far


class Wrong(StrEnum):
    MISSING = "missing"  # something refers to it, and it is not in storage
    OTHER_SIZE = "other size"  # it has another size in storage than it had when it was stored
    UNKNOWN = "unknown"  # it is in storage, and the database does not know it
    UNFINISHED = "unfinished"  # a killed process has left it in a folder, and the database does not know its object


class Finding(msgspec.Struct, frozen=True):
    wrong: Wrong
    key: str
    size: int | None  # in storage
    expected: int | None = None  # in the database


class Checked(msgspec.Struct):
    known: int = 0
    stored: int = 0
    bytes: int = 0
    wrong: dict[Wrong, int] = {}
    findings: list[Finding] = []

    def add(self, found: Finding) -> None:
        so_far = self.wrong[found.wrong] = self.wrong.get(found.wrong, 0) + 1
        if so_far <= MOST_NAMED:
            self.findings.append(found)


async def check_storage(engine: Engine, storage: Storage, now: Now, tell: Tell = lambda what, n: None) -> Checked:
    checked = Checked()
    for kind in Kind:
        async for listed in storage.listed(f"{VERSION}/{kind}"):
            checked.stored += len(listed)
            checked.bytes += sum(one.size for one in listed)
            await _find_unknown(engine, storage, listed, await now(), checked)
            tell("objects in storage", checked.stored)
    after = ""
    while page := await engine.objects.walk(after, PAGE):
        checked.known += len(page)
        await _find_missing(engine, storage, page, now, checked)
        tell("objects that the database knows", checked.known)
        after = page[-1].key
    return checked


async def _find_unknown(
    engine: Engine, storage: Storage, listed: Sequence[Listed], now: Instant, checked: Checked
) -> None:
    """Objects are known before their first byte. A young one may be of a database that was restored: leave it alone."""
    known = await engine.objects.known([_object(one.key) for one in listed])
    unknown = {one.key: one for one in listed if _object(one.key) not in known and one.changed_at < now - UNUSED_FOR}
    finished = [key for key in unknown if key == _object(key)]
    sizes = await _sizes(storage, finished)  # those that were deleted since they were listed are gone
    for key, one in unknown.items():
        if key not in sizes:
            checked.add(Finding(Wrong.UNFINISHED, key, one.size))
        elif (size := sizes[key]) is not None:
            checked.add(Finding(Wrong.UNKNOWN, key, size))


async def _find_missing(
    engine: Engine, storage: Storage, page: Sequence[KnownObject], now: Now, checked: Checked
) -> None:
    sizes = await _sizes(storage, [one.key for one in page])
    read_at = await now()
    missing = {one.key for one in page if sizes[one.key] is None and _was_referred_to(one, read_at)}
    missing &= await engine.objects.known(sorted(missing))  # others were deleted meanwhile
    for one in page:
        size = sizes[one.key]
        if one.key in missing:
            checked.add(Finding(Wrong.MISSING, one.key, None, one.size))
        elif size is not None and size != one.size:
            checked.add(Finding(Wrong.OTHER_SIZE, one.key, size, one.size))


def _was_referred_to(one: KnownObject, now: Instant) -> bool:
    """Whether the last look at it found a reference. Before the first look it may not have been put, or never will."""
    return one.made_at + UNUSED_FOR < now < one.gone_at


def _object(key: str) -> str:
    """Return the key of the object that this was to become, if it is unfinished."""
    return key.partition("#")[0]


async def _sizes(storage: Storage, keys: Sequence[str]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for start in range(0, len(keys), TOGETHER):
        some = keys[start : start + TOGETHER]
        found |= zip(some, await asyncio.gather(*map(storage.size, some)), strict=True)
    return found
