"""Find the objects of a bulk, a page at a time. Objects that came after it was asked for are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never
from uuid import UUID

import msgspec
from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.ids import NOTICES, created_at
from oncue.domain.instants import NEVER, Instant
from oncue.domain.run import RunView, State, shown
from oncue.engines.bulk_values import Bulk, Kind, Progress
from oncue.engines.known_classes import KnownClasses
from oncue.engines.port import Engine, JobRow, Page

PARTS = (State.WAITING, State.RUNNING)  # a run that is claimed meanwhile is found in the second part


class Found(msgspec.Struct, frozen=True):
    """Some objects, and the progress of a walk that has reached them."""

    items: tuple[JobRow | RunView, ...]
    ids: tuple[UUID, ...]
    progress: Progress


class BulkWalk:
    def __init__(self, engine: Engine, clock: Clock, classes: KnownClasses | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._classes = classes or KnownClasses(engine.jobs, clock)

    async def look(self, bulk: Bulk, limit: int) -> Found:
        """Return the next objects, none if a page has none that fit."""
        order, progress = bulk.order, bulk.progress
        if order.ids is not None:
            return _of_ids(order.ids, progress, limit)
        match order.of:
            case Kind.JOBS:
                return await self._jobs(bulk, limit)
            case Kind.RUNS:
                return await self._runs(bulk, limit)
            case Kind.LETTERS:
                return await self._letters(bulk, limit)
            case _:
                assert_never(order.of)

    async def _jobs(self, bulk: Bulk, limit: int) -> Found:
        query = bulk.order.jobs
        assert query is not None, "a bulk of jobs without ids has a query"
        prefix, statuses = query.name_prefix or "", query.statuses
        page = await self._engine.lists.jobs(replace(query, limit=limit, after=bulk.progress.after))
        windowed = query.next_from is not None or query.next_until is not None

        def fits(row: JobRow) -> bool:
            return (
                (statuses is None or row.job.status in statuses)
                and (row.job.spec.name or "").startswith(prefix)
                and created_at(row.job.job_id) <= bulk.created_at
                and (not windowed or (query.next_from or 0) <= (row.next_at or NEVER) < (query.next_until or NEVER))
            )

        rows = tuple(filter(fits, page.items))
        return Found(rows, tuple(row.job.job_id for row in rows), _after(bulk.progress, page))

    async def _runs(self, bulk: Bulk, limit: int) -> Found:
        query, statuses = bulk.order.runs, bulk.order.statuses
        assert query is not None, "a bulk of runs without ids has a query"
        states = query.states or frozenset(State)
        parts = [frozenset({part}) for part in PARTS if part in states] + [states - set(PARTS)]
        parts = [part for part in parts if part]
        part = min(bulk.progress.part, len(parts) - 1)
        query = replace(query, states=parts[part], limit=limit, after=bulk.progress.after)
        page, now = await self._engine.lists.runs(query), self._clock.now()

        def fits(run: RunView) -> bool:
            tries, cancelling = run.failures + run.losses, run.cancel_at is not None
            status = shown(run.state, due=run.due, tries=tries, cancelling=cancelling, now=now)
            return (
                run.job_id != NOTICES
                and (statuses is None or status in statuses)
                and (run.ended_at or created_at(run.run_id)) <= bulk.created_at
            )

        runs = tuple(filter(fits, page.items))
        progress = _after(bulk.progress, page)
        if page.next is None and part + 1 < len(parts):
            progress = replace(progress, part=part + 1, more=True)
        return Found(runs, tuple(run.run_id for run in runs), progress)

    async def _letters(self, bulk: Bulk, limit: int) -> Found:
        query = bulk.order.letters
        assert query is not None, "a bulk of dead letters without ids has a query"
        after, kind = bulk.progress.after, query.fingerprint
        uid = bulk.sees if query.uid is None else query.uid
        page = await self._engine.lists.dead_letters(uid, limit, after, fingerprint=kind)
        await self._classes.read_new()

        def fits(run: RunView) -> bool:
            key = self._classes.known.get(run.class_id)
            return (
                run.job_id != NOTICES
                and query.job_id in (None, run.job_id)
                and query.task in (None, key and key.task)
                and query.queue in (None, key and key.queue)
                and (query.wanted_from is None or query.wanted_from <= run.wanted)
                and (query.wanted_until is None or run.wanted < query.wanted_until)
                and (run.ended_at or Instant(0)) <= bulk.created_at
            )

        runs = tuple(filter(fits, page.items))
        return Found(runs, tuple(run.run_id for run in runs), _after(bulk.progress, page))


def _of_ids(ids: Sequence[UUID], progress: Progress, limit: int) -> Found:
    taken = int(progress.after or 0)
    some = tuple(ids[taken : taken + limit])
    reached = taken + len(some)
    return Found((), some, replace(progress, after=str(reached), more=reached < len(ids)))


def _after(progress: Progress, page: Page[JobRow] | Page[RunView]) -> Progress:
    return replace(progress, after=page.next, more=page.next is not None)
