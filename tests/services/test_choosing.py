"""The runs of one class in the order of their instants, however they come."""

import itertools
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.ids import ClassId, RunId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.placement import ClassKey
from oncue.services import choosing
from oncue.services.choosing import ClassQueue, DueRun, InOrder
from oncue.tasks import Isolation

LINE = ClassQueue(ClassId(1), ClassKey("noop"), Isolation.LOOP)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 20)),
        st.tuples(st.just("pass"), st.integers(0, 5)),
        st.tuples(st.just("take"), st.just(0)),
        st.tuples(st.just("keep"), st.integers(0, 3)),
    ),
    max_size=60,
)


@given(steps)
def test_they_are_as_a_sorted_list_of_which_a_part_is_due(steps: list[tuple[str, int]]) -> None:
    found, model, now, order = InOrder(), list[DueRun](), 0, itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "ENOUGH_DUE", 3)  # so few leave before the room they took is given back
        for what, number in steps:
            due = [run for run in model if run.due <= now]
            if what == "add":
                run = DueRun(RunId(UUID(int=0)), UserNumber(1), Instant(number), LINE, next(order))
                found.add(run)
                model = sorted([*model, run], key=lambda run: (run.due, run.order))
            elif what == "pass":
                now += number
            elif what == "take" and due:
                assert found.first_due(Instant(now)) is model.pop(0)
                found.drop_first()
            elif what == "keep":
                found.first_due(Instant(now))
                found.keep_of_due(due[number:])
                model = model[len(due[:number]) :]
            due = [run for run in model if run.due <= now]
            assert found.first_due(Instant(now)) is (due[0] if due else None)
            assert found.due() == due
            assert found.how_many_due() == len(due)
            assert found.next_due() == (model[len(due)].due if len(due) < len(model) else None)
