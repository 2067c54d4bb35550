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
    await storage.put(f"{key}2", b"of a folder without any object it is not known whether it is the right one")
    with pytest.raises(ObjectLost):
        await storage.get(reference)
    await storage.put(key, content)
    await storage.put(key, b"a repeat changes nothing")
    assert await storage.get(reference) == content
    assert await storage.get_range(reference, 5 * MB, 5 * MB + 10) == content[5 * MB : 5 * MB + 10]
    assert (await storage.size(key), await storage.size(f"{key}1")) == (len(content), None)
    other = f"{key}0"
    await storage.put(other, b"")
    assert await storage.get(Reference.to(other, b"")) == b""
    pages = [page async for page in storage.listed("v1/payload/1")]
    sizes = {one.key: one.size for page in pages for one in page}
    assert (sizes[key], sizes[other]) == (len(content), 0)
    assert [page async for page in storage.listed("v1/payload/7")] == []
    await storage.delete([key, other, f"{key}1", f"{key}2"])
    await storage.delete([key])
    with pytest.raises(ObjectLost):
        await storage.get(reference)
