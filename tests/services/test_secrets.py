"""A worker gives a run the secrets that its definition allows, and none to another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.services.worker_loops import Stage, StagedCrew, crew_on, final, work

from oncue import Context, Secret
from oncue.domain.ids import RunId
from oncue.domain.run import RunView, State, read_attempts
from oncue.domain.secret_refs import SecretAccess
from oncue.executors.capture import capture_logging
from oncue.executors.functions import LoopExecutor
from oncue.executors.secrets import SecretSource
from oncue.services.execution import Execution
from oncue.tasks import Isolation
from oncue_conformance.store import Store

VALUE = "planted-5a7c-value"
NAMED = b'{"token":{"secret":"token"}}'


class Told(Stage):
    """Its task `talk` gets a secret, and fails at first."""

    async def talk(self, ctx: Context, token: Secret) -> Any:  # type: ignore[override]  # another signature
        ctx.log.info("it is %s", token.reveal())
        if ctx.attempt == 1:
            raise RuntimeError(f"not with {token.reveal()}")
        return {"token": token.reveal()}


@pytest.fixture
def stage() -> Iterator[Told]:
    undo = capture_logging()
    yield Told()
    undo()


async def crew_with(store: Store, stage: Stage, folder: Path) -> StagedCrew:
    (folder / "ada").mkdir()
    (folder / "ada" / "token").write_text(VALUE)
    crew = await crew_on(store, stage)
    executors = {kind: LoopExecutor(1_000) for kind in Isolation}
    source = SecretSource(str(folder), {})
    crew.attempts._execution = Execution(stage.tasks, executors, LoopExecutor(1_000), crew_grace(crew), source)
    return crew


def crew_grace(crew: StagedCrew) -> Any:
    return crew.attempts._execution.kill_grace


async def ended(store: Store, stage: Stage, folder: Path, **job: Any) -> RunView:
    run_id = await store.one_shot(task="talk", **job)
    crew = await crew_with(store, stage, folder)
    async with asyncio.timeout(60):
        while not (await store.run(run_id)).state.final:
            await work(crew)
            store.advance(60_000_000)
    return await final(store, crew, run_id)


async def log_of(store: Store, run_id: RunId) -> str:
    return b"".join(part.text for part in await store.engine.history.read_log(run_id)).decode()


async def test_what_is_stored_of_a_run_is_masked_also_after_a_retry(store: Store, stage: Told, tmp_path: Path) -> None:
    run = await ended(store, stage, tmp_path, payload=NAMED, secrets=SecretAccess("ada"))

    assert (run.state, run.result) == (State.SUCCEEDED, '{"token":"•••"}'.encode())
    [failed] = read_attempts(run.attempts)
    assert failed.error == "not with •••"
    await store.engine.errors.roll_up()
    assert [group.sample for group in (await store.engine.errors.groups(None)).items] == ["not with •••"]
    said = await log_of(store, run.run_id)
    assert said.count("it is •••") == 2
    assert "RuntimeError: not with •••" in said
    assert VALUE not in said


@pytest.mark.parametrize("access", [None, SecretAccess("bob"), SecretAccess("bob", shared=True)])
async def test_a_run_that_may_not_use_it_fails_at_once(
    store: Store, stage: Told, tmp_path: Path, access: SecretAccess | None
) -> None:
    run = await ended(store, stage, tmp_path, payload=NAMED, secrets=access)

    assert (run.state, run.error_type) == (State.DEAD, "SecretMissing")
    assert len(read_attempts(run.attempts)) == 1
    assert "'token'" in (run.error or "")
