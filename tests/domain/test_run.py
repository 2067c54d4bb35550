"""States of runs and the moves between them."""

from uuid import UUID

import pytest

from oncue.domain.ids import WorkerId
from oncue.domain.instants import Instant
from oncue.domain.run import Attempt, State, Status, read_attempts, shown, with_attempt

WORKER = WorkerId(UUID(int=7))


def test_stored_numbers_never_change() -> None:
    assert [(state.name, int(state)) for state in State] == [
        ("WAITING", 0),
        ("RUNNING", 1),
        ("SUCCEEDED", 2),
        ("DEAD", 3),
        ("CANCELLED", 4),
        ("EXPIRED", 5),
    ]


@pytest.mark.parametrize(
    ("state", "due", "failures", "cancelling", "status"),
    [
        (State.WAITING, 11, 0, False, Status.SCHEDULED),
        (State.WAITING, 10, 0, False, Status.QUEUED),
        (State.WAITING, 11, 1, False, Status.RETRYING),
        (State.RUNNING, 10, 1, False, Status.RUNNING),
        (State.RUNNING, 10, 0, True, Status.CANCELLING),
        (State.SUCCEEDED, 10, 2, False, Status.SUCCEEDED),
        (State.DEAD, 10, 2, False, Status.DEAD),
        (State.CANCELLED, 10, 0, True, Status.CANCELLED),
        (State.EXPIRED, 10, 0, False, Status.EXPIRED),
    ],
)
def test_what_users_see(state: State, due: int, failures: int, cancelling: bool, status: Status) -> None:
    assert shown(state, due=Instant(due), tries=failures, cancelling=cancelling, now=Instant(10)) is status


def test_attempts_are_kept_with_the_run_but_not_without_end() -> None:
    stored = None
    for number in range(1, 61):
        stored = with_attempt(stored, Attempt(number, WORKER, Instant(0), Instant(1), "failed", "E", "e"))

    assert [one.number for one in read_attempts(stored)] == list(range(11, 61))
    assert read_attempts(None) == ()
