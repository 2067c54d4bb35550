"""Both clients on a real server: what each call gives, beyond the stories of test_real_server."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from tests.client.both import Awaiting, Blocking, Either
from tests.client.server import key_of
from tests.examples.server import PATIENCE, Up

from oncue import __version__
from oncue.client import Invalid, Stale, Unauthorized, WaitTimeout

HOURLY = {"every": "1h", "start_at": "2026-01-01T00:00:00Z"}


@pytest.fixture(params=[Blocking, Awaiting])
def either(request: pytest.FixtureRequest, oncue: Up) -> Iterator[Either]:
    made = request.param(None, url=oncue.address, key=key_of(oncue), timeout=PATIENCE)
    yield made
    made.close()


def test_jobs_are_listed_by_what_they_are(either: Either) -> None:
    client, tag = either.client, str(uuid4())
    made = [either(client.jobs.create(task="hello", schedule=HOURLY, tags=[tag])) for _ in range(3)]

    found = either.all(client.jobs.list(tag=tag, limit=1))

    assert sorted(job.job_id for job in found) == sorted(job.job_id for job in made)
    assert either.all(client.jobs.list(tag=tag, status="cancelled")) == []
    for job in made:
        either(client.jobs.cancel(job.job_id))


def test_an_edit_needs_the_version_that_was_read(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello", schedule=HOURLY))

    edited = either(client.jobs.edit(job.job_id, if_match=job.version, name="new"))
    with pytest.raises(Stale):
        either(client.jobs.edit(job.job_id, if_match=job.version, name="newer"))

    assert (edited.name, edited.version) == ("new", job.version + 1)
    assert either(client.jobs.cancel(job.job_id)).name == "new"


def test_a_job_is_put_by_its_key(either: Either) -> None:
    client, key = either.client, f"a/b {uuid4()}"

    tried = either(client.jobs.put(key, dry_run=True, task="hello", schedule=HOURLY, name="one"))
    first = either(client.jobs.put(key, task="hello", schedule=HOURLY, name="one"))
    second = either(client.jobs.put(key, task="hello", schedule=HOURLY))

    assert (first.job_id, first.key, first.name) == (second.job_id, key, "one")
    assert second.name is None
    assert (tried.key, tried.next_run_at) == (key, first.next_run_at)
    with pytest.raises(Invalid):
        either(client.jobs.create(dry_run=True, task="nothing"))
    assert either(client.jobs.create_many([{"task": "hello"}], dry_run=True)) == ()
    either(client.jobs.cancel(first.job_id))


def test_a_job_is_exported_and_applied_again(either: Either) -> None:
    client, key = either.client, str(uuid4())
    job = either(client.jobs.put(key, task="hello", schedule="0 9 * * *", payload={"name": "you"}, queue="mail"))

    exported = either(job.export())
    applied = either(client.jobs.apply(f"set-{key}", [exported], adopt=True))

    assert exported == {
        **{"key": key, "task": "hello", "schedule": "0 9 * * *", "payload": {"name": "you"}, "queue": "mail"}
    }
    assert [(one.action, one.job_id, set(one.changes)) for one in applied.steps] == [("adopt", job.job_id, {"tags"})]
    either(job.cancel())


def test_many_are_made_at_once_or_none(either: Either) -> None:
    client = either.client

    made = either(client.jobs.create_many([{"task": "hello", "payload": {"name": str(n)}} for n in range(20)]))
    runs = [either(client.runs.wait(job_id, timeout=PATIENCE)) for job_id in made]

    assert [run.result for run in runs] == [f"Hello, {n}!" for n in range(20)]
    with pytest.raises(Invalid):
        either(client.jobs.create_many([{"task": "hello"}, {"task": "nobody has it"}]))


def test_a_call_that_is_made_again_with_its_key_makes_one_job(either: Either) -> None:
    client, key = either.client, str(uuid4())

    jobs = [either(client.jobs.create(task="hello", idempotency_key=key)) for _ in range(3)]

    assert len({job.job_id for job in jobs}) == 1
    with pytest.raises(Invalid):
        either(client.jobs.create(task="hello", name="another", idempotency_key=key))


def test_the_past_is_run_again(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello", schedule=HOURLY, overlap="allow"))
    end = datetime(2026, 1, 2, tzinfo=UTC)

    made = either(client.jobs.backfill(job.job_id, end - timedelta(hours=3), end))

    assert len(made) in (3, 4)
    assert {either(client.runs.wait(one, timeout=PATIENCE)).status for one in made} == {"succeeded"}
    either(client.jobs.cancel(job.job_id))


def test_a_drained_worker_starts_nothing_until_it_is_resumed(either: Either) -> None:
    client = either.client
    [worker] = either(client.workers.list())

    drained = either(client.workers.drain(worker.worker_id))
    try:
        job = either(client.jobs.create(task="hello"))
        assert (drained.status, drained.draining, drained.version) == ("draining", True, __version__)
        with pytest.raises(WaitTimeout):
            either(client.runs.wait(job.job_id, timeout=0.5))
        assert either.all(client.workers.runs(worker.worker_id)) == []
    finally:
        resumed = either(client.workers.resume(worker.worker_id))
    assert (resumed.status, resumed.drain_requested_at) == ("active", None)
    assert either(client.runs.wait(job.job_id, timeout=PATIENCE)).executor_id == worker.worker_id
    assert either(client.workers.get(worker.worker_id)).status == "active"


def test_runs_are_listed_by_what_they_are(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello"))
    run = either(client.runs.wait(job.job_id, timeout=PATIENCE))

    [listed] = either.all(client.runs.list(job_id=job.job_id, status="succeeded"))
    assert (listed.run_id, listed.status, listed.attempts) == (run.run_id, "succeeded", run.attempts)
    assert either.all(client.runs.list(job_id=job.job_id, status="dead")) == []


def test_a_dead_letter_is_discarded(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="command", payload={"argv": ["false"]}, max_retries=0))
    either(client.runs.wait(job.job_id, timeout=PATIENCE, check=False))

    assert either(client.dead_letters.discard([job.job_id])) == 1
    assert job.job_id not in [one.run_id for one in either.all(client.dead_letters.list())]


def test_a_schedule_is_previewed(either: Either) -> None:
    schedule = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
    after = datetime(2027, 1, 1, tzinfo=UTC)

    preview = either(either.client.schedules.preview(schedule, count=2, after=after))

    assert [one.at for one in preview.occurrences] == [after + timedelta(hours=8), after + timedelta(hours=32)]


def test_a_key_is_made_listed_and_revoked(either: Either, oncue: Up) -> None:
    client, user = either.client, f"user-{uuid4()}"

    key = either(client.keys.create(user, "member", note="for a test", expires_in="1h"))
    assert (key.note, key.expires_at - key.created_at) == ("for a test", timedelta(hours=1))
    assert (user, 1) in [(one.user_id, one.keys) for one in either.all(client.users.list(limit=2))]
    theirs = type(either)(None, url=oncue.address, key=key.key)
    assert theirs(theirs.client.tasks.list())
    assert (key.key_id, user) in [(one.key_id, one.user_id) for one in either(client.keys.list())]
    either(client.keys.revoke(key.key_id))
    until = time.monotonic() + PATIENCE  # a key is trusted for a moment after it was looked up
    with pytest.raises(Unauthorized):  # noqa: PT012
        while time.monotonic() < until:
            theirs(theirs.client.tasks.list())
    theirs.close()


def test_stats_and_audit_are_told(either: Either) -> None:
    assert isinstance(either(either.client.stats()), dict)
    assert [one.what for one in either(either.client.series("created,lag")).series] == ["created", "lag"]
    assert {one.kind for one in either(either.client.problems())} <= {"dead_letters", "failing_job", "workers_full"}
    assert isinstance(either.all(either.client.audit(limit=1_000)), list)
    since = either(either.client.server()).time
    assert either.all(either.client.audit(object_id=str(uuid4()), action="job.create", start_time=since)) == []
    assert ("up", True) in [(one.role, one.alive) for one in either(either.client.processes())]
    assert either.all(either.client.findings()) == []  # nothing is wrong
    assert [one.workers for one in either(either.client.scaling()) if one.queue == "default"] == [1]


def test_what_is_to_come_is_told(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello", schedule=HOURLY))

    [first, second] = either.first(2, client.upcoming(job_id=job.job_id, limit=1))
    counted = either(client.upcoming_density(job_id=job.job_id, step="1h", by="task,queue"))

    assert first.job_id == second.job_id == job.job_id
    assert second.at - first.at == timedelta(hours=1)
    assert {one.n for one in counted.buckets} == {1}
    assert [(one.task, one.queue, one.buckets) for one in counted.groups] == [("hello", "default", counted.buckets)]
    assert either(client.upcoming_skipped(job_id=job.job_id)) == ()
    either(client.jobs.cancel(job.job_id))


def test_what_happens_is_told_as_it_happens(either: Either) -> None:
    client = either.client
    job = either(client.jobs.create(task="hello", schedule=HOURLY))
    events = client.events(last_event_id="0")

    [first] = either.first(1, events)  # of the past, or a resync

    assert first.kind in ("run", "job", "resync")
    either(client.jobs.cancel(job.job_id))
