"""Classes: what a worker can or cannot take, as small numbers that never change, and go when nothing has them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from oncue.domain.errors import TooManyClasses
from oncue.domain.ids import NO_CLASS, ClassId, RunId, UserNumber
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.placement import GONE, ClassKey, Priority, Resources
from oncue.domain.run import Peeked, State
from oncue.engines.port import EVERYBODY, Count, Created, Quota
from oncue.settings import Settings
from oncue_conformance.store import LONG_AGO, Store, job_of

KEYS = [
    ClassKey("a"),
    ClassKey("b"),
    ClassKey("a", queue="slow"),
    ClassKey("a", priority=Priority.HIGH),
    ClassKey("a", labels=("gpu", "ssd")),
    ClassKey("a", labels=("gpu",)),
    ClassKey("a", size=Resources(cpu_milli=500)),
    ClassKey("a", size=Resources(memory_mb=500)),
    ClassKey("a", size=Resources(slots=2)),
]


async def test_each_class_has_one_number(store: Store) -> None:
    first = await store.jobs.intern(KEYS)
    again = await store.jobs.intern([*reversed(KEYS), KEYS[0]])

    assert len(set(first)) == len(KEYS)
    assert again == [*reversed(first), first[0]]
    assert await store.jobs.intern([]) == []


async def test_classes_are_known_to_everybody_as_they_were_made(store: Store) -> None:
    other = await store.second()
    numbers = await store.jobs.intern(KEYS)

    known = await other.jobs.classes()

    assert [known[number] for number in numbers] == KEYS
    assert await other.jobs.intern(KEYS) == numbers


async def test_many_who_meet_a_class_first_agree_on_its_number(store: Store) -> None:
    other = await store.second()
    mixed = [store.chance.sample(KEYS, len(KEYS)) for _ in range(12)]

    answers = await asyncio.gather(*((store, other)[i % 2].jobs.intern(keys) for i, keys in enumerate(mixed)))

    numbered = [dict(zip(keys, numbers, strict=True)) for keys, numbers in zip(mixed, answers, strict=True)]
    assert all(one == numbered[0] for one in numbered)
    assert len(set(numbered[0].values())) == len(KEYS)


async def test_only_classes_after_a_number_are_read_and_only_so_many(store: Store) -> None:
    numbers = await store.jobs.intern(KEYS)
    known = await store.jobs.classes()

    [new] = await store.jobs.intern([ClassKey("new")])

    assert list(known) == sorted(numbers)
    assert await store.jobs.classes(max(numbers)) == {new: ClassKey("new")}
    assert list(await store.jobs.classes(sorted(numbers)[2], 3)) == sorted(numbers)[3:6]
    assert await store.jobs.classes(new) == {}


async def test_whoever_reads_only_what_is_new_misses_no_class(store: Store) -> None:
    """However many callers create classes at once: none appears below a number that was seen."""
    others, seen, going = [store, await store.second()], dict[ClassId, ClassKey](), True
    keys = [[ClassKey("t", queue=f"{maker}.{n}") for n in range(25)] for maker in range(4)]

    async def read() -> None:
        while going:
            seen.update(await store.jobs.classes(max(seen, default=NO_CLASS)))

    async def make(maker: int) -> None:
        for key in keys[maker]:
            await others[maker % 2].jobs.intern([key])

    reading = asyncio.create_task(read())
    await asyncio.gather(*map(make, range(len(keys))))
    going = False
    await reading
    seen.update(await store.jobs.classes(max(seen)))

    assert seen == await store.jobs.classes()
    assert len(seen) == 100


# -------------------------------------------------------------------------------------------- found or made with a job


@pytest.mark.parametrize("kind", ["one_shot", "recurring"])
async def test_the_class_of_a_job_is_made_with_it(store: Store, kind: str) -> None:
    store.numbers_classes = False
    new, next_one = [await getattr(store, f"new_{kind}")(queue="q") for _ in range(2)]
    assert await store.jobs.classes() == {}

    [first] = await store.create(new)
    [second] = await store.create(next_one)

    assert await store.jobs.classes() == {first.class_id: ClassKey("noop", queue="q")}
    assert second.class_id == first.class_id
    assert (await store.snapshot(new.job.job_id)).class_id == first.class_id
    await store.plan(2 * MINUTE)
    assert {run.class_id for run in await store.runs()} == {first.class_id}


async def test_who_knows_the_number_of_a_class_is_told_none(store: Store) -> None:
    assert [one.class_id for one in await store.create(await store.new_one_shot())] == [NO_CLASS]


async def test_a_job_that_is_refused_leaves_no_class(store: Store) -> None:
    store.numbers_classes = False
    quota = Quota(jobs=1)
    await store.create(replace(await store.new_one_shot(HOUR), quota=quota))

    refused = [replace(await store.new_one_shot(queue=f"q{n}"), quota=quota) for n in range(20)]
    apart = await store.create(*refused[:10])
    whole = await store.create(*refused[10:], whole=True)

    assert {one.outcome for one in (*apart, *whole)} == {Created.OVER_QUOTA}
    assert list((await store.jobs.classes()).values()) == [ClassKey("noop")]


async def test_an_edit_makes_the_class_it_needs_if_it_is_applied(store: Store) -> None:
    store.numbers_classes = False
    job_id, once = await store.recurring(), await store.one_shot(HOUR)
    old = await store.snapshot(job_id)

    assert await store.edit(job_id, queue="a")
    assert await store.edit(job_of(once), queue="b")
    late = await store.edited(old, queue="c")

    assert await store.jobs.apply(late, store.now) is False
    classes = await store.jobs.classes()
    assert classes[(await store.snapshot(job_id)).class_id] == ClassKey("noop", queue="a")
    assert classes[(await store.run(once)).class_id] == ClassKey("noop", queue="b")
    assert {key.queue for key in classes.values()} == {"default", "a", "b"}


async def test_a_user_makes_only_so_many_classes(store: Store) -> None:
    store.numbers_classes = False
    most = Settings().quota_classes
    mine = await store.recurring()  # one of them
    ahead = [await store.new_one_shot(HOUR, queue=f"q{n}") for n in range(most)]

    with pytest.raises(TooManyClasses) as refused:
        await store.create(*ahead, whole=True)
    assert (refused.value.path, refused.value.key) == ("queue", ClassKey("noop", queue=f"q{most - 1}"))
    assert (len(await store.jobs.classes()), await store.runs()) == (1, [])

    await store.create(*ahead[: most - 1], whole=True)
    for spec, path in (({"queue": "x"}, "queue"), ({"labels": ("l",)}, "labels"), ({"task": "other"}, "queue")):
        with pytest.raises(TooManyClasses) as refused:
            await store.create(await store.new_one_shot(**spec))
        assert refused.value.path == path
    with pytest.raises(TooManyClasses):
        await store.edit(mine, queue="x")

    assert (await store.snapshot(mine)).job.version == 1
    assert len(await store.jobs.classes()) == most
    await store.one_shot(queue="q1")
    await store.one_shot(queue="x", uid=store.stranger)
    await store.one_shot(queue="x")


# ------------------------------------------------------------------------------------------------------ and let go


KEEP = Duration(3 * DAY)


async def pass_days(store: Store, days: int) -> None:
    """Maintain as schedulers do, but less often."""
    for _ in range(days):
        store.advance(DAY)
        await store.maintenance.roll_up()
        await store.maintenance.maintain(store.now, KEEP)


async def queues(store: Store) -> set[str]:
    return {key.queue for key in (await store.jobs.classes()).values()} - {"newest"}


async def test_a_class_that_nothing_refers_to_goes(store: Store) -> None:
    numbers = await store.jobs.intern([ClassKey("noop", queue=queue) for queue in ("a", "b", "newest")])
    await store.maintenance.maintain(store.now, KEEP)
    assert await queues(store) == {"a", "b"}

    await pass_days(store, 2)
    assert await queues(store) == set()

    again = await store.jobs.intern([ClassKey("noop", queue="a")])
    assert not set(again) & set(numbers)  # a number is never given to another class


async def test_a_class_stays_while_anybody_asks_for_it(store: Store) -> None:
    key, newest = ClassKey("noop", queue="a"), ClassKey("noop", queue="newest")
    numbers = await store.jobs.intern([key, newest])
    for _ in range(5):
        await pass_days(store, 1)
        assert await store.jobs.intern([key, newest]) == numbers


async def test_a_class_stays_while_a_job_a_run_or_history_has_it(store: Store) -> None:
    store.numbers_classes = False
    worker = await store.worker()
    await store.recurring(queue="recurring")
    await store.one_shot(100 * DAY, queue="waiting")
    running = await store.one_shot(queue="running")
    ended = await store.one_shot(queue="ended")
    dead = await store.one_shot(queue="dead")
    await store.one_shot(100 * DAY, queue="newest")
    runs = {run.run_id: run for run in await store.claim_due(worker)}
    await store.succeed(worker, runs[ended])
    await store.fail(worker, runs[dead], retry=False)
    before = await store.counts()

    await pass_days(store, 3)
    assert await queues(store) == {"recurring", "waiting", "running", "ended", "dead"}
    await pass_days(store, 4)
    assert await queues(store) == {"recurring", "waiting", "running", "dead", GONE}

    await store.beat(worker)
    await store.succeed(worker, runs[running])
    await store.history.discard(None, [dead])
    await pass_days(store, 8)
    assert await queues(store) == {"recurring", "waiting", GONE}
    assert await store.counts() == before + Counter({Count.SUCCEEDED: 1, Count.DISCARDED: 1})


async def test_what_classes_counted_that_went_is_counted_for_their_users_and_tasks(store: Store) -> None:
    store.numbers_classes = False
    worker = await store.worker()
    for uid in (store.uid, store.stranger):
        for queue, task in (("a", "noop"), ("b", "noop"), ("b", "other")):
            await store.one_shot(uid=uid, queue=queue, task=task)
    await store.succeed(worker, *await store.claim_due(worker))
    await store.one_shot(100 * DAY, queue="newest")

    await pass_days(store, 8)

    classes = await store.jobs.classes()
    found = {
        (one.uid, classes[one.class_id].task, one.what): one.n
        for uid in (store.uid, store.stranger, None)
        for one in await store.history.counters(uid)
        if classes[one.class_id].queue == GONE
    }
    assert found == {
        (uid, task, what): n * users
        for uid, users in ((store.uid, 1), (store.stranger, 1), (EVERYBODY, 2))
        for task, n in (("noop", 2), ("other", 1))
        for what in (Count.CREATED, Count.SUCCEEDED)
    }


async def test_a_job_made_after_its_class_went_has_one_that_is_there(store: Store) -> None:
    store.numbers_classes = False
    other = await store.second()
    other.numbers_classes = False
    run_id = await store.one_shot(queue="a")
    await store.end(run_id, State.SUCCEEDED)
    await store.one_shot(100 * DAY, queue="newest")
    await pass_days(store, 8)
    assert await queues(store) == {GONE}

    for one in (store, other):
        again = await one.one_shot(queue="a")
        assert (await store.jobs.classes())[(await store.run(again)).class_id] == ClassKey("noop", queue="a")
        assert again in await store.claimable()
    assert len([key for key in (await store.jobs.classes()).values() if key.queue == "a"]) == 1


async def test_classes_go_in_as_many_turns_as_it_takes(store: Store) -> None:
    await store.jobs.intern([ClassKey("noop", queue=f"q{n}") for n in range(2_500)])
    await store.jobs.intern([ClassKey("noop", queue="newest")])
    await store.maintenance.maintain(store.now, KEEP)

    await pass_days(store, 2)

    assert await queues(store) == set()


# ------------------------------------------------------------------------------------------------------ looking at many


async def test_runs_are_found_among_thousands_of_classes(store: Store) -> None:
    """With all classes, with those that have no runs, and with fewer than have runs."""
    numbers = await store.jobs.intern([ClassKey("noop", queue=f"q{n}") for n in range(3_000)])
    made = [await store.one_shot(n, queue=f"q{7 * n}") for n in range(300)]
    store.advance(SECOND)

    def ids_of(found: list[Peeked]) -> list[RunId]:
        return [run.run_id for run in found]

    assert ids_of(await store.running.peek(numbers, LONG_AGO, store.now, 10)) == made
    assert ids_of(await store.running.peek(numbers[::-1], LONG_AGO, store.now, 10)) == made
    assert ids_of(await store.running.peek(numbers[:250], LONG_AGO, store.now, 10)) == made[:36]
    assert ids_of(await store.running.peek(numbers[2_500:], LONG_AGO, store.now, 10)) == []
    for asked in (numbers[:2_100:7], numbers[:700:7], numbers[:707:7], numbers[3::7]):
        expected = made[: len(asked)] if asked[0] == numbers[0] else []
        assert ids_of(await store.running.peek(asked, LONG_AGO, store.now, 10)) == expected
    assert ids_of(await store.running.peek(numbers, store.at(-SECOND + 270), store.now, 10)) == made[271:]
    turns = await store.running.peek_fair(numbers, UserNumber(0), 10, 10, store.now)
    assert ids_of(turns.runs) == made[:10]
