"""Inside a run the worker is the client: jobs for the owner of the run, with the rights of a member."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.services.worker_loops import Stage, crew_on, work

from oncue import Context, OncueError
from oncue.domain.errors import Conflict, Forbidden, Invalid, KeyReused
from oncue.domain.ids import JobId, RunId
from oncue.domain.run import State
from oncue.engines import port
from oncue.tasks import Tasks
from oncue_conformance.store import Store

ours = Tasks()


@ours.task(queue="mail", tags=["mailed"])
def mail(to: str) -> None: ...


@ours.task(roles=["admin"])
def reserved() -> None: ...


@ours.task
def unregistered() -> None: ...


class Passing(Stage):
    """Its `noop` does what the test says, inside a run."""

    def __init__(self, act: Any) -> None:
        self.act = act
        self.found: list[Any] = []
        super().__init__()

    async def noop(self, ctx: Context) -> int:
        try:
            self.found.append(await self.act(ctx))
        except Exception as error:
            self.found.append(error)
        return 1


async def ran(store: Store, act: Any, **settings: Any) -> Any:
    """Do this in a run of a worker, and return what came of it."""
    registered = [
        port.Task(task.name, task.schema(), msgspec.json.encode(task.defaults), task.roles)
        for task in ours
        if task is not unregistered
    ]
    await store.engine.fleet.announce(registered, store.now)
    run_id = await store.one_shot(task="noop")
    stage = Passing(act)
    crew = await crew_on(store, stage, **settings)
    await work(crew)
    assert (await store.run(run_id)).state is State.SUCCEEDED
    [found] = stage.found
    return found


async def test_a_handle_creates_a_job_of_the_runs_owner(store: Store) -> None:
    run = await ran(store, lambda ctx: mail.enqueue(to="you"))

    assert (run.status, run.task) == ("queued", "mail")
    snap = await store.engine.jobs.read(store.uid, JobId(run.job_id))
    assert snap is not None
    assert (snap.job.spec.queue, snap.job.spec.tags, snap.job.payload) == ("mail", ("mailed",), b'{"to":"you"}')
    assert (await store.run(RunId(run.run_id))).state is State.WAITING


async def test_also_from_a_thread(store: Store) -> None:
    run = await ran(store, lambda ctx: asyncio.to_thread(mail.sync.enqueue, to="you"))

    assert await store.engine.jobs.read(store.uid, JobId(run.job_id)) is not None


async def test_sync_calls_in_the_loop_are_refused_and_create_nothing(store: Store) -> None:
    async def block(ctx: Context) -> Any:
        return mail.sync.enqueue(to="you")

    error = await ran(store, block)

    assert isinstance(error, RuntimeError)
    assert "await the call" in str(error)


async def test_many_are_created_together_or_not_at_all(store: Store) -> None:
    ids = await ran(store, lambda ctx: ours.enqueue_many([mail.bind("a"), mail.using(name="b").bind("b")]))
    assert len(ids) == 2
    names = [snap.job.spec.name for one in ids if (snap := await store.engine.jobs.read(store.uid, JobId(one)))]
    assert names == [None, "b"]

    error = await ran(store, lambda ctx: ours.enqueue_many([mail.bind("c"), unregistered.bind()]))
    assert isinstance(error, Invalid)
    assert error.problems[0].path == "jobs.1.task"


async def test_the_rights_are_those_of_a_member(store: Store) -> None:
    assert isinstance(await ran(store, lambda ctx: reserved.enqueue()), Forbidden)


async def test_a_quota_counts(store: Store) -> None:
    error = await ran(store, lambda ctx: mail.enqueue("you"), max_jobs_per_user=1)

    assert isinstance(error, OncueError)
    assert "quota" in str(error).lower()


async def test_a_key_of_its_own_makes_it_once_only(store: Store) -> None:
    async def twice(ctx: Context) -> Any:
        once = mail.using(idempotency_key=f"{ctx.idempotency_key}:mail")
        first, second = await once.enqueue("you"), await once.enqueue("you")
        with pytest.raises(KeyReused):
            await once.enqueue("other")
        return first.run_id, second.run_id

    first, second = await ran(store, twice)
    assert first == second


async def test_a_key_that_another_job_has_is_a_conflict(store: Store) -> None:
    async def twice(ctx: Context) -> Any:
        job = await mail.using(key="eu").schedule("every 1h", to="you")
        assert (job.key, job.task) == ("eu", "mail")
        return await mail.using(key="eu").schedule("every 1h", to="you")

    assert isinstance(await ran(store, twice), Conflict)


async def test_the_audit_log_names_the_run(store: Store) -> None:
    seen = list[UUID]()

    async def act(ctx: Context) -> Any:
        seen.append(ctx.run_id)
        return await mail.enqueue("you")

    run = await ran(store, act)
    page = await store.engine.audit.entries()
    [line] = [one for one in page.items if one.object_id == run.job_id]
    assert (line.action, msgspec.json.decode(line.detail or b"{}")) == ("job.create", {"run_id": str(seen[0])})


async def test_what_is_no_list_of_jobs_is_invalid(store: Store) -> None:
    crew = await crew_on(store, Stage())
    submitting = crew.reporting.submitting
    assert submitting is not None
    for asked in (b"", b"[]", b'{"jobs":[]}', b'{"jobs":7}', b'{"jobs":[7]}'):
        with pytest.raises(Invalid):
            await submitting.submit(_claimed(store), asked)


def _claimed(store: Store) -> Any:
    class Run:
        uid = store.uid
        run_id = UUID(int=1)

    return Run()
