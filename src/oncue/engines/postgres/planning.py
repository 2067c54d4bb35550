"""Turns occurrences into runs. There is no leader: each scheduler takes due jobs that no other one has locked."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence

from asyncpg import Record

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import LONG_AGO, NEVER, Instant
from oncue.domain.job import Cursor, understand_spec
from oncue.domain.overlap import HeldRun, Unbegun, Withdrawal
from oncue.domain.planning import PLANNED_AT_ONCE, DueJob, Plan
from oncue.domain.run import Claimed, Settlement, State
from oncue.domain.zones import PACKAGED
from oncue.engines.deciding import permitted, planned, plans_of
from oncue.engines.port import Count, Expired, Permitted, Planned
from oncue.engines.postgres import lanes, meters, rows
from oncue.engines.postgres.counting import count
from oncue.engines.postgres.inserting import insert_runs, write_ledger
from oncue.engines.postgres.notices import insert_notices, new_ones, notice_class
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.running import claimed_runs, end_waiting
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.rules import FORGOTTEN_AFTER, SAID_EVERY
from oncue.engines.sql import statements
from oncue.engines.stored import TRIGGERS
from oncue.engines.telling import telling
from oncue.engines.unreadable import put_off, readable

_SQL = statements("oncue.engines.postgres")


class PostgresPlanning:
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
        async def plan(connection: Connection) -> tuple[list[Plan], int, str | None]:
            newer = await connection.fetchval(_SQL["rules_at_work"], rules, now, SAID_EVERY, FORGOTTEN_AFTER)
            taken = await connection.fetch(_SQL["plan_take"], until, limit, rules, newer is None, since)
            due = await connection.fetch(_SQL["plan_read"], [row["job_id"] for row in taken])
            jobs, unreadable = readable(due, _due_job)
            plans = plans_of(jobs, decide, runs)
            await _write(connection, plans, now)
            return plans, await _put_off(connection, unreadable, now, rules), newer

        plans, later, newer = await self._pieces.write("ledger", [now], plan)
        soonest = await self._store.fetch("select min(next_at) from agenda where rules is null or $1", newer is None)
        return planned(plans, now, soonest[0][0], newer, later)

    async def overdue(self, limit: int, now: Instant) -> list[HeldRun]:
        found = await self._store.fetch(_SQL["overdue"], limit, now)
        return readable(found, _held_run)[0]  # runs that cannot be decoded stay in the queue

    async def withdraw(self, withdrawals: Sequence[Withdrawal], now: Instant) -> frozenset[RunId]:
        return await self._pieces.write("ledger", [now], lambda c: _withdraw(c, withdrawals, now))

    async def expire(
        self, limit: int, now: Instant, decide: Callable[[Claimed], Settlement] | None = None
    ) -> list[Expired]:
        async def expire(connection: Connection) -> list[Expired]:
            found = await connection.fetch(_SQL["expired"], now, limit)
            decided = await _decided(connection, found, decide)
            touched = lanes.TouchedLanes(now)
            for row in found:
                touched.free(row["lane"], row["gate"])
            run_ids = [row["run_id"] for row in found]
            ended = frozenset(await end_waiting(connection, run_ids, touched, State.EXPIRED, now, decided))
            return [
                Expired(row["run_id"], row["job_id"], row["task"], row["wanted"])
                for row in found
                if row["run_id"] in ended
            ]

        return await self._pieces.write("history", [now], expire)

    async def permit(self, until: Instant, limit: int, now: Instant) -> Permitted:
        next_at, check_at = await self._next_grant()
        if next_at > until and check_at > now:
            return permitted([], next_at)
        due = await self._store.write(lambda c: meters.permit(c, until, limit, now))
        next_at, _ = await self._next_grant()
        return permitted(due, next_at)

    async def recall(self, until: Instant, now: Instant) -> int:
        return await self._store.write(lambda c: meters.recall(c, until, now))

    async def _next_grant(self) -> tuple[Instant, Instant]:
        """Return when there may be starts to grant, and when starts to check."""
        [found] = await self._store.fetch(_SQL["next_grant"], NEVER)
        return found["next_at"], found["check_at"]


async def _decided(
    connection: Connection, found: Sequence[Record], decide: Callable[[Claimed], Settlement] | None
) -> list[Settlement]:
    if decide is None or not found:
        return []
    told = await connection.fetch(_SQL["expired_runs"], [row["run_id"] for row in found])
    decided = [decide(run) for run in await claimed_runs(told, connection.fetch)]
    if telling(decided):
        await notice_class(connection)  # before any lane: see `tell`
    return decided


async def _write(connection: Connection, plans: Sequence[Plan], now: Instant) -> None:
    """Write runs, cursors and ledger, in the transaction that holds the cursors' locks."""
    if not plans:
        return
    touched = lanes.TouchedLanes(now)
    runs = [run for made in plans for run in made.runs]
    found = await connection.fetch(
        "select run_id from waiting where run_id = any($1::uuid[])", [r.run_id for r in runs]
    )
    there = {row["run_id"] for row in found}
    await insert_runs(connection, [(run, None) for run in runs if run.run_id not in there], touched)
    notices = await new_ones(connection, [notice for made in plans for notice in made.notices])
    await insert_notices(connection, notices, touched)
    await _advance(connection, [(made.job.job_id, made.cursor) for made in plans])
    if finished := [made.job.job_id for made in plans if made.finished]:
        await connection.execute(_SQL["plan_finish"], finished, now)
    entries = [(made.job.uid, made.job.class_id, entry) for made in plans for entry in made.ledger]
    await write_ledger(connection, entries, now)
    await lanes.tend(connection, touched)


async def _advance(connection: Connection, cursors: Sequence[tuple[JobId, Cursor]]) -> None:
    await connection.execute(
        _SQL["plan_advance"],
        [job_id for job_id, _ in cursors],
        [cursor.next_at for _, cursor in cursors],
        [cursor.floor for _, cursor in cursors],
        [cursor.planned for _, cursor in cursors],
        [cursor.rules for _, cursor in cursors],
    )


async def _put_off(connection: Connection, unreadable: Sequence[Record], now: Instant, rules: str) -> int:
    later = [
        (row["job_id"], Cursor(at, row["floor"], row["planned"], rules))
        for row in unreadable
        if (at := put_off(row["job_id"], row["next_at"], now)) is not None
    ]
    if later:
        await _advance(connection, later)
    return len(later)


async def _withdraw(connection: Connection, withdrawals: Sequence[Withdrawal], now: Instant) -> frozenset[RunId]:
    run_ids = sorted(withdrawal.run_id for withdrawal in withdrawals)
    touched = lanes.TouchedLanes(now)
    for row in await connection.fetch("select lane, gate from waiting where run_id = any($1::uuid[])", run_ids):
        touched.free(row["lane"], row["gate"])
    await lanes.lock(connection, touched, leaving=len(run_ids))
    let_in = [withdrawal.run_id for withdrawal in withdrawals if withdrawal.let_in]
    gone = await connection.fetch(_SQL["withdraw_held"], run_ids, let_in)
    await count(connection, Tally((row["uid"], row["class_id"], Count.WITHDRAWN) for row in gone), now)
    owners = {row["run_id"]: (row["uid"], row["class_id"]) for row in gone}
    await write_ledger(connection, [(*owners[w.run_id], w.entry) for w in withdrawals if w.run_id in owners], now)
    await lanes.tend(connection, touched)
    return frozenset(owners)


def _due_job(row: Record) -> DueJob:
    spec = understand_spec(row["spec"])
    lanes_of_job = spec.lanes(row["uid"], row["job_id"])
    return DueJob(row["job_id"], row["uid"], row["version"], row["class_id"], lanes_of_job, spec, rows.cursor(row))


def _held_run(row: Record) -> HeldRun:
    inside, begun = row["inside"], row["begun"]
    first = None
    if inside is not None and not begun:
        trigger = TRIGGERS[row["inside_trigger"]]
        first = Unbegun(inside, row["inside_wanted"], row["inside_nominal"], trigger)
    return HeldRun(
        run_id=row["run_id"],
        job_id=row["job_id"],
        wanted=row["wanted"],
        nominal=row["nominal"],
        trigger=TRIGGERS[row["trigger"]],
        overlap=understand_spec(row["spec"]).overlap,
        busy=inside if begun else None,
        first=first,
    )
