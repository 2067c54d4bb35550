"""Retries and losses: bounded waits, capped attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.policy import (
    Again,
    Dead,
    OnLost,
    Retry,
    after_failure,
    after_loss,
    backoff,
    expires_at,
    must_run_alone,
)

NOW = Instant(1_000 * HOUR)

retries = st.builds(
    Retry,
    backoff=st.integers(1_000, HOUR).map(Duration),
    factor=st.floats(1, 100),
    max_backoff=st.integers(1_000, 24 * HOUR).map(Duration),
    jitter=st.floats(0, 1),
)
luck = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 2), (2, 4), (3, 8), (8, 256), (9, 300), (1_000_000, 300)])
def test_waits_double_up_to_the_longest(failures: int, seconds: int) -> None:
    assert backoff(Retry(), failures, 0.0) == seconds * SECOND


@given(retries, st.integers(1, 10_000), luck)
def test_jitter_only_adds_and_never_more_than_its_share(retry: Retry, failures: int, luck: float) -> None:
    shortest, drawn = backoff(retry, failures, 0.0), backoff(retry, failures, luck)

    assert shortest <= drawn <= shortest * (1 + retry.jitter) + 1
    assert drawn <= retry.max_backoff * (1 + retry.jitter) + 1


@given(retries, st.integers(1, 100))
def test_a_later_failure_never_waits_less(retry: Retry, failures: int) -> None:
    assert backoff(retry, failures, 0.0) <= backoff(retry, failures + 1, 0.0)


@given(retries, st.integers(1, 50), luck, luck)
def test_more_luck_is_a_longer_wait(retry: Retry, failures: int, one: float, two: float) -> None:
    """Spread over the whole jitter: retries of many runs do not come back in the same second."""
    low, high = sorted((one, two))

    assert backoff(retry, failures, low) <= backoff(retry, failures, high)


def test_there_is_no_backoff_before_a_failure() -> None:
    with pytest.raises(ValueError):
        backoff(Retry(), 0, 0.0)


@pytest.mark.parametrize(
    ("max_retries", "failures", "again"), [(0, 1, False), (1, 1, True), (1, 2, False), (3, 3, True), (3, 4, False)]
)
def test_max_retries_counts_visible_failures(max_retries: int, failures: int, again: bool) -> None:
    assert isinstance(after_failure(Retry(), max_retries, failures, NOW, 0.0), Again if again else Dead)


def test_a_task_may_ask_for_its_own_wait() -> None:
    assert after_failure(Retry(), 3, 1, NOW, 0.9, asked=Duration(MINUTE)) == Again(Instant(NOW + MINUTE))
    assert isinstance(after_failure(Retry(), 0, 1, NOW, 0.9, asked=Duration(MINUTE)), Dead)


def test_the_reason_of_a_death_is_for_people() -> None:
    assert after_failure(Retry(), 0, 1, NOW, 0.0) == Dead("failed after 1 attempt; max_retries is 0")
    assert after_failure(Retry(), 2, 3, NOW, 0.0) == Dead("failed after 3 attempts; max_retries is 2")


def test_a_loss_comes_back_at_once_until_the_third() -> None:
    assert [after_loss(OnLost.RERUN, losses, NOW) for losses in (1, 2)] == [Again(NOW), Again(NOW)]
    assert isinstance(after_loss(OnLost.RERUN, 3, NOW), Dead)
    assert isinstance(after_loss(OnLost.RERUN, 4, NOW), Dead)
    assert isinstance(after_loss(OnLost.DEAD, 1, NOW), Dead)


def test_from_the_second_loss_on_it_runs_alone() -> None:
    assert [must_run_alone(losses) for losses in range(4)] == [False, False, True, True]


def test_expiry_counts_from_when_it_was_wanted() -> None:
    assert expires_at(None, NOW) is None
    assert expires_at(Duration(MINUTE), NOW) == NOW + MINUTE
