"""How busy a worker says it is."""

from math import exp
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.services.worker_loops import Stage, crew_on, work

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.load import Load, read_load, show_load
from oncue.domain.placement import Resources
from oncue.services.capacity import Capacity
from oncue.services.channel import Alive, FromWorker
from oncue.services.load_meter import MOST_CLASSES, LoadMeter
from oncue.tasks import Isolation
from oncue.testing.clock import FakeClock
from oncue.testing.conformance import Store


class Watched:
    """A meter whose worker has two kinds of slots, and whose loop works as long as the test says."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.worked = Duration(0)
        self.capacity = Capacity({Isolation.LOOP: 10, Isolation.THREAD: 2}, Resources(1_000, 1_000, 10))
        self.meter = LoadMeter(self.clock, self.capacity, lambda: self.worked)

    def end(self, class_id: int, *lengths: int) -> None:
        settled: list[Any] = [
            SimpleNamespace(run=SimpleNamespace(class_id=class_id), started_at=Instant(5), ended_at=Instant(5 + length))
            for length in lengths
        ]
        self.meter.add(settled)

    async def after(self, length: int) -> Load:
        await self.clock.advance(Duration(length))
        return self.meter.read()


async def test_slots_are_told_by_kind() -> None:
    watched = Watched()
    watched.capacity.take(Isolation.LOOP, Resources(slots=3), UserNumber(1))

    load = await watched.after(SECOND)

    assert (load.slots, load.used) == ({"loop": 10, "thread": 2}, {"loop": 3, "thread": 0})


async def test_the_loop_is_busy_for_the_share_of_time_that_it_worked_since_the_last_reading() -> None:
    watched = Watched()
    watched.worked = Duration(SECOND)
    assert (await watched.after(4 * SECOND)).busy == 0.25
    assert (await watched.after(SECOND)).busy == 0
    watched.worked = Duration(3 * SECOND)
    assert (await watched.after(SECOND)).busy == 1  # the two clocks are not quite one
    assert watched.meter.read().busy == 0  # no time has passed


async def test_the_mean_of_a_class_follows_what_ended_in_about_the_last_minute() -> None:
    watched = Watched()
    watched.end(1, 2 * SECOND, 4 * SECOND)
    watched.end(2, 7 * SECOND)
    assert (await watched.after(SECOND)).mean == {1: 3 * SECOND, 2: 7 * SECOND}

    watched.end(1, 13 * SECOND)
    then = (await watched.after(MINUTE)).mean
    assert then[ClassId(1)] == pytest.approx((13 - 10 * exp(-1)) * SECOND, abs=1)
    assert then[ClassId(2)] == 7 * SECOND  # nothing of it has ended since

    watched.end(2, SECOND)
    assert (await watched.after(HOUR)).mean[ClassId(2)] == pytest.approx(SECOND, abs=1)


async def test_what_has_not_begun_has_no_length() -> None:
    watched = Watched()
    unbegun: Any = SimpleNamespace(run=SimpleNamespace(class_id=1), started_at=None, ended_at=Instant(9))
    watched.meter.add([unbegun])

    assert (await watched.after(SECOND)).mean == {}


async def test_the_last_hundred_classes_are_told() -> None:
    watched = Watched()
    for class_id in range(MOST_CLASSES):
        watched.end(class_id, SECOND)
        await watched.after(SECOND)
    watched.end(0, SECOND)  # the oldest is in use again
    watched.end(MOST_CLASSES, SECOND)

    assert set((await watched.after(SECOND)).mean) == {0, *range(2, MOST_CLASSES + 1)}


async def test_what_a_worker_settles_counts(store: Store) -> None:
    crew = await crew_on(store, Stage())
    run_id = await store.one_shot(task="noop")
    await work(crew)

    assert crew.load.read().mean == {(await store.run(run_id)).class_id: 0}


def test_a_load_is_read_as_it_was_stored_also_by_another_version() -> None:
    load = Load({"loop": 10}, {"loop": 3}, 0.25, {ClassId(7): Duration(5)})

    assert read_load(show_load(load)) == load
    assert read_load(b'{"busy": 0.5, "of a newer version": 1}') == Load(busy=0.5)
    assert read_load(b'{"busy": "much"}') is read_load(b"\xff") is read_load(None) is None
    said = msgspec.json.decode(b'{"type": "alive", "load": {"busy": 0.5, "more": 1}, "new": 2}', type=FromWorker)  # type: ignore[arg-type]
    assert said == Alive(load=Load(busy=0.5))
