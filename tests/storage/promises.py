"""What every object storage must do, tried on each."""

import secrets

import pytest

from oncue.domain.errors import ObjectLost
from oncue.domain.reference import Reference
from oncue.storage.port import Storage

MB = 1_000_000


async def exercise(storage: Storage) -> None:
    """Put, get and delete; repeats; and what is not there."""
    key = f"v1/payload/1/2026-11-17/{secrets.token_hex(16)}"
    content = secrets.token_bytes(20 * MB)
    reference = Reference.to(key, content)
    with pytest.raises(ObjectLost):
        await storage.get(reference)
    await storage.put(key, content)
    await storage.put(key, b"a repeat changes nothing")
    assert await storage.get(reference) == content
    assert await storage.get_range(reference, 5 * MB, 5 * MB + 10) == content[5 * MB : 5 * MB + 10]
    other = f"{key}0"
    await storage.put(other, b"")
    assert await storage.get(Reference.to(other, b"")) == b""
    assert {found async for found in storage.keys("v1/payload/1")} == {key, other}
    assert [found async for found in storage.keys("v1/payload/2")] == []
    await storage.delete([key, other, f"{key}1"])
    await storage.delete([key])
    with pytest.raises(ObjectLost):
        await storage.get(reference)
