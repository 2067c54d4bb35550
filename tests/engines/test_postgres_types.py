"""A new connection asks the server only for types that no earlier one has asked for."""

import asyncpg
import pytest

from oncue.domain.instants import SECOND, Duration
from oncue.engines.postgres.connecting import Apart, options
from oncue.engines.postgres.dialling import Dialling


async def session(url: str, *, bounced: bool = False) -> Apart:
    return await Dialling().connect(url, **options(Duration(5 * SECOND), bounced, "oncue", {}))


@pytest.mark.parametrize("bounced", [False, True])
async def test_arrays_are_asked_for_once(postgres_url: str, monkeypatch: pytest.MonkeyPatch, bounced: bool) -> None:
    async def refused(*_: object) -> None:
        raise AssertionError("asked again")

    first = await session(postgres_url, bounced=bounced)
    assert await first.fetchval("select $1::int8[] || $2::int8[]", [1], [2]) == [1, 2]
    await first.close()
    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", refused)
    second = await session(postgres_url, bounced=bounced)
    assert await second.fetchval("select $1::int8[] || $2::int8[]", [1], [2]) == [1, 2]
    assert await second.fetchval("select $1::int8[] || $2::int8[]", [3], [4]) == [3, 4]
    await second.close()
