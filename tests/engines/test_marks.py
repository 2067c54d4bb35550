"""Page marks: whatever is not one of ours is refused, before a store sees it."""

import pytest

from oncue.domain.errors import Invalid
from oncue.engines.marks import mark, unmark

SHAPE = tuple[int, str]


@pytest.mark.parametrize("position", [(0, ""), (-(2**63), "x"), (2**63 - 1, "ü")])
def test_a_mark_comes_back(position: tuple[int, str]) -> None:
    assert unmark(mark(position), SHAPE) == position


@pytest.mark.parametrize(
    "forged", ["", "garbage", "AA", mark((1,)), mark(("1", "")), mark((2**63, "")), mark([1, 2, 3])]
)
def test_what_is_none_is_refused(forged: str) -> None:
    with pytest.raises(Invalid, match="is invalid: list again without it"):
        unmark(forged, SHAPE)
