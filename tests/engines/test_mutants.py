"""The suite can fail: each planted bug is caught by the test that is there for it."""

import pytest
from tests.engines.mutants import MUTANTS, Mutant

from oncue.engines.port import Engine
from oncue.testing.conformance import EmptyStore, Store
from oncue_conformance.store import Open


@pytest.mark.mutants
@pytest.mark.parametrize(
    ("mutant", "engine_name"),
    [
        pytest.param(
            mutant, name, id=f"{name}-{mutant.bug}", marks=[pytest.mark.postgres] if name == "postgres" else []
        )
        for mutant in MUTANTS
        for name in mutant.engines
    ],
    indirect=["engine_name"],
)
async def test_a_planted_bug_is_caught(
    mutant: Mutant, engine_name: str, empty_store: EmptyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statement in mutant.statements:
        if statement.module.startswith(engine_name):
            statement.plant(monkeypatch)

    for _ in range(mutant.tries):
        if await is_caught(mutant, empty_store):
            return
    pytest.fail(f"{mutant.caught_by} passes although {mutant.bug}")


async def is_caught(mutant: Mutant, empty_store: EmptyStore) -> bool:
    """Whether its test fails on this mutant: by what it asserts, not by an error that any bug might cause."""
    async with await Store.on(planted(mutant, await empty_store())) as store:
        try:
            await mutant.test(store, **mutant.having)
        except (AssertionError, ValueError):  # a ValueError is `[one] = answer` with none or two in it
            return True
    return False


def planted(mutant: Mutant, open_one: Open) -> Open:
    async def open_mutant() -> Engine:
        return mutant.plant(await open_one())

    return open_mutant
