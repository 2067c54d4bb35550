"""What a pass over the outbox relies on: that the pass before has created the jobs of the rows it took at first."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.outbox_values import Decision, Enqueued, TakenIn
from oncue.engines.port import Role
from oncue.services.outbox_turns import OutOfTurn, Turn

pytestmark = pytest.mark.anyio

ROWS = [
    Enqueued(
        *(1, JobId(UUID(int=1)), UserNumber(1), "shop", Role.MEMBER, "web", "ship", "{}", "{}", None, True),
        *(Instant(0), Instant(0)),
    )
]


class Decisions:
    async def decide(self, rows: Sequence[Enqueued]) -> list[Decision]:
        return []


def begin(before: Turn | None = None) -> tuple[Turn, asyncio.Event]:
    """Return a pass that has decided and is about to create its jobs, or waits to; and what lets it end."""
    turn, ends = Turn(cast(Any, Decisions()), 1, before), asyncio.Event()

    async def take_in() -> TakenIn:
        await turn.decide(ROWS)
        await ends.wait()
        return TakenIn()

    turn.start(take_in())
    return turn, ends


async def test_a_pass_creates_its_jobs_after_those_of_the_pass_before() -> None:
    first, first_ends = begin()
    assert await first.may_be_followed()
    second, second_ends = begin(first)
    second_ends.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not second.taken.done()

    first_ends.set()

    assert await second.taken == TakenIn()
    assert await second.may_be_followed()


async def test_a_pass_gives_its_rows_back_when_the_pass_before_is_repeated() -> None:
    """After a deadlock it may take fewer rows than at first: those it leaves come after the rows of the next pass."""
    first, first_ends = begin()
    assert await first.may_be_followed()
    second, second_ends = begin(first)
    second_ends.set()

    await first.decide(ROWS)

    assert not await first.may_be_followed()
    first_ends.set()
    with pytest.raises(OutOfTurn):
        await second.taken
    await first.taken


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), asyncio.CancelledError()])
async def test_a_pass_gives_its_rows_back_when_the_pass_before_fails(error: BaseException) -> None:
    first = Turn(cast(Any, Decisions()), 1, None)

    async def take_in() -> TakenIn:
        await first.decide(ROWS)
        await asyncio.sleep(0)
        raise error

    first.start(take_in())
    second, second_ends = begin(first)
    second_ends.set()

    with pytest.raises(OutOfTurn):
        await second.taken
    with pytest.raises(type(error)):
        await first.taken
