"""Processes must behave the same on both event loops: that of workers, and in `make test-all` that of other tests."""

from collections.abc import Iterator

import pytest
from tests.executors import working

LOOPS = {"asyncio": False, "uvloop": True}


@pytest.fixture(scope="session", params=["uvloop", pytest.param("asyncio", marks=pytest.mark.long)])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": LOOPS[request.param]}


@pytest.fixture(autouse=True)
def only_ours() -> Iterator[None]:
    working.others.clear()
    working.others |= working.children()
    yield
    working.others.clear()
