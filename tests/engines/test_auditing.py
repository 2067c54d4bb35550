"""What the self-audit reads where the store is not as it must be, by damage that is planted past the engine."""

import pytest

from oncue.domain.instants import MINUTE, SECOND
from oncue.engines.port import Sums
from oncue.testing import conformance
from oncue_conformance.store import Store

store = conformance.store


async def damage(store: Store, engine_name: str, statement: str) -> None:
    """Do this to the runs that wait: PostgreSQL has them in a table of their own."""
    if engine_name == "postgres":
        await store.engine._store.fetch(statement.format(runs="waiting"))  # type: ignore[attr-defined]
    else:
        await store.engine._store.write(  # type: ignore[attr-defined]
            lambda db: db.execute(statement.format(runs="runs")).fetchall()
        )


@pytest.mark.parametrize(
    ("how", "lost", "seen"),
    [
        ({"group": "g"}, "held = 1", [False, False]),  # held: lane
        ({"gate": ("k", 1)}, "held = 2", [False, False]),  # held: gate
        ({"group": "g", "gate": ("k", 1)}, "held = held | 2", [False, True]),  # the first is let into the lane only
    ],
    ids=["lane", "gate", "gate behind a lane"],
)
async def test_a_lane_that_has_admitted_nobody_is_seen(
    store: Store, engine_name: str, how: dict[str, object], lost: str, seen: list[bool]
) -> None:
    """Catches a look at the lane where the gate is in the way, or at what others have admitted."""
    await store.one_shots(2, apart=SECOND, name="stuck", **how)
    await store.one_shots(2, due=5 * SECOND, apart=SECOND, group="another")
    store.advance(MINUTE)
    assert [one.admitted for one in await store.auditing.longest_held(store.now)] == [True, True]

    await damage(store, engine_name, f"update {{runs}} set {lost} where name = 'stuck'")

    assert [one.admitted for one in await store.auditing.longest_held(store.now)] == [*seen, True]


async def test_a_run_that_is_gone_is_missed_by_its_sum(store: Store, engine_name: str) -> None:
    await store.one_shots(3)
    await store.maintenance.roll_up()
    run_id = await store.one_shot(name="lost")
    assert await store.auditing.sums() == Sums(4, 4)

    await damage(store, engine_name, "delete from {runs} where name = 'lost'")

    assert await store.auditing.sums() == Sums(4, 3)
    assert await store.auditing.existing_runs([run_id], store.now) == set()
