"""Who is told of runs that are due: few, with room, alive; everybody only if there is none."""

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from oncue.domain.ids import ClassId, RunId, UserNumber, WorkerId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.load import Load, show_load
from oncue.domain.run import Peeked
from oncue.engines.port import Hint, Topic, Worker
from oncue.engines.recipients import REFRESH, Recipients
from oncue.testing.clock import FakeClock

LEASE = Duration(15 * SECOND)
NOW = Instant(10**9)
A, B = ClassId(1), ClassId(2)


def worker(
    n: int, *classes: ClassId, full: tuple[ClassId, ...] = (), silent: int = 0, draining: bool = False
) -> Worker:
    worker_id, beat_at = WorkerId(UUID(int=n)), Instant(NOW - silent)
    return Worker(worker_id, f"w{n}", "host", LEASE, NOW, beat_at, draining, classes, load=show_load(Load(full=full)))


def run(n: int, class_id: ClassId = A) -> Peeked:
    return Peeked(RunId(UUID(int=1_000 + n)), NOW, class_id, UserNumber(1))


def named(*runs: Peeked) -> Hint:
    return Hint(Topic.RUNS, NOW, runs=runs)


class Fleet:
    def __init__(self, *workers: Worker) -> None:
        self.workers: Sequence[Worker] = workers
        self.reads = 0
        self.clock = FakeClock()
        self.recipients = Recipients(self.read, self.clock, Random(1))

    async def read(self) -> Sequence[Worker]:
        self.reads += 1
        return self.workers

    async def told(self, hint: Hint) -> dict[int | None, Hint]:
        """The hints, by the number of their worker."""
        found = await self.recipients.addressed([hint])
        return {None if one.target is None else UUID(one.target).int: one for one in found}


async def test_two_of_many_are_told_and_four_of_many_runs() -> None:
    fleet = Fleet(*(worker(n, A) for n in range(1, 51)))

    assert len(await fleet.told(named(run(1)))) == 2
    assert len(await fleet.told(named(*map(run, range(19))))) == 2
    assert len(await fleet.told(named(*map(run, range(20))))) == 4
    assert len(await fleet.told(Hint(Topic.RUNS, NOW, classes=(A,)))) == 4


async def test_they_are_others_each_time() -> None:
    fleet = Fleet(*(worker(n, A) for n in range(1, 11)))

    told = {target for n in range(50) for target in await fleet.told(named(run(n)))}

    assert told == set(range(1, 11))


@pytest.mark.parametrize(
    "useless",
    [
        worker(1),
        worker(1, B),
        worker(1, A, full=(A,)),
        worker(1, A, draining=True),
        worker(1, A, silent=LEASE // 2 + 1),
    ],
    ids=["without classes", "with another class", "full", "draining", "silent"],
)
async def test_who_cannot_take_a_run_is_not_told(useless: Worker) -> None:
    able = worker(2, A)

    assert await Fleet(useless, able).told(named(run(1))) == {2: Hint(Topic.RUNS, NOW, str(able.worker_id), (run(1),))}
    fleet = Fleet(useless, worker(3, ClassId(9)))
    assert await fleet.told(named(run(1))) == {None: named(run(1))}  # nobody can: everybody is told


async def test_each_is_told_of_what_it_can_take() -> None:
    fleet = Fleet(worker(1, A), worker(2, B), worker(3, A, B, full=(B,)))
    told = await fleet.told(named(run(1, A), run(2, B), run(3, ClassId(3))))

    assert {who: [one.class_id for one in hint.runs] for who, hint in told.items()} == {
        1: [A],
        2: [B],
        3: [A],
        None: [3],
    }


async def test_a_hint_without_classes_and_other_topics_go_to_everybody() -> None:
    fleet = Fleet(worker(1, A))
    hints = [Hint(Topic.RUNS), Hint(Topic.JOBS, NOW), Hint(Topic.CANCELS, target="w"), Hint(Topic.CHANGED, target="1")]

    assert await fleet.recipients.addressed(hints) == hints
    assert fleet.reads == 0


async def test_what_is_passed_on_goes_to_others_or_to_nobody() -> None:
    """Catches full workers that wake everybody again and again."""
    fleet = Fleet(worker(1, A), worker(2, A))
    me, other = (WorkerId(UUID(int=n)) for n in (1, 2))

    assert [hint.target for hint in await fleet.recipients.passed_on(named(run(1)), me)] == [str(other)]
    fleet.workers = [worker(1, A), worker(2, A, full=(A,))]
    await fleet.clock.advance(REFRESH)
    assert await fleet.recipients.passed_on(named(run(1)), me) == []


async def test_who_has_room_is_read_every_three_seconds_while_something_is_sent() -> None:
    fleet = Fleet(worker(1, A))
    for _ in range(5):
        await fleet.told(named(run(1)))
    assert fleet.reads == 1
    fleet.workers = [worker(2, A)]
    await fleet.clock.advance(REFRESH)

    assert [*await fleet.told(named(run(1)))] == [2]
