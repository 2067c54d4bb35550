"""Definitions that a newer oncue stored: understood as far as they are, and handed on as they are."""

from uuid import UUID

import msgspec
import pytest
from tests.domain.test_attempt import BEGAN, NOW, WORKER, claimed

from oncue.domain import change
from oncue.domain.attempt import lost
from oncue.domain.errors import Conflict
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.job import (
    Cursor,
    Job,
    JobStatus,
    Snapshot,
    Spec,
    decode_spec,
    definition_of,
    encode_spec,
    understand_spec,
)
from oncue.domain.policy import CatchUp, OnLost, Retry
from oncue.domain.run import State, read_attempts

NEW_FIELD = b'{"task":"t","name":"n","later":{"a":[1.50,"\xc3\xbc"]}}'
NEW_INSIDE = b'{"task":"t","retry":{"backoff":1,"shape":"flat"},"tags":["a"]}'
NEW_WORD = b'{"task":"t","overlap":"newer"}'
NEW_SCHEDULE = b'{"task":"t","schedule":{"moon":"full"}}'
NEWER = [NEW_FIELD, NEW_INSIDE, NEW_WORD, NEW_SCHEDULE]


@pytest.mark.parametrize("stored", NEWER)
def test_whoever_acts_on_it_is_told_that_it_is_not_theirs(stored: bytes) -> None:
    """Catches a field that is quietly passed over: the job would run otherwise than it was asked for."""
    with pytest.raises(msgspec.ValidationError):
        understand_spec(stored)


@pytest.mark.parametrize("stored", NEWER)
def test_what_is_not_understood_is_written_as_it_was_read(stored: bytes) -> None:
    changed = msgspec.structs.replace(decode_spec(stored), timeout=7, name="new")

    fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    before, after = fields(stored), fields(encode_spec(changed))

    assert {name: bytes(raw) for name, raw in after.items()} == {
        **{name: bytes(raw) for name, raw in before.items()},
        "timeout": b"7",
        "name": b'"new"',
    }


def test_what_is_understood_is_shown() -> None:
    spec = decode_spec(NEW_INSIDE)

    assert (spec.task, spec.tags, spec.retry, spec.not_understood) == ("t", ("a",), Retry(), ("retry",))
    assert decode_spec(NEW_FIELD).not_understood == ()


@pytest.mark.parametrize("stored", [b"", b"{", b"[]", b'{"task": 1}', b'{"later": 1}', b'{"task": "\xff"}'])
def test_what_names_no_task_cannot_be_read_at_all(stored: bytes) -> None:
    with pytest.raises(ValueError):
        decode_spec(stored)


def test_nothing_is_written_for_what_every_version_knows() -> None:
    assert encode_spec(Spec("t")) == b'{"task":"t"}'


def test_the_digest_is_that_of_whoever_knows_the_field() -> None:
    """So that a job that is to be as it is, is left alone by both."""
    whole = Spec("t", name="n", max_retries=9, retry=Retry(jitter=0.5))
    carried = Spec("t", name="n", unknown=(("max_retries", b"9"), ("retry", b'{"jitter":0.5}')))

    assert definition_of(carried, None) == definition_of(whole, None)
    assert definition_of(carried, None) != definition_of(Spec("t", name="n"), None)


# ------------------------------------------------------------------------------------------------------------- changes


def snapshot(stored: bytes, status: JobStatus = JobStatus.PAUSED) -> Snapshot:
    job = Job(JobId(UUID(int=1)), UserNumber(1), decode_spec(stored), None, NOW, NOW, status=status)
    return Snapshot(job, ClassId(1), Cursor(NOW, Instant(NOW - 1)))


@pytest.mark.parametrize("stored", [NEW_INSIDE, NEW_WORD, NEW_SCHEDULE])
def test_what_decides_about_runs_is_for_those_who_can_read_it(stored: bytes) -> None:
    """Catches an edit that makes a one-shot of a job whose kind of schedule is new."""
    snap = snapshot(stored)

    for act in (
        lambda: change.edit(snap, snap.job.spec, None, ClassId(1), NOW),
        lambda: change.resume(snap, CatchUp.LAST, NOW),
        lambda: change.run_now(snap, RunId(UUID(int=2)), NOW),
        lambda: change.backfill(snap, UUID(int=2), NOW, NOW, NOW),
    ):
        with pytest.raises(Conflict, match=r"newer oncue defined this job; this server cannot read its \w+\. Upgrade"):
            act()
    assert change.pause(snap, NOW).job is not None


# -------------------------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize("stored", NEWER)
def test_a_lost_run_comes_back_for_a_worker_that_can_read_it(stored: bytes) -> None:
    run = msgspec.structs.replace(claimed(Spec("t")), spec=stored)

    assert (lost(run, WORKER, BEGAN, NOW).state, lost(run, WORKER, BEGAN, NOW).losses) == (State.WAITING, 1)
    assert lost(msgspec.structs.replace(run, losses=2), WORKER, BEGAN, NOW).state is State.DEAD


def test_a_lost_run_that_may_not_be_started_twice_is_dead_whatever_else_it_says() -> None:
    run = claimed(Spec("t", on_lost=OnLost.DEAD, unknown=(("later", b"1"),)))

    assert lost(run, WORKER, BEGAN, NOW).state is State.DEAD


def test_attempts_of_a_newer_oncue_are_kept_as_they_are() -> None:
    before = b'[{"number":1,"worker_id":null,"started_at":null,"ended_at":1,"outcome":"skipped","later":2}]'

    settled = lost(claimed(Spec("t"), attempts=before), WORKER, BEGAN, NOW)

    assert settled.state is State.WAITING
    assert settled.attempts is not None
    assert settled.attempts.startswith(before[:-1])
    assert [one.number for one in read_attempts(settled.attempts)] == [1, 2]
