"""Beside a newer oncue: what this one cannot read is neither run wrongly nor ended, and waits for those who can."""

from collections.abc import Iterator

import msgspec
import pytest
from tests.services.worker_loops import Stage, crew_on, work

from oncue.domain.ids import RunId
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND
from oncue.domain.run import State
from oncue.executors.capture import capture_logging
from oncue.services import attempts, prefetch
from oncue.services.worker_loops import WorkerLoops
from oncue_conformance.store import Store

LATER = (("later", b"1"),)


@pytest.fixture
def stage() -> Iterator[Stage]:
    undo = capture_logging()
    yield Stage()
    undo()


async def claims_of(crew: WorkerLoops, store: Store, monkeypatch: pytest.MonkeyPatch) -> list[list[RunId]]:
    asked: list[list[RunId]] = []
    claim = store.engine.running.claim

    async def counting(worker_id, run_ids, *how):  # type: ignore[no-untyped-def]
        asked.append(list(run_ids))
        return await claim(worker_id, run_ids, *how)

    monkeypatch.setattr(store.engine.running, "claim", counting)
    return asked


NEWER = [(("later", b"1"),), (("retry", b'{"shape":"flat"}'),), (("overlap", b'"newer"'),)]


@pytest.mark.parametrize("unknown", NEWER)
async def test_a_run_that_cannot_be_read_is_handed_back_unspent(
    store: Store, stage: Stage, unknown: tuple[tuple[str, bytes], ...]
) -> None:
    """Catches the worker that made it dead, and the one that ran it as if the field were not there."""
    newer, plain = await store.one_shot(unknown=unknown), await store.one_shot()

    await work(await crew_on(store, stage))

    assert stage.started == [plain]
    view = await store.run(newer)
    assert (view.state, view.failures, view.losses, view.attempts) == (State.WAITING, 0, 0, None)


async def test_it_is_not_claimed_again_and_again(store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a worker that claims and hands back, as fast as it can, what it cannot read."""
    newer = await store.one_shot(unknown=LATER)
    crew = await crew_on(store, stage)
    asked = await claims_of(crew, store, monkeypatch)

    for _ in range(50):
        await work(crew)
        crew.prefetch.ask(None)  # as the hint does that goes with handing back
        store.advance(500 * MILLISECOND)
    assert asked == [[newer]]

    await store.clock.advance(prefetch.LEAVE_ALONE)  # by now it may have been edited
    await work(crew)
    assert asked == [[newer]] * 2


async def test_a_newer_worker_takes_it(store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = await store.one_shot(unknown=LATER)
    old, new = await crew_on(store, stage), await crew_on(store, stage)
    await work(old)
    assert stage.started == []

    monkeypatch.setattr(attempts, "understand_spec", lambda stored: attempts.Spec("noop"))
    await work(new)

    assert stage.started == [newer]
    assert (await store.run(newer)).state is State.SUCCEEDED


async def test_turns_between_users_pass_over_it(store: Store, stage: Stage) -> None:
    """When work is late it is found in yet another way."""
    others = [await store.accounts.user(f"u{n}", store.now) for n in range(2)]
    newer = [await store.one_shot(-MINUTE, uid=uid, unknown=LATER) for uid in others]
    plain = [await store.one_shot(-MINUTE, uid=uid) for uid in others]
    crew = await crew_on(store, stage, concurrency=2)

    for _ in range(5):
        await work(crew)
        store.advance(2 * SECOND)

    assert set(stage.started) == set(plain)
    assert [await store.state(run_id) for run_id in newer] == [State.WAITING] * 2


async def test_it_remembers_only_so_many(store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "MOST_LEFT_ALONE", 2)
    runs = await store.one_shots(3, unknown=LATER)
    crew = await crew_on(store, stage)

    await work(crew)

    assert len(crew.prefetch._left_alone) == 2
    assert [await store.state(run_id) for run_id in runs] == [State.WAITING] * 3


async def test_what_is_damaged_is_dead(store: Store, stage: Stage) -> None:
    """Nobody will ever be able to read it."""
    new = await store.new_one_shot()
    assert new.run is not None
    await store.create(msgspec.structs.replace(new, run=msgspec.structs.replace(new.run, spec=b'{"task"')))

    await work(await crew_on(store, stage))

    assert await store.state(new.run.run_id) is State.DEAD
