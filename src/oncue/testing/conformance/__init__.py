"""What every engine must do, as tests. An engine's author provides one fixture and imports the rest:

    # conftest.py
    @pytest.fixture
    def empty_store(tmp_path):
        async def make():                       # called: an empty store, up to date
            url = f"mine:///{tmp_path / secrets.token_hex(4)}"

            async def open_one():               # called: one more engine on that store
                return await MyEngine.open(Settings(engine=url))

            return open_one

        return make

    # test_conformance.py
    from oncue.testing.conformance import *

Every test takes a `Store` (store.py) and uses only the verbs of the port. What may differ between engines is read from
`engine.capabilities`. Time is a FakeClock's: nothing sleeps, and any engine is tested at any date.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator

import pytest

TOPICS = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "store")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ["store", *TOPICS]))

from oncue.testing.conformance.store import EmptyStore, Store  # noqa: E402 (its asserts are to be rewritten)

__all__ = ["EmptyStore", "Store", "store"]


@pytest.fixture
async def store(empty_store: EmptyStore) -> AsyncIterator[Store]:
    async with await Store.on(await empty_store()) as store:
        yield store


def _collect() -> None:
    for topic in TOPICS:
        module = importlib.import_module(f"{__name__}.{topic}")
        for name, test in vars(module).items():
            if not name.startswith("test_"):
                continue
            if name in globals():
                raise ImportError(f"two tests are called {name}: one of them would never run")
            globals()[name] = pytest.mark.anyio(test) if inspect.iscoroutinefunction(test) else test
            __all__.append(name)


_collect()
