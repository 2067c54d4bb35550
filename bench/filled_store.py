"""A store with millions of jobs and ended runs, written as the engine writes them, but faster.

A few dozen jobs of each kind are created and run by the engine's own verbs. Every row that names one of them, in
whatever table, is then copied millions of times, with other ids, users, names and times. So this file knows the columns
that differ between two jobs, and nothing else of the schema: columns and tables that are added later are filled, too.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bench.filled_tables import Tables, open_tables

from oncue.clock import SystemClock
from oncue.domain.ids import KeyId, RunId, UserNumber, WorkerId, created_at, uuid7
from oncue.domain.instants import DAY, HOUR, MINUTE, NEVER, SECOND, Duration, Instant
from oncue.domain.keys import key_hash, make_key
from oncue.domain.run import State
from oncue.engines.open import open_engine
from oncue.engines.port import AuditEntry, Engine, Key, Role, Task
from oncue.settings import Settings
from oncue.testing.clock import FakeClock
from oncue_conformance.store import Store

VARIETIES = 50  # jobs of each kind that the engine itself creates
CANCELLED = VARIETIES - 3  # of the ended ones; those after it are dead
FAILING = (7, 23)  # of the recurring ones: their last runs are dead
USERS = 1_000
RUNNING = 2_000
WORKERS = 20
PAST = Duration(9 * DAY)  # in which jobs were created and runs ended
RECENT = Duration(6 * HOUR)  # how long the engine's own jobs take to create and run, by their clock
FUTURE = Duration(30 * DAY)  # in which waiting runs are due
ROWS_AT_ONCE = 20_000
SAMPLES = 200  # ids of each kind to ask for
SCHEMA = b'{"type":"object"}'
LARGE = "large"  # the user who has half of everything

TIMES = frozenset(
    "due wanted nominal updated_at created_at started_at ended_at claimed_at at first_at last_at free_at floor next_at"
    " tried_at made_at until".split()
)
IDS = ("job_id", "run_id", "object_id")

Step = Callable[[str, int, int], None]


@dataclass
class Kind:
    """Jobs of one kind, and how many of them there are to be."""

    name: str
    count: int
    jobs: list[tuple[UUID, ...]] = field(default_factory=list)  # each with the ids of its runs
    future: tuple[str, ...] = ()  # columns that are some time ahead


@dataclass
class Sampled:
    """What requests are made with."""

    keys: dict[str, str]
    workers: list[str]
    ids: dict[str, dict[str, list[str]]]  # by user and kind
    large: str = LARGE


async def fill(url: str, jobs: int, ended: int, step: Step) -> Sampled:
    """Fill an empty store: half of the jobs are one-shots that wait, half recurring, each with a few ended runs."""
    settings = Settings(engine=url, store_timeout=Duration(60 * SECOND))

    async def opened() -> Engine:
        return await open_engine(settings)

    clock = FakeClock(Instant(SystemClock().now() - RECENT))
    store = Store(await opened(), opened, clock, random.Random(5))
    tables = await open_tables(url, settings)
    try:
        store.uid = await store.accounts.user(LARGE, store.now)
        await store.fleet.announce([Task(f"task-{n}", SCHEMA) for n in range(7)] + [Task("rare", SCHEMA)], store.now)
        kinds = await _created(store, jobs, ended)
        users = [await store.accounts.user(f"user-{n}", store.now) for n in range(1, USERS)]
        workers = [await store.worker(name=f"worker-{n}") for n in range(WORKERS)]
        await store.maintenance.roll_up()
        sampled = Sampled(await _keys(store), [str(one) for one in workers], {"large": {}, "any": {}})
        now = SystemClock().now()
        await tables.prepare([Instant(now - ago) for ago in range(0, PAST + 2 * DAY, HOUR)])
        for kind in kinds:
            await _copy(tables, kind, _Others(store.uid, users, workers, now), sampled, step)
        await tables.count(store.uid, users, now, step)
        await tables.tidy(step)
    finally:
        await tables.close()
        await store.close()
    return sampled


async def keep_up(url: str, since: Instant) -> None:
    """Make a store that was filled some time ago like one that was filled now: nothing became due in between."""
    settings = Settings(engine=url, store_timeout=Duration(60 * SECOND))
    tables = await open_tables(url, settings)
    try:
        await tables.keep_up(since, SystemClock().now(), FUTURE)
    finally:
        await tables.close()


async def _keys(store: Store) -> dict[str, str]:
    admin = await store.accounts.user("admin", store.now)
    made = {}
    for name, uid, role in ((LARGE, store.uid, Role.MEMBER), ("admin", admin, Role.ADMIN)):
        made[name] = make_key(store.chance.randbytes(32))
        key = Key(KeyId(store.new_id()), key_hash(made[name]), uid, name, role, store.now)
        await store.accounts.add_key(key)
    return made


# ------------------------------------------------------------------------------------------- what the engine creates


async def _created(store: Store, jobs: int, ended: int) -> list[Kind]:
    recurring = await _recurring(store, jobs // 2)
    finished = await _ended(store, max(0, ended - sum(len(one) - 1 for one in recurring.jobs) * jobs // 2 // VARIETIES))
    waiting = Kind("one_shot", jobs - jobs // 2, future=("due", "wanted"))
    for n in range(VARIETIES):
        keyed = {"key": f"key-{n:07d}"} if n % 5 == 0 else {}
        waiting.jobs.append((await store.one_shot(DAY, **_spec(n), **keyed),))
    running = Kind("running", RUNNING)
    worker = await store.worker(name="worker")
    for n in range(VARIETIES):
        run_id = await store.one_shot(0, **_spec(n))
        await store.claim_one(worker, run_id)
        running.jobs.append((run_id,))
    entries = [
        AuditEntry(store.now, store.uid, None, "job.create", one[0], None, "127.0.0.1")
        for kind in (recurring, finished, waiting)
        for one in kind.jobs[::10]
    ]
    await store.audit.record(entries)
    return [recurring, finished, waiting, running]


def _spec(n: int) -> dict[str, Any]:
    return {
        "task": f"task-{n % 7}" if n else "rare",
        "name": f"nightly-{n:07d}",
        "queue": "slow" if n % 20 == 0 else "default",
        "tags": ("nightly",) if n % 10 == 0 else (f"team-{n % 13}",),
        "payload": b'{"n":%d}' % n,
    }


async def _recurring(store: Store, count: int) -> Kind:
    kind = Kind("recurring", count, future=("next_at",))
    made = [await store.recurring(every=HOUR, **_spec(n)) for n in range(VARIETIES)]
    failing = [made[n] for n in FAILING]
    worker = await store.worker(name="first")
    for hours in (1, 3):  # after three, two occurrences are late: the ledger says so
        store.advance(hours * HOUR)
        await store.plan_all()
        while runs := await store.claim_due(worker):
            bad = [run for run in runs if run.job_id in failing and hours > 1]
            await store.succeed(worker, *(run for run in runs if run not in bad), result=b'{"rows":17}')
            await store.fail(worker, *bad, retry=False)
    for job_id in made:
        runs = [run.run_id for run in await store.runs(job_id=job_id)]
        kind.jobs.append((job_id, *runs))
    return kind


async def _ended(store: Store, count: int) -> Kind:
    kind = Kind("ended", count)
    worker = await store.worker(name="second")
    for n in range(VARIETIES):
        run_id = await store.one_shot(0, **_spec(n))
        if n % 10 == 3:
            await store.history.append_log(RunId(run_id), 0, b"started\nread 17 rows\nended\n", store.now)
        if n == CANCELLED:
            await store.end(run_id, State.CANCELLED)
        else:
            run = await store.claim_one(worker, run_id)
            if n % 10 == 5:
                await store.fail(worker, run)
                store.advance(5 * MINUTE)
                run = await store.claim_one(worker, run_id)
            if n > CANCELLED:
                await store.fail(worker, run, retry=False)
            else:
                await store.succeed(worker, run, result=b'{"rows":17}')
        kind.jobs.append((run_id,))
    return kind


# ----------------------------------------------------------------------------------------------------------- copying


@dataclass
class _Others:
    """Whom the copies belong to. Every other block of copies is the large user's."""

    large: UserNumber
    users: list[UserNumber]
    workers: list[WorkerId]
    now: Instant

    def user(self, n: int) -> UserNumber:
        return self.large if n // VARIETIES % 2 == 0 else self.users[n * 7919 % len(self.users)]


class _Copies:
    """The copies of one job: for each of its rows, what stays and what is replaced."""

    def __init__(self, tables: Tables, kind: Kind, variety: int, rows: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self.ids = kind.jobs[variety]
        self.made_at = created_at(self.ids[0])
        self._native = tables.native
        self._marks = [(f"nightly-{variety:07d}", "nightly-%07d"), (f"key-{variety:07d}", "key-%07d")]
        self._rows = [(table, list(row.values()), self._changes(row, kind)) for table, row in rows]

    def _changes(self, row: dict[str, Any], kind: Kind) -> list[tuple[int, str, Any]]:
        own = {self._native(one): place for place, one in enumerate(self.ids)}
        changes: list[tuple[int, str, Any]] = []
        for place, (name, value) in enumerate(row.items()):
            if value is None:
                continue
            if name in kind.future and value < NEVER:
                changes.append((place, "ahead", None))
            elif name in TIMES and value < NEVER:
                changes.append((place, "shift", value))
            elif name == "uid":
                changes.append((place, "uid", None))
            elif name == "worker_id" and kind.name == "running":
                changes.append((place, "worker", None))
            elif name in IDS and value in own:
                changes.append((place, "id", own[value]))
            elif isinstance(value, str | bytes):
                changes += [(place, "text", (value, *mark)) for mark in self._marks if _in(mark[0], value)]
        return changes

    def make(self, n: int, others: _Others, shift: int, fresh: list[UUID]) -> Iterator[tuple[str, list[Any]]]:
        native = [self._native(one) for one in fresh]
        ahead = others.now + (HOUR + n * 7919 * SECOND % FUTURE if n % 2_500 else -MINUTE)
        for table, kept, changes in self._rows:
            row = kept.copy()
            for place, how, given in changes:
                match how:
                    case "id":
                        row[place] = native[given]
                    case "uid":
                        row[place] = others.user(n)
                    case "shift":
                        row[place] = given + shift
                    case "ahead":
                        row[place] = ahead
                    case "worker":
                        row[place] = self._native(others.workers[n % WORKERS])
                    case _:
                        row[place] = _replaced(row[place], given[1], given[2] % n)
            yield table, row


def _in(mark: str, value: str | bytes) -> bool:
    return mark in value if isinstance(value, str) else mark.encode() in value


def _replaced(value: Any, mark: str, new: str) -> Any:
    return value.replace(mark, new) if isinstance(value, str) else value.replace(mark.encode(), new.encode())


async def _copy(tables: Tables, kind: Kind, others: _Others, sampled: Sampled, step: Step) -> None:
    found = await tables.naming([one for job in kind.jobs for one in job], IDS)
    by_job = _by_job(kind, tables, found)
    copies = [_Copies(tables, kind, variety, by_job[variety]) for variety in range(VARIETIES)]
    chance, waiting, rows = random.Random(kind.name), defaultdict[str, list[list[Any]]](list), 0
    span, last = (HOUR, 5 * MINUTE) if kind.name == "running" else (PAST, RECENT)
    for n in range(VARIETIES, kind.count):
        one = copies[n % VARIETIES]
        shift = others.now - last - span + span * n // kind.count - one.made_at
        fresh = [uuid7(Instant(created_at(identifier) + shift), chance.randbytes(8)) for identifier in one.ids]
        for table, row in one.make(n, others, shift, fresh):
            waiting[table].append(row)
            rows += 1
        _sample(sampled, kind, n, others, fresh)
        if rows >= ROWS_AT_ONCE:
            await tables.write(waiting)
            waiting.clear()
            rows = 0
            step(f"{kind.name}: copies", n, kind.count)
    await tables.write(waiting)
    step(f"{kind.name}: copies", kind.count, kind.count)


def _by_job(
    kind: Kind, tables: Tables, found: list[tuple[str, dict[str, Any]]]
) -> dict[int, list[tuple[str, dict[str, Any]]]]:
    variety_of = {tables.native(one): n for n, job in enumerate(kind.jobs) for one in job}
    by_job: dict[int, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for table, row in found:
        whose = next(variety_of[row[name]] for name in IDS if row.get(name) in variety_of)
        by_job[whose].append((table, row))
    return by_job


def _sample(sampled: Sampled, kind: Kind, n: int, others: _Others, fresh: list[UUID]) -> None:
    """Note some ids of the large user's, and of anybody's, spread over all there are."""
    stride = kind.count // VARIETIES // SAMPLES | 1  # odd: every other block is the large user's
    if n // VARIETIES % stride:
        return
    user, variety = "large" if others.user(n) == others.large else "any", n % VARIETIES
    lists = {kind.name: fresh[0]}
    if kind.name == "recurring" and variety not in FAILING:  # dead runs have no result
        lists["recurring_run"] = fresh[1]
    if kind.name == "ended" and variety > CANCELLED:
        lists = {"dead": fresh[0]}
    elif kind.name == "ended" and variety == CANCELLED:
        return  # cancelled: it has no result
    if kind.name == "ended" and variety % 10 == 3:
        lists["logged"] = fresh[0]
    if kind.name == "one_shot" and variety % 5 == 0:
        lists["key"] = f"key-{n:07d}"  # type: ignore[assignment]  # a name, not an id
    for name, one in lists.items():
        known = sampled.ids[user].setdefault(name, [])
        if len(known) < SAMPLES:
            known.append(str(one))
