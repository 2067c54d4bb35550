"""The table of limits says what is true, and verbs that are given more than their bound do no more than it."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration
from oncue.domain.job import Rate
from oncue.domain.planning import plan
from oncue.domain.policy import Overlap
from oncue.domain.run import State
from oncue.engines.port import JobQuery, Page, RunQuery
from oncue.settings import Settings
from oncue.testing.conformance import EmptyStore, Store

PAGE = Path(__file__).parents[1] / "docs" / "design" / "0013-limits.md"
ROW = re.compile(r"^\| [^|]+ \| `([a-z_.]+?)\.([A-Za-z_]+)` \| ([0-9,]+)(?: ([A-Za-z]+))? \|", re.MULTILINE)
UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "KiB": 1024, "MiB": 1024**2, "": 1}
LIMITS = ROW.findall(PAGE.read_text("utf-8"))


def test_every_row_of_the_table_is_read() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and "| bound |" not in line]

    assert len(rows) == len(LIMITS) > 50


@pytest.mark.parametrize(("module", "name", "value", "unit"), LIMITS, ids=[f"{row[0]}.{row[1]}" for row in LIMITS])
def test_a_limit_is_as_the_table_says(module: str, name: str, value: str, unit: str) -> None:
    of: Any = Settings() if module == "settings" else import_module(f"oncue.{module}")

    assert getattr(of, name) == int(value.replace(",", "")) * UNITS[unit]


# ------------------------------------------------------------------------------------------------------- more than that

MANY, BOUND = 7, 3


@pytest.fixture
async def store(empty_store: EmptyStore) -> AsyncIterator[Store]:
    async with await Store.on(await empty_store()) as store:
        yield store


async def due(store: Store) -> None:
    await store.one_shots(MANY)


async def expired(store: Store) -> None:
    await store.one_shots(MANY, start_within=MINUTE)
    store.advance(HOUR)


async def orphaned(store: Store) -> None:
    worker = await store.worker()
    await store.claim(worker, *await store.one_shots(MANY))
    await store.fleet.leave(worker)


async def dead(store: Store) -> None:
    for run_id in await store.one_shots(MANY):
        await store.end(run_id, State.DEAD)


async def recurring(store: Store) -> None:
    for _ in range(MANY):
        await store.recurring(every=MINUTE)


async def held(store: Store) -> None:
    await store.recurring(every=MINUTE, overlap=Overlap.QUEUE)
    await store.plan(ahead=(MANY + 1) * MINUTE)
    store.advance((MANY + 1) * MINUTE)


async def rated(store: Store) -> None:
    await store.one_shots(MANY, rate=Rate(1_000, Duration(HOUR), "r"))


async def length(found: Awaitable[list[Any]]) -> int:
    return len(await found)


async def page(found: Awaitable[Page[Any]]) -> int:
    return len((await found).items)


async def peeked(store: Store) -> int:
    [class_id] = await store.class_ids()
    return len(await store.running.peek([class_id], store.at(-HOUR), store.now, BOUND))


async def reaped(store: Store) -> int:
    await store.recover_runs(BOUND)
    return len(await store.runs(states=frozenset({State.WAITING})))


async def planned(store: Store) -> int:
    return (await store.plan(ahead=MINUTE, limit=BOUND)).jobs


async def planned_by_runs(store: Store) -> int:
    until = store.at(MINUTE)
    decide = partial(plan, now=store.now, until=until)
    return (await store.planning.plan(until, 2 * MANY, store.now, decide, runs=BOUND)).runs


async def purged(store: Store) -> int:
    job_id = next(iter(await store.runs())).job_id
    await store.jobs.cancel(None, job_id, store.now)
    return await store.jobs.purge(job_id, BOUND)


async def granted(store: Store) -> int:
    return (await store.permit(limit=BOUND)).runs


VERBS: dict[str, tuple[Callable[[Store], Awaitable[None]], Callable[[Store], Awaitable[int]]]] = {
    "peek": (due, peeked),
    "expire": (expired, lambda store: length(store.planning.expire(BOUND, store.now))),
    "recover_runs": (orphaned, reaped),
    "plan, by jobs": (recurring, planned),
    "plan, by runs": (recurring, planned_by_runs),
    "overdue": (held, lambda store: length(store.planning.overdue(BOUND, store.now))),
    "permit": (rated, granted),
    "purge": (held, purged),
    "dead letters": (dead, lambda store: page(store.lists.dead_letters(None, BOUND))),
    "list of jobs": (recurring, lambda store: page(store.lists.jobs(JobQuery(limit=BOUND)))),
    "list of runs": (due, lambda store: page(store.lists.runs(RunQuery(limit=BOUND)))),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_does_no_more_than_its_bound(store: Store, verb: str) -> None:
    fill, do = VERBS[verb]
    await fill(store)

    assert await do(store) == BOUND
