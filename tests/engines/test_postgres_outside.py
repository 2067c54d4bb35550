"""PostgreSQL seen from outside: what the other tests of this engine share. It says who is connected and who waits,
locks what the engine wants, and knows a call of every verb."""

import asyncio
import inspect
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter
from typing import Any, Self, get_type_hints

import asyncpg
import pytest

from oncue.domain import change
from oncue.domain.archive import Piece, Table
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import ClassId, JobId, KeyId, RunId, UserNumber
from oncue.domain.instants import DAY, MINUTE, SECOND, Duration, Instant
from oncue.domain.notices import trial_notice
from oncue.domain.notify import NO_DEFAULT, Entry, Webhook
from oncue.domain.placement import ClassKey
from oncue.domain.reference import Kind
from oncue.domain.rerun import again
from oncue.domain.run import Gathered
from oncue.engines import port
from oncue.engines.bulk_values import Action, Bulk, Order
from oncue.engines.bulk_values import Kind as Of
from oncue.engines.open import open_engine
from oncue.engines.outbox_values import Decision, Enqueued, Kept
from oncue.engines.port import (
    AuditEntry,
    Count,
    Creation,
    Engine,
    Finding,
    Forgotten,
    IdempotencyKey,
    JobQuery,
    Key,
    Member,
    NewJob,
    Role,
    RunQuery,
    SetStamp,
    StoredObject,
    Task,
)
from oncue.engines.postgres.engine import PostgresEngine
from oncue.settings import Settings
from oncue.testing.postgres import PrivatePostgres
from oncue_conformance.store import LONG_AGO, Store

SHORT = SECOND  # a limit for calls that are to run into it
PATIENCE = 60.0  # seconds, for what takes milliseconds
KEEP = Duration(365 * DAY)

Call = Callable[[], Awaitable[Any]]
Session = asyncpg.Connection


class Place:
    """A database with the schema, a session past the engine, and any number of engines on it."""

    def __init__(self, url: str, session: Session) -> None:
        self.url = url
        self.session = session
        self._stores: list[Store] = []

    @classmethod
    @asynccontextmanager
    async def on(cls, server: PrivatePostgres, template: str = "template0") -> AsyncIterator[Self]:
        name = f"oncue_place_{secrets.token_hex(8)}"
        # Cancelled in the middle of asking for TLS, the driver leaves an exception that nobody retrieves.
        url = server.create_database(name, template=template) + "?sslmode=disable"
        session = await asyncpg.connect(url, server_settings={"application_name": "outside"})
        place = cls(url, session)
        try:
            yield place
        finally:
            for store in place._stores:
                await store.close()
            session.terminate()
            server.drop_database(name)

    async def store(self, **settings: Any) -> Store:
        """An engine on this database and what tests need around it."""
        chosen = Settings(**{"engine": self.url, "pool_size": 4} | settings)

        async def open_one() -> Engine:
            return await open_engine(chosen)

        store = await Store.on(open_one, seed=len(self._stores) + 1)
        self._stores.append(store)
        return store

    async def value(self, query: str, *args: object) -> Any:
        return await self.session.fetchval(query, *args)

    async def backends(self, condition: str = "true", *, name: str = "oncue") -> list[int]:
        """The processes that serve the engines of this database."""
        found = await self.session.fetch(
            f"select pid from pg_stat_activity where datname = current_database() and application_name = $1"
            f" and {condition}",
            name,
        )
        return [row["pid"] for row in found]

    async def tables(self) -> list[str]:
        """All but the parts of partitioned ones, which are locked with their whole."""
        found = await self.session.fetch(
            "select oid::regclass::text as name from pg_class where relkind in ('r', 'p') and not relispartition"
            " and relnamespace = 'public'::regnamespace"
        )
        return [row["name"] for row in found]

    async def idle_in_transaction(self) -> list[int]:
        return await self.backends("state like 'idle in transaction%'")

    async def waiting_for_a_lock(self) -> list[int]:
        return await self.backends("wait_event_type = 'Lock'")

    @asynccontextmanager
    async def holding(self, statement: str) -> AsyncIterator[Session]:
        """Another session holds the locks of this statement. Not ours: within a transaction, who waits is not news."""
        other = await asyncpg.connect(self.url, server_settings={"application_name": "outside"})
        try:
            async with other.transaction():
                await other.execute(statement)
                yield other
        finally:
            other.terminate()

    def locked(self, *tables: str) -> AbstractAsyncContextManager[Session]:
        return self.holding(f"lock table {', '.join(tables)} in access exclusive mode")


@pytest.fixture
async def place(postgres_server: PrivatePostgres, postgres_template: str) -> AsyncIterator[Place]:
    async with Place.on(postgres_server, postgres_template) as place:
        yield place


def postgres_of(store: Store) -> PostgresEngine:
    assert isinstance(store.engine, PostgresEngine)
    return store.engine


END_ALL = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'oncue'"


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for something that another process does, and for nothing else."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await check()):
            await asyncio.sleep(0.005)
    return found


async def refused(call: Call) -> float:
    """Seconds until the call was answered by StoreUnavailable."""
    began = perf_counter()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable):
            await call()
    return perf_counter() - began


async def answered(call: Call, *, tries: int = 2) -> Any:
    """Its answer: at most `tries - 1` times it may say first that the store is away."""
    async with asyncio.timeout(PATIENCE):
        for _ in range(tries - 1):
            try:
                return await call()
            except StoreUnavailable:
                pass
        return await call()


async def every_verb(store: Store) -> dict[str, Call]:
    """A call of each verb of the port that asks the server; none depends on what another did."""
    now, new_id, uid, job = store.now, store.new_id, store.uid, await store.recurring()
    waiting, snapshot = await store.one_shots(4), await store.snapshot(job)
    worker, taken = await store.worker(), await store.one_shots(4)
    held = await store.claim(worker, *taken)
    dead = await store.claim_one(worker, await store.one_shot())
    await store.fail(worker, dead, retry=False)
    key = Key(KeyId(new_id()), new_id().bytes, uid, "ada", Role.ADMIN, now)
    new, idempotency_key = await store.new_one_shot(), IdempotencyKey(b"key", b"body")
    member = Member(new_id(), "api", "1.0", 1, "host", now, now)
    session = port.Session(new_id().bytes, key.key_id, now, now)
    finding = Finding("check", "object", "words", now, now)
    piece = Piece(Table.HISTORY, "history", now, now)
    return {
        "Jobs.intern": lambda: store.jobs.intern([ClassKey(f"task {new_id()}")]),
        "Jobs.classes": store.jobs.classes,
        "Jobs.create": lambda: store.create(new),
        "Jobs.keyed": lambda: store.jobs.keyed(uid, "key"),
        "Jobs.read": lambda: store.jobs.read(uid, job),
        "Jobs.apply": lambda: store.jobs.apply(change.pause(snapshot, now), now),
        "Jobs.cancel": lambda: store.jobs.cancel(uid, JobId(waiting[0]), now),
        "Jobs.unfinished": lambda: store.jobs.unfinished(10),
        "Jobs.finish": lambda: store.jobs.finish(job, now),
        "Jobs.purge": lambda: store.jobs.purge(job, 10),
        "Jobs.purge_later": lambda: store.jobs.purge_later(job, now),
        "Lists.jobs": lambda: store.lists.jobs(JobQuery(uid)),
        "Planning.plan": store.plan,
        "Planning.overdue": lambda: store.planning.overdue(10, now),
        "Planning.withdraw": lambda: store.planning.withdraw([], now),
        "Planning.expire": lambda: store.planning.expire(10, now),
        "Planning.recall": lambda: store.planning.recall(now, now),
        "Planning.permit": store.permit,
        "Running.peek": lambda: store.running.peek([ClassId(1)], LONG_AGO, now, 10),
        "Running.peek_fair": lambda: store.running.peek_fair([ClassId(1)], UserNumber(0), 10, 10, now),
        "Running.claim": lambda: store.claim(worker, waiting[1]),
        "Running.held_by": lambda: store.running.held_by(worker, taken),
        "Running.settle": lambda: store.succeed(worker, held[0]),
        "Running.holdings": lambda: store.running.holdings(worker),
        "Running.gather": lambda: store.running.gather(worker, held[3], 10, now, lambda _: Gathered(b"", b"", ())),
        "Running.hand_back": lambda: store.hand_back(worker, held[1]),
        "Running.cancel": lambda: store.running.cancel(uid, waiting[2], now),
        "Running.save": lambda: store.running.save(worker, held[2], progress=b"1"),
        "Running.recover_runs": store.recover_runs,
        **verbs_of_notices(store),
        **verbs_of_bulks(store, key.key_id),
        **verbs_of_outbox(store),
        **verbs_that_search(store, job, waiting[3]),
        "Fleet.register": store.worker,
        "Fleet.beat": lambda: store.beat(worker),
        "Fleet.cancel_requests": lambda: store.fleet.cancel_requests(worker),
        "Fleet.expire_workers": lambda: store.fleet.expire_workers({worker: now}),
        "Fleet.drain": lambda: store.fleet.drain(worker, now),
        "Fleet.undrain": lambda: store.fleet.undrain(worker),
        "Fleet.leave": lambda: store.fleet.leave(worker),
        "Fleet.workers": store.fleet.workers,
        "Fleet.announce": lambda: store.fleet.announce([Task("noop", b"{}")], now),
        "Fleet.tasks": store.fleet.tasks,
        "Fleet.pause_queue": lambda: store.fleet.pause_queue("slow", now),
        "Fleet.resume_queue": lambda: store.fleet.resume_queue("slow", now),
        "Fleet.paused_queues": store.fleet.paused_queues,
        "Fleet.paused_by": store.fleet.paused_by,
        "History.run": lambda: store.history.run(uid, waiting[3]),
        "History.open_letters": lambda: store.history.open_letters(1),
        "History.standing": lambda: store.history.standing(uid, waiting[3]),
        "Lists.runs": lambda: store.lists.runs(RunQuery(uid)),
        "Lists.last_and_next": lambda: store.lists.last_and_next([job]),
        "Lists.versions": lambda: store.lists.versions(uid, job, 9),
        "Lists.last_ended": lambda: store.lists.last_ended([job], 10),
        "Lists.job_names": lambda: job_names(store),
        "Lists.dead_by_job": lambda: store.lists.dead_by_job(uid, 10),
        "Lists.counts": lambda: store.lists.counts(uid, 10, now),
        "Search.ids": lambda: store.search.ids(uid, job, job, 5),
        "Search.endings": lambda: store.search.endings(uid, "abcdef", 5),
        "Search.keys": lambda: store.search.keys(uid, "k", 5),
        "Search.tags": lambda: store.search.tags(uid, "t", 5),
        "Search.jobs_by_id": lambda: store.search.jobs_by_id(uid, [job]),
        "Search.runs_by_id": lambda: store.search.runs_by_id(uid, waiting),
        "Fleet.worker_names": lambda: store.fleet.worker_names([worker]),
        "Lists.recent": lambda: store.lists.recent(uid, now, 10),
        "Lists.recent_of_job": lambda: store.lists.recent_of_job(uid, job, now, 10),
        "Lists.held": lambda: store.lists.held(worker, uid),
        "Lists.ledger": lambda: store.lists.ledger(uid, job),
        "Lists.dead_letters": lambda: store.lists.dead_letters(uid),
        "History.requeue": lambda: store.history.requeue([], now),
        "History.rerun": lambda: rerun(store, dead.run_id),
        "History.series_by": lambda: store.history.series_by(
            Count.CREATED, now, Instant(now + MINUTE), Duration(MINUTE), [[ClassId(1)]]
        ),
        "History.discard": lambda: store.history.discard(uid, [dead.run_id]),
        "History.append_log": lambda: store.history.append_log(taken[3], 1, b"a line", now),
        "History.read_log": lambda: store.history.read_log(taken[3]),
        "History.backlog": lambda: store.history.backlog(uid, [], now),
        "History.pulse": lambda: store.history.pulse(None, now),
        "History.gauges": lambda: store.history.gauges(now),
        "History.sizes": store.history.sizes,
        "History.counters": store.history.counters,
        "History.series": lambda: store.history.series(Count.CREATED, now, now, Duration(MINUTE)),
        "Maintenance.roll_up": store.maintenance.roll_up,
        "Maintenance.tended": lambda: store.maintenance.tended(now, KEEP),
        "Maintenance.take_turn": lambda: store.maintenance.take_turn("turn", now, KEEP),
        "Maintenance.finish_turn": lambda: store.maintenance.finish_turn("turn", b"", b"1"),
        "Maintenance.maintain": lambda: store.maintenance.maintain(now, KEEP),
        "Accounts.user": lambda: store.accounts.user("ada", now),
        "Accounts.add_key": lambda: store.accounts.add_key(key),
        "Accounts.add_first_key": lambda: store.accounts.add_first_key(key),
        "Accounts.key": lambda: store.accounts.key(key.key_hash),
        "Accounts.keys": store.accounts.keys,
        "Accounts.users": lambda: store.accounts.users(now),
        "Sessions.open": lambda: store.sessions.open(session, 10),
        "Sessions.find": lambda: store.sessions.find(session.session_hash),
        "Sessions.end": lambda: store.sessions.end(session.session_hash),
        "Sessions.used": lambda: store.sessions.used({key.key_id: 1}, {session.session_hash: now}),
        "Accounts.find": lambda: store.accounts.find("ada"),
        "Accounts.names": lambda: store.accounts.names([uid]),
        "Archiving.next_piece": lambda: store.archiving.next_piece(dict.fromkeys(Table, now)),
        "Archiving.rows": lambda: store.archiving.rows(piece, 10),
        "Archiving.count": lambda: store.archiving.count(piece),
        "Archiving.mark": lambda: store.archiving.mark(piece, 0),
        "Forgetting.begin": lambda: store.forgetting.begin("nobody", now),
        "Forgetting.pending": store.forgetting.pending,
        "Forgetting.erase": lambda: store.forgetting.erase(UserNumber(99)),
        "Forgetting.redact": lambda: store.forgetting.redact(Forgotten(UserNumber(99), "nobody", now)),
        "Forgetting.finish": lambda: store.forgetting.finish(UserNumber(99)),
        "Accounts.revoke": lambda: store.accounts.revoke(key.key_id, now),
        "Idempotency.reserve": lambda: store.idempotency.reserve(uid, idempotency_key, new_id()),
        "Idempotency.answered": lambda: store.idempotency.answered(uid, idempotency_key, new_id(), b"{}"),
        "Idempotency.refused": lambda: store.idempotency.refused(uid, idempotency_key, new_id()),
        "Audit.record": lambda: store.audit.record([AuditEntry(now, uid, None, "looked")]),
        "Audit.entries": store.audit.entries,
        "Members.beat": lambda: store.members.beat(member, now),
        "Members.leave": lambda: store.members.leave(member.member_id),
        "Members.known": store.members.known,
        "Objects.add": lambda: store.objects.add([StoredObject("key", uid, job, Kind.PAYLOAD, 1)], now),
        "Objects.look": lambda: store.objects.look(now),
        "Objects.forget": lambda: store.objects.forget(["key"]),
        "Objects.known": lambda: store.objects.known(["key"]),
        "Objects.walk": lambda: store.objects.walk("", 10),
        "Objects.attach": lambda: store.objects.attach(taken[3], 1, b"1", b"2"),
        "Auditing.record_findings": lambda: store.auditing.record_findings([finding], now),
        "Auditing.clear_findings": lambda: store.auditing.clear_findings("check", ["object"], now),
        "Auditing.findings": store.auditing.findings,
        "Auditing.cursors": lambda: store.auditing.cursors(None, 10),
        "Auditing.existing_runs": lambda: store.auditing.existing_runs(waiting, now),
        "Auditing.stretches": lambda: store.auditing.stretches(job, now, now),
        "Auditing.longest_held": lambda: store.auditing.longest_held(now),
        "Auditing.orphans": lambda: store.auditing.orphans(now),
        "Auditing.long_running": lambda: store.auditing.long_running(None, now, 10),
        "Auditing.unexpired": lambda: store.auditing.unexpired(now),
        "Auditing.sums": store.auditing.sums,
        "Engine.now": store.engine.now,
        "Engine.ping": lambda: store.engine.ping(SHORT),
        "Engine.probe": store.engine.probe,
        "Engine.diagnose": store.engine.diagnose,
    }


def verbs_of_outbox(store: Store) -> dict[str, Call]:
    outbox, now = store.engine.outbox, store.now
    return {
        "Outbox.take_in": lambda: outbox.take_in(10, now, Untouched()),
        "Outbox.listed": lambda: outbox.listed(10),
        "Outbox.retry": lambda: outbox.retry([JobId(store.new_id())], now),
        "Outbox.discard": lambda: outbox.discard([JobId(store.new_id())]),
        "Outbox.state": outbox.state,
        "Outbox.say_fields": lambda: outbox.say_fields(["queue"]),
        "Outbox.grant": lambda: outbox.grant("postgres", store.uid, Role.MEMBER, now),
        "Outbox.revoke": lambda: outbox.revoke("nobody"),
        "Outbox.grants": outbox.grants,
    }


class Untouched:
    """Decides about no row."""

    async def decide(self, rows: Sequence[Enqueued]) -> Sequence[Decision]:
        assert not rows
        return []

    def not_created(self, row: Enqueued, new: NewJob, answer: Creation) -> Kept:
        raise AssertionError("nothing was to be created")


async def job_names(store: Store) -> Any:
    return await store.lists.job_names(await store.runs())


async def rerun(store: Store, run_id: RunId) -> Any:
    run = await store.history.run(store.uid, run_id)
    assert run is not None
    return await store.history.rerun([again(run, RunId(store.new_id()), store.now)], store.now)


def verbs_of_bulks(store: Store, key_id: KeyId) -> dict[str, Call]:
    bulk = Bulk(store.new_id(), store.uid, key_id, Role.ADMIN, store.now, Order(Action.RUN, Of.JOBS, ids=()))
    now, uid, bulks = store.now, store.uid, store.engine.bulks
    return {
        "Bulks.add": lambda: bulks.add(bulk),
        "Bulks.read": lambda: bulks.read(uid, bulk.bulk_id),
        "Bulks.page": lambda: bulks.page(uid),
        "Bulks.take": lambda: bulks.take(now, Duration(MINUTE)),
        "Bulks.advance": lambda: bulks.advance(bulk, bulk.progress, now),
        "Bulks.record": lambda: bulks.record(bulk, bulk.progress),
        "Bulks.stop": lambda: bulks.stop(uid, bulk.bulk_id, now),
    }


def verbs_that_search(store: Store, job: JobId, run: RunId) -> dict[str, Call]:
    now, uid, engine = store.now, store.uid, store.engine
    return {
        "Ahead.cursors": lambda: engine.ahead.cursors(uid, now, now, 10),
        "Ahead.due_counts": lambda: engine.ahead.due_counts(
            uid, [ClassId(1)], now, Instant(now + MINUTE), Duration(MINUTE), 10
        ),
        "Errors.roll_up": engine.errors.roll_up,
        "Errors.groups": lambda: engine.errors.groups(uid),
        "Errors.open_letters": lambda: engine.errors.open_letters([(uid, 1)]),
        "Errors.fingerprints": lambda: engine.errors.fingerprints([run]),
        "Declaring.keyed": lambda: engine.declaring.keyed(uid, ["k"]),
        "Declaring.rehearse": lambda: rehearse(store),
        "Declaring.stamp": lambda: engine.declaring.stamp(uid, "set"),
        "Declaring.put_stamp": lambda: engine.declaring.put_stamp(uid, "set", SetStamp(1, b""), now),
    }


async def rehearse(store: Store) -> Any:
    return await store.engine.declaring.rehearse([await store.new_one_shot()])


def verbs_of_notices(store: Store) -> dict[str, Call]:
    now, uid, notices = store.now, store.uid, store.notices
    notice = trial_notice(uid, Entry((), Webhook("https://example.org")), RunId(store.new_id()), now)
    return {
        "Notices.add": lambda: notices.add([notice], now),
        "Notices.default": lambda: notices.default(uid),
        "Notices.defaults": lambda: notices.defaults(now),
        "Notices.put_default": lambda: notices.put_default(uid, NO_DEFAULT, now),
        "Notices.targets": lambda: notices.targets(uid),
        "Notices.target_failed": lambda: notices.target_failed(uid, "t", "t", 5, now),
        "Notices.target_reached": lambda: notices.target_reached(uid, "t"),
        "Notices.dropped": lambda: notices.dropped(uid),
        "Notices.dropped_reported": lambda: notices.dropped_reported(uid, 1),
        "Notices.generation": lambda: notices.generation(uid, b"url"),
        "Notices.rotate": lambda: notices.rotate(uid, b"url", now),
    }


async def test_every_verb_of_the_port_is_among_the_calls(place: Place) -> None:
    """Else a new verb without a time limit would go unnoticed."""
    store = await place.store()
    parts = {port.Engine, *get_type_hints(port.Engine).values()} - {port.Signals}
    verbs = {
        f"{part.__name__}.{name}"
        for part in parts
        for name, verb in vars(part).items()
        if getattr(part, "_is_protocol", False) and inspect.iscoroutinefunction(verb) and not name.startswith("_")
    }

    calls = await every_verb(store)

    assert verbs - {"Engine.close"} == set(calls)
    for call in calls.values():
        await call()
