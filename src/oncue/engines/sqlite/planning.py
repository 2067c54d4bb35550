"""Turns occurrences into runs. There is no leader: each scheduler takes due jobs in its turn to write."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import apsw

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import LONG_AGO, NEVER, Instant
from oncue.domain.job import Cursor, understand_spec
from oncue.domain.overlap import HeldRun, Unbegun, Withdrawal
from oncue.domain.planning import PLANNED_AT_ONCE, DueJob, Plan
from oncue.domain.run import Claimed, Settlement, State
from oncue.domain.zones import PACKAGED
from oncue.engines.deciding import permitted, planned, plans_of
from oncue.engines.port import Expired, Permitted, Planned
from oncue.engines.rules import FORGOTTEN_AFTER, SAID_EVERY
from oncue.engines.sql import statements
from oncue.engines.sqlite import meters, rows
from oncue.engines.sqlite.following import withdraw
from oncue.engines.sqlite.inserting import insert_runs, write_ledger
from oncue.engines.sqlite.lanes import tend
from oncue.engines.sqlite.notices import insert_notices, new_ones, tell
from oncue.engines.sqlite.partitions import Partitions
from oncue.engines.sqlite.running import end_waiting
from oncue.engines.sqlite.store import Connection, Store, fetch
from oncue.engines.stored import TRIGGERS
from oncue.engines.telling import telling
from oncue.engines.touched import TouchedLanes
from oncue.engines.unreadable import put_off, readable

_SQL = statements("oncue.engines.sqlite")


class SqlitePlanning:
    def __init__(self, store: Store, pieces: Partitions) -> None:
        self._store = store
        self._pieces = pieces

    async def plan(
        self,
        until: Instant,
        limit: int,
        now: Instant,
        decide: Callable[[DueJob], Plan | None],
        *,
        since: Instant = LONG_AGO,
        runs: int = PLANNED_AT_ONCE,
        rules: str = PACKAGED.version,
    ) -> Planned:
        def plan(db: Connection) -> Planned:
            newer = _newer_rules(db, rules, now)
            jobs, unreadable = readable(_take(db, since, until, limit, rules, newer), _due_job)
            plans = plans_of(jobs, decide, runs)
            _write(db, plans, now)
            later = _put_off(db, unreadable, now, rules)
            next_at = fetch(db, "select min(next_at) from agenda where rules is null or ?", (newer is None,))
            return planned(plans, now, next_at[0][0], newer, later)

        return await self._store.write(plan)

    async def overdue(self, limit: int, now: Instant) -> list[HeldRun]:
        return await self._store.read(lambda db: _overdue(db, limit, now))

    async def withdraw(self, withdrawals: Sequence[Withdrawal], now: Instant) -> frozenset[RunId]:
        return await self._store.write(lambda db: _withdraw(db, withdrawals, now))

    async def expire(
        self, limit: int, now: Instant, decide: Callable[[Claimed], Settlement] | None = None
    ) -> list[Expired]:
        def expire(db: Connection) -> list[Expired]:
            found = fetch(db, _SQL["expired"], (now, limit))
            decided = _decided(db, [row[0] for row in found], decide)
            ended = end_waiting(db, self._pieces, [row[0] for row in found], State.EXPIRED, now)
            touched = TouchedLanes(now)
            tell(db, telling(decided), touched)
            tend(db, touched)
            return [
                Expired(run_id, JobId(UUID(bytes=job_id)), task, wanted)
                for run_id, (_, job_id, task, wanted) in zip(ended, found, strict=True)
            ]

        return await self._store.write(expire)

    async def permit(self, until: Instant, limit: int, now: Instant) -> Permitted:
        def permit(db: Connection) -> Permitted:
            due = meters.permit(db, until, limit, now)
            next_at, _ = _next_grant(db)
            return permitted(due, next_at)

        next_at, check_at = await self._store.read(_next_grant)
        if next_at > until and check_at > now:
            return permitted([], next_at)
        return await self._store.write(permit)

    async def recall(self, until: Instant, now: Instant) -> int:
        return await self._store.write(lambda db: meters.recall(db, until, now))


def _decided(db: Connection, run_ids: list[bytes], decide: Callable[[Claimed], Settlement] | None) -> list[Settlement]:
    if decide is None or not run_ids:
        return []
    found = fetch(db, _SQL["expired_runs"], (rows.blobs(run_ids),))
    return [decide(run) for run in rows.claimed(found, {row[0]: RunId(UUID(bytes=row[0])) for row in found})]


def _next_grant(db: Connection) -> tuple[Instant, Instant]:
    """Return when there may be starts to grant, and when starts to check."""
    [(next_at, check_at)] = fetch(db, _SQL["next_grant"], (NEVER,))
    return next_at, check_at


def _newer_rules(db: Connection, rules: str, now: Instant) -> str | None:
    """Write which rules we use; return the newest rules of another scheduler, if they are newer."""
    db.execute(_SQL["say_rules"], (rules, now, SAID_EVERY))
    newer: str | None = fetch(db, _SQL["newer_rules"], (rules, now, FORGOTTEN_AFTER))[0][0]
    return newer


def _take(db: Connection, since: Instant, until: Instant, limit: int, rules: str, newer: str | None) -> list[rows.Row]:
    """Take due jobs first, then those whose cursor other rules computed."""
    due = fetch(db, _SQL["plan_take"], (since, until, limit, newer is None))
    if newer is not None or len(due) == limit:
        return due
    return due + fetch(db, _SQL["plan_take_others"], (until, limit - len(due), rules))


def _write(db: Connection, plans: Sequence[Plan], now: Instant) -> None:
    """Write runs, cursors and ledger. A run that exists already stays as it is: an edit may have created it."""
    touched = TouchedLanes(now)
    runs = {run.run_id.bytes: run for made in plans for run in made.runs}
    if runs:
        asked = (rows.blobs(runs),)
        for (run_id,) in fetch(db, _SQL["there"].format(table="runs", key="run_id"), asked):
            del runs[run_id]
    insert_runs(db, [(run, None) for run in runs.values()], touched)
    insert_notices(db, new_ones(db, [notice for made in plans for notice in made.notices]), touched)
    db.executemany(
        _SQL["plan_advance"],
        [(p.cursor.next_at, p.cursor.floor, p.cursor.planned, p.cursor.rules, p.job.job_id.bytes) for p in plans],
    )
    db.executemany(_SQL["plan_finish"], [(now, made.job.job_id.bytes) for made in plans if made.finished])
    write_ledger(db, [(p.job.uid, p.job.class_id, entry) for p in plans for entry in p.ledger], now)
    tend(db, touched)


def _put_off(db: Connection, unreadable: Sequence[rows.Row], now: Instant, rules: str) -> int:
    put_off_now = 0
    for job_id, _, _, _, _, next_at, floor, so_far, _ in unreadable:
        if (later := put_off(UUID(bytes=job_id), next_at, now)) is not None:
            db.execute(_SQL["plan_advance"], (later, floor, so_far, rules, job_id))
            put_off_now += 1
    return put_off_now


def _withdraw(db: Connection, withdrawals: Sequence[Withdrawal], now: Instant) -> frozenset[RunId]:
    asked = {withdrawal.run_id.bytes: withdrawal for withdrawal in withdrawals}
    if not asked:
        return frozenset()
    let_in = rows.blobs([b"", *(run_id for run_id, one in asked.items() if one.let_in)])  # at least one: no run's id
    held = [run_id for (run_id,) in fetch(db, _SQL["still_held"], (rows.blobs(asked), let_in))]
    if not held:
        return frozenset()
    touched = TouchedLanes(now)
    owners = {
        run_id: (uid, class_id) for run_id, uid, class_id, _, _ in fetch(db, _SQL["members"], (rows.blobs(held),))
    }
    withdraw(db, held, touched)
    write_ledger(db, [(*owners[run_id], asked[run_id].entry) for run_id in held], now)
    tend(db, touched)
    return frozenset(asked[run_id].run_id for run_id in held)


def _due_job(row: rows.Row) -> DueJob:
    identifier, uid, version, class_id, stored, *cursor = row
    job_id, spec = JobId(UUID(bytes=identifier)), understand_spec(stored)
    return DueJob(job_id, uid, version, class_id, spec.lanes(uid, job_id), spec, Cursor(*cursor))


def _overdue(db: Connection, limit: int, now: Instant) -> list[HeldRun]:
    """Pair each with the run of its job that its lane has admitted, found by the lane: that has one member inside."""
    found = fetch(db, _SQL["overdue"], (now, limit))
    if not found:
        return []
    lanes = apsw.carray(array("q", {row[-1] for row in found}))
    inside = {(lane, job_id): (*one, begun) for lane, job_id, *one, begun in fetch(db, _SQL["inside"], (lanes,))}
    return readable(found, partial(_held_run, inside))[0]  # runs that cannot be decoded stay in the queue


def _held_run(inside: dict[tuple[int, bytes], tuple[Any, ...]], row: rows.Row) -> HeldRun:
    run_id, job_id, wanted, nominal, trigger, spec, lane = row
    busy, first = None, None
    if (lane, job_id) in inside:
        ahead, its_wanted, its_nominal, its_trigger, begun = inside[lane, job_id]
        if begun:
            busy = RunId(UUID(bytes=ahead))
        else:
            first = Unbegun(RunId(UUID(bytes=ahead)), its_wanted, its_nominal, TRIGGERS[its_trigger])
    return HeldRun(
        run_id=RunId(UUID(bytes=run_id)),
        job_id=JobId(UUID(bytes=job_id)),
        wanted=wanted,
        nominal=nominal,
        trigger=TRIGGERS[trigger],
        overlap=understand_spec(spec).overlap,
        busy=busy,
        first=first,
    )
