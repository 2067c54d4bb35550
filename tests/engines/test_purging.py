"""What a purge leaves behind, looked for in every column of every table there is: also in one that comes later."""

from typing import Any
from uuid import UUID

from oncue.domain import change
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import HOUR, MINUTE
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State
from oncue.engines.port import AuditEntry, IdempotencyKey
from oncue.testing import conformance
from oncue_conformance.dead_letters import requeued
from oncue_conformance.store import Store, ids, only

store = conformance.store

MARK = "only this job says so"  # in whatever of it is text
CUT_UP = ("history", "ledger", "run_logs", "audit")  # into pieces
STAYS = {
    "audit": "it tells who purged it",
    "repeats_0": "whoever repeats the request that made it is not to make another one",
    "repeats_1": "the same",
    "grants": "a start that was made counts for its rate, as long as that says",
}


async def places(store: Store, engine_name: str, marks: list[bytes]) -> set[str]:
    """The tables that have any of these somewhere, in whatever column; a piece counts as the table it is one of."""
    found = set()
    for table, row in await (rows_of_postgres(store) if engine_name == "postgres" else rows_of_sqlite(store)):
        if any(mark in value for value in row for mark in marks):
            found.add(next((whole for whole in CUT_UP if table.startswith(f"{whole}_")), table))
    return found


async def rows_of_sqlite(store: Store) -> list[tuple[str, list[bytes]]]:
    def look(db: Any) -> list[tuple[str, list[bytes]]]:
        tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table'").fetchall()]
        return [
            (name, [value if isinstance(value, bytes) else str(value).encode() for value in row])
            for name in tables
            for row in db.execute(f"select * from {name}").fetchall()
        ]

    return await store.engine._store.read(look)  # type: ignore[attr-defined]


async def rows_of_postgres(store: Store) -> list[tuple[str, list[bytes]]]:
    fetch = store.engine._store.fetch  # type: ignore[attr-defined]
    tables = await fetch("select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace")
    return [
        (name, [as_bytes(value) for value in row.values()])
        for (name,) in tables
        for row in await fetch(f"select * from {name}")
    ]


def as_bytes(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case UUID():
            return value.bytes
        case list():
            return b" ".join(as_bytes(one) for one in value)
        case _:
            return str(value).encode()


def marks_of(*found: UUID) -> list[bytes]:
    """Ids as they are stored, and as they are written."""
    return [mark for one in found for mark in (one.bytes, str(one).encode(), one.hex.encode())] + [MARK.encode()]


async def lived(store: Store) -> tuple[JobId, list[RunId]]:
    """A recurring job that has had everything a job can have; cancelled."""
    idempotency_key = IdempotencyKey(b"r" * 16, b"b" * 16)
    job_id = await store.recurring(
        every=MINUTE,
        overlap=Overlap.SKIP,
        key=MARK,
        name=MARK,
        tags=(MARK,),
        group=MARK,
        idempotency_key=idempotency_key,
        payload=MARK.encode(),
    )
    dead, fine = await by_hand(store, job_id, State.DEAD), await by_hand(store, job_id, State.SUCCEEDED)
    again = await requeued(store, dead)
    assert await store.history.requeue([again], store.now)
    await store.end(again.run_id, State.DEAD)
    for run_id in (dead, fine, again.run_id):
        await store.history.append_log(run_id, 0, MARK.encode(), store.now)
    assert await store.edit(job_id, payload=b"2", name=f"{MARK} 2")
    past = change.backfill(await store.snapshot(job_id), store.new_id(), store.now, store.at(3 * MINUTE), store.now)
    assert await store.jobs.apply(past, store.now)
    assert await store.pause(job_id)
    store.advance(HOUR)
    assert await store.change(job_id, lambda snap: change.resume(snap, CatchUp.LAST, store.now))
    await store.plan(ahead=MINUTE)
    await store.jobs.cancel(None, job_id, store.now)
    await store.audit.record([AuditEntry(store.now, store.uid, None, "job.purge", job_id)])
    return job_id, ids(await store.runs(job_id=job_id))


async def test_nothing_of_a_job_is_left_in_any_table(store: Store, engine_name: str) -> None:
    job_id, runs = await lived(store)
    marks = marks_of(job_id, *runs)
    before = await places(store, engine_name, marks)
    assert before >= {"jobs", "job_versions", "job_tags", "job_keys", "history", "dead", "ledger", "run_logs", "audit"}

    while await store.jobs.purge(job_id, 3):
        pass

    assert await places(store, engine_name, marks) <= STAYS.keys()


async def test_nothing_of_a_one_shot_is_left_in_any_table(store: Store, engine_name: str) -> None:
    run_id = await store.one_shot(
        key=MARK, name=MARK, tags=(MARK,), payload=MARK.encode(), gate=(MARK, 1), max_retries=0
    )
    await store.end(run_id, State.DEAD)
    again = await requeued(store, run_id)
    assert await store.history.requeue([again], store.now)
    await store.end(again.run_id, State.SUCCEEDED)
    extra = await by_hand(store, JobId(run_id), State.DEAD)
    await store.history.append_log(run_id, 0, MARK.encode(), store.now)
    marks = marks_of(run_id, again.run_id, extra)
    assert await places(store, engine_name, marks) >= {"job_tags", "job_keys", "history", "dead", "run_logs"}

    while await store.jobs.purge(JobId(run_id), 1):
        pass

    assert await places(store, engine_name, marks) <= STAYS.keys()


async def by_hand(store: Store, job_id: JobId, end: State) -> RunId:
    decided = change.run_now(await store.snapshot(job_id), RunId(store.new_id()), store.now)
    assert await store.jobs.apply(decided, store.now)
    run_id = only(decided.add).run_id
    await store.end(run_id, end)
    return run_id
