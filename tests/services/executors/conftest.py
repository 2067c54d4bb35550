"""Processes must behave the same on both event loops that workers and tests use."""

import pytest

LOOPS = {"asyncio": False, "uvloop": True}


@pytest.fixture(scope="session", params=list(LOOPS))
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": LOOPS[request.param]}
