"""Classes: what a worker can or cannot take, as small numbers that never change."""

from __future__ import annotations

import asyncio

from oncue.domain.placement import ClassKey, Priority, Resources
from oncue.testing.conformance.store import Store

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
