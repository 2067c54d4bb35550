"""When a rate allows the next start."""

from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.meter import Given, starts

INSTANTS = st.lists(st.integers(0, 30).map(Instant), max_size=30).map(sorted)


def given_starts(limit: int, per: int, granted: list[int], due: list[int]) -> list[int]:
    last = [Instant(at) for at in granted[-limit:]]
    before = Given(len(granted), last[: len(due)], last[-1] if last else Instant(0))
    return list(starts(limit, Duration(per), before, [Instant(at) for at in due]))


def test_what_the_rate_allows_starts_when_it_is_due() -> None:
    assert given_starts(2, SECOND, [], [0, 0, SECOND, SECOND]) == [0, 0, SECOND, SECOND]


def test_what_it_does_not_allow_starts_as_soon_as_it_does() -> None:
    assert given_starts(2, 10, [], [0, 1, 2, 3, 50]) == [0, 1, 10, 11, 50]


def test_only_the_last_starts_matter() -> None:
    assert given_starts(2, 10, [0, 1, 5, 6], [7]) == [15]
    assert given_starts(2, 10, [5, 6], [7]) == [15]


@given(limit=st.integers(1, 4), per=st.integers(1, 10), granted=INSTANTS, due=INSTANTS)
def test_starts_are_in_order_not_early_and_never_too_many(
    limit: int, per: int, granted: list[Instant], due: list[Instant]
) -> None:
    before = given_starts(limit, per, [], granted)
    given_now = given_starts(limit, per, before, due)
    both = before + given_now

    assert both == sorted(both)
    assert all(start >= at for start, at in zip(given_now, due, strict=True))
    assert all(later - earlier >= per for earlier, later in zip(both, both[limit:], strict=False))
