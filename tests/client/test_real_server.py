"""Both clients on a real `oncue up`."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from tests.client.both import Awaiting, Blocking, Either
from tests.client.server import key_of
from tests.examples.server import PATIENCE, Up

from oncue.client import Conflict, Invalid, NotFound, RunFailed, Unauthorized

NOBODY = "0198c0de-0000-7000-8000-000000000000"
NOT_SOON = "0 0 1 1 *"


@pytest.fixture(params=[Blocking, Awaiting])
def either(request: pytest.FixtureRequest, oncue: Up) -> Iterator[Either]:
    made = request.param(None, url=oncue.address, key=key_of(oncue), timeout=PATIENCE)
    yield made
    made.close()


def test_a_job_is_made_waited_for_and_read(either: Either) -> None:
    client = either.client

    job = either(client.jobs.create(task="hello", payload={"name": "you"}, tags=["a"]))
    run = either(client.runs.wait(job.job_id, timeout=PATIENCE))

    assert (job.task, job.tags, job.schedule, job.user_id) == ("hello", ("a",), {}, "admin")
    assert (run.status, run.result, [one.outcome for one in run.attempts]) == (
        "succeeded",
        "Hello, you!",
        ["succeeded"],
    )
    assert run.start_time.tzinfo is UTC
    assert either(client.runs.result(run.run_id)) == "Hello, you!"
    assert "greeting you" in either(client.runs.logs(run.run_id))
    assert either(client.runs.explain(run.run_id)).reason == "finished"
    listed = msgspec.structs.replace(run, payload=None)
    assert either.all(job.runs()) == [listed]
    assert either(client.jobs.status(job)).latest_run.run_id == run.run_id
    with pytest.raises(Conflict) as ended:
        either(client.runs.cancel(run.run_id))
    assert ended.value.members == {"run_status": "succeeded"}


def test_a_recurring_job_through_its_life(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello", schedule=NOT_SOON))
    assert job.next_run_at > datetime(2026, 1, 1, tzinfo=UTC)

    assert either(client.jobs.pause(job.job_id)).status == "paused"
    assert either(client.jobs.explain(job.job_id)).reason == "paused"
    assert either(client.jobs.resume(job.job_id, missed="last")).status == "active"
    runs = [either(client.jobs.run_now(job.job_id)) for _ in range(3)]
    assert {either(client.runs.wait(one, timeout=PATIENCE)).status for one in runs} == {"succeeded"}
    found = either.all(client.jobs.runs(job.job_id, limit=1))
    assert sorted(one.run_id for one in found) == sorted(one.run_id for one in runs)
    assert either.all(client.jobs.occurrences(job.job_id)) == []
    assert either(client.jobs.cancel(job.job_id)).status == "cancelled"
    assert either(client.jobs.get(job.job_id)).status == "cancelled"


def test_an_edit_of_its_cron_leaves_its_time_zone_and_an_object_replaces_the_schedule(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello", schedule={"cron": NOT_SOON, "timezone": "Europe/Berlin"}))

    assert either(client.jobs.edit(job.job_id, schedule="0 1 1 1 *")).schedule["timezone"] == "Europe/Berlin"
    assert either(client.jobs.edit(job.job_id, schedule={"cron": "0 2 1 1 *"})).schedule["timezone"] == "UTC"


def test_a_job_is_purged_with_its_runs(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello", payload={"name": "you"}))
    either(client.runs.wait(job.job_id, timeout=PATIENCE))

    assert either(client.jobs.purge(job.job_id)) is None

    for call in (client.jobs.get, client.runs.get, client.runs.logs, client.jobs.purge):
        with pytest.raises(NotFound):
            either(call(job.job_id))


def test_dead_letters_are_found_and_tried_anew(either: Either) -> None:
    client = either.client
    payload = {"argv": ["false"]}
    job = either(client.jobs.create(task="command", payload=payload, max_retries=0))
    with pytest.raises(RunFailed, match="is dead: ExitCode"):
        either(client.runs.wait(job.job_id, timeout=PATIENCE))

    [letter] = [one for one in either.all(client.dead_letters.list(limit=1)) if one.run_id == job.job_id]
    assert (letter.payload["argv"], letter.error_type) == (["false"], "ExitCode")
    again = either(client.dead_letters.requeue([letter.run_id]))
    assert again.count == 1
    [run_id] = again.run_ids
    assert either(client.runs.wait(run_id, timeout=PATIENCE, check=False)).status == "dead"
    again = either(client.runs.retry(run_id))
    assert either(again.wait(timeout=PATIENCE, check=False)).status == "dead"


def test_what_runs_things_is_listed_and_queues_are_paused(either: Either) -> None:
    client = either.client

    assert "hello" in [task.name for task in either(client.tasks.list())]
    assert [worker.draining for worker in either(client.workers.list())] == [False]
    assert "default" in [queue.name for queue in either(client.queues.list())]
    assert either(client.queues.pause("a/b")).paused_since is not None
    assert either(client.queues.resume("a/b")).paused_since is None


def test_refusals_are_errors_with_their_fields(either: Either) -> None:
    client = either.client

    with pytest.raises(Invalid, match=r"task 'helo' is not registered; did you mean 'hello'\? Reg") as refused:
        either(client.jobs.create(task="helo", priority="urgent"))
    assert sorted(one.path for one in refused.value.errors) == ["priority", "task"]
    with pytest.raises(NotFound):
        either(client.jobs.get(NOBODY))


@pytest.mark.parametrize("kind", [Blocking, Awaiting])
def test_a_bad_key_is_refused(oncue: Up, kind: type[Either]) -> None:
    stranger = kind(None, url=oncue.address, key="oc_nobody")

    with pytest.raises(Unauthorized):
        stranger(stranger.client.tasks.list())
    stranger.close()
