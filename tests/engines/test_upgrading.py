"""A schema that grows while older processes use it: who may start on it, who may not, and who waits for whom."""

import asyncio
import re
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import Place, eventually

from oncue.domain.errors import OncueError
from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import MINUTE, Duration, Instant
from oncue.engines.open import contract, migrate, open_engine, pending
from oncue.engines.port import EVERYBODY, Count, Counter, Member
from oncue.engines.postgres import migrate as postgres_migrate
from oncue.engines.schema import Pending, Schema, missing, refuse_while_used
from oncue.engines.sql import migrations
from oncue.engines.sqlite import migrate as sqlite_migrate
from oncue.engines.sqlite.store import connect
from oncue.settings import Settings
from oncue.testing.clock import SOME_DAY

place = outside.place

FIRST = (1, "create table first (a int);")
EXPANDS = (2, "create table second (a int);")
EXPANDS_MORE = (3, "alter table second add column b int;")
CONTRACTS = (4, "-- compatible from: 3\ndrop table first;")


class Upgraded:
    """A store, and versions of oncue that know so many migrations."""

    def __init__(self, url: str, patch: pytest.MonkeyPatch) -> None:
        self.url = url
        self.engine = "sqlite" if url.startswith("sqlite") else "postgres"
        self._patch = patch

    async def by(self, *known: tuple[int, str]) -> tuple[int, int]:
        for module in (postgres_migrate, sqlite_migrate):
            self._patch.setattr(module, "migrations", lambda _: list(known))
        return await migrate(Settings(engine=self.url))

    async def ask(self, query: str) -> list[int]:
        if self.url.startswith("sqlite"):
            db = connect(Path(self.url.removeprefix("sqlite:///")), 100)
            found = [value for (value,) in db.execute(query)]
            db.close()
            return found
        session = await asyncpg.connect(self.url)
        try:
            return [row[0] for row in await session.fetch(query)]
        finally:
            await session.close()

    async def seen_by_the_first_release(self) -> int:
        """0.1.0 starts if this is no more than the newest migration it knows, which is 1."""
        if self.url.startswith("sqlite"):
            return (await self.ask("pragma user_version"))[0]
        return (await self.ask("select max(version) from oncue_schema"))[0]

    async def forget_its_account(self) -> None:
        """As 0.1.0 leaves a store."""
        await self.ask("drop table oncue_migrations")


@pytest.fixture
def upgraded(
    engine_name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Upgraded:
    on_file = engine_name == "sqlite"
    url: str = f"sqlite:///{tmp_path / 'x.db'}" if on_file else request.getfixturevalue("postgres_url")
    return Upgraded(url, monkeypatch)


async def test_an_older_version_starts_on_a_schema_that_only_grew(upgraded: Upgraded) -> None:
    assert await upgraded.by(FIRST, EXPANDS) == (0, 2)
    assert await upgraded.by(FIRST, EXPANDS, EXPANDS_MORE) == (2, 3)

    assert await upgraded.by(FIRST) == (3, 3)
    assert await upgraded.by(FIRST, EXPANDS) == (3, 3)


async def test_an_older_version_is_refused_where_it_would_be_wrong(upgraded: Upgraded) -> None:
    await upgraded.by(FIRST, EXPANDS, EXPANDS_MORE, CONTRACTS)

    with pytest.raises(OncueError, match=r"schema has level 3, and this version supports levels up to 2"):
        await upgraded.by(FIRST, EXPANDS)

    assert await upgraded.by(FIRST, EXPANDS, EXPANDS_MORE) == (4, 4)


async def test_the_first_release_sees_no_more_than_what_it_must_know(upgraded: Upgraded) -> None:
    """It knows nothing of `compatible from`. Catches a version that is written where it looks."""
    await upgraded.by(FIRST, EXPANDS, EXPANDS_MORE)
    assert await upgraded.seen_by_the_first_release() == 1

    await upgraded.by(FIRST, EXPANDS, EXPANDS_MORE, CONTRACTS)
    assert await upgraded.seen_by_the_first_release() == 3


async def test_a_store_of_the_first_release_goes_on_from_there(upgraded: Upgraded) -> None:
    await upgraded.by(FIRST)
    await upgraded.forget_its_account()

    assert await upgraded.by(FIRST, EXPANDS, EXPANDS_MORE) == (1, 3)
    assert await upgraded.ask("select number from oncue_migrations order by 1") == [1, 2, 3]


async def test_a_migration_that_fails_leaves_what_there_was(upgraded: Upgraded) -> None:
    await upgraded.by(FIRST)
    with pytest.raises(Exception, match="nowhere"):
        await upgraded.by(FIRST, (2, "create table second (a int); insert into nowhere values (1);"))

    assert await upgraded.by(FIRST, EXPANDS) == (1, 2)


def test_ours_say_what_they_are_compatible_with() -> None:
    """The first release is to work on all of them, until one says otherwise. Both engines say the same."""
    levels = []
    for engine in ("sqlite", "postgres"):
        schema = Schema()
        for number, script in migrations(f"oncue.engines.{engine}"):
            schema = schema.after(number, script)
            assert schema.level <= number
        levels.append(schema)

    assert levels[0] == levels[1]
    assert missing(migrations("oncue.engines.sqlite"), levels[0], "it") == []


# ------------------------------------------------------------------------------- what removes what older versions use

NEXT = (98, "create table replacement (a int);")
REMOVES = (99, "-- contract, compatible from: 98\ndrop table probe;")
LATER = (100, "create table yet_another (a int);")


class Contracted(Upgraded):
    """A store of ours, and versions that know more."""

    def knows(self, *more: tuple[int, str]) -> Settings:
        known = [*migrations("oncue.engines." + self.engine), *more]
        for module in (postgres_migrate, sqlite_migrate):
            self._patch.setattr(module, "migrations", lambda _: known)
        return Settings(engine=self.url)

    async def member(self, schema: int, ago: Duration, role: str = "worker") -> Member:
        """A process of this schema that had its last heartbeat so long ago."""
        engine = await open_engine(self.knows())
        try:
            at = Instant(await engine.now() - ago)
            member = Member(uuid4(), role, "0.1.0", schema, "bad\x1bhost", at, at)
            await engine.members.beat(member, at)
            return member
        finally:
            await engine.close()

    async def tables(self) -> set[str]:
        """Which of those there are that these migrations create or drop."""
        there = "sqlite_master where type = 'table' and name" if self.engine == "sqlite" else "pg_class where relname"
        names = ("probe", "replacement", "yet_another")
        return {name for name in names if await self.ask(f"select 1 from {there} = '{name}'")}


@pytest.fixture
def contracted(upgraded: Upgraded, monkeypatch: pytest.MonkeyPatch) -> Contracted:
    return Contracted(upgraded.url, monkeypatch)


async def test_a_contract_waits_until_it_is_asked_for(contracted: Contracted) -> None:
    """Catches one that is applied at start, to a new store, or by plain `migrate`; and one that blocks what follows."""
    settings = contracted.knows(NEXT, REMOVES, LATER)
    await (await open_engine(settings)).close()
    assert await migrate(settings) == (100, 100)
    assert await contracted.tables() == {"probe", "replacement", "yet_another"}
    assert await pending(settings) == Pending(100, 1, (), (99,))

    assert await contract(settings) == [99]
    assert await contracted.tables() == {"replacement", "yet_another"}
    assert await contracted.seen_by_the_first_release() == 98
    assert await pending(settings) == Pending(100, 98, (), ())
    assert await contract(settings) == []


@pytest.mark.parametrize(
    ("schema", "ago", "refused"),
    [
        (97, Duration(9 * MINUTE), True),
        (97, Duration(-9 * MINUTE), True),  # the clock was set back
        (97, Duration(11 * MINUTE), False),
        (98, Duration(0), False),
    ],
)
async def test_a_contract_is_refused_while_an_older_process_runs(
    contracted: Contracted, schema: int, ago: Duration, refused: bool
) -> None:
    await contracted.member(schema, ago)
    settings = contracted.knows(NEXT, REMOVES)

    if refused:
        with pytest.raises(OncueError, match=r"older than 98 use .*: worker on bad\\x1bhost \(version 0.1.0, "):
            await contract(settings)
    else:
        assert await contract(settings) == [99]

    assert ("probe" in await contracted.tables()) is refused
    assert await contracted.seen_by_the_first_release() == (1 if refused else 98)
    assert await migrate(settings) == ((98, 98) if refused else (99, 99))


async def test_of_several_contracts_at_once_one_does_it(contracted: Contracted) -> None:
    settings = contracted.knows(NEXT, REMOVES)
    await migrate(settings)

    done = await asyncio.gather(*(contract(settings) for _ in range(3)))

    assert sorted(done) == [[], [], [99]]


def test_a_message_names_some_processes_and_counts_the_others() -> None:
    members = [Member(uuid4(), "api", "1", 1, f"host{n}", SOME_DAY, SOME_DAY) for n in range(12)]
    with pytest.raises(OncueError, match=r"host9 [^,]*, schema 1, [^,]*, and 2 more\. Stop"):
        refuse_while_used(REMOVES, members, SOME_DAY)


# ------------------------------------------------------------------------------------------------- beside those at work


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_migrate, "LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr(postgres_migrate, "RETRY_DELAY", 0.05)


GROWS = (99, "alter table waiting add column later int;")


async def grow(place: Place, patch: pytest.MonkeyPatch) -> tuple[int, int]:
    ours = migrations("oncue.engines.postgres")
    patch.setattr(postgres_migrate, "migrations", lambda _: [*ours, GROWS])
    return await migrate(Settings(engine=place.url))


@pytest.mark.usefixtures("hasty")
async def test_a_migration_lets_those_pass_who_came_behind_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long read holds the table; whoever creates jobs must not wait for its end. Catches a wait without a limit."""
    store = await place.store()
    async with place.holding("select count(*) from waiting"):
        growing = asyncio.create_task(grow(place, monkeypatch))
        await eventually(lambda: place.backends("wait_event_type = 'Lock' and query like 'alter table waiting%'"))
        async with asyncio.timeout(60):
            await store.one_shot()
        assert not growing.done()

    assert (await growing)[1] == 99
    await store.one_shot()


@pytest.mark.usefixtures("hasty")
async def test_a_migration_that_finds_no_gap_says_what_to_do(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.holding("select count(*) from waiting"):
        with pytest.raises(OncueError, match=r"tables for longer than 100ms, 5 times .* pg_stat_activity"):
            await grow(place, monkeypatch)

    assert (await grow(place, monkeypatch))[1] == 99


async def test_who_has_nothing_to_migrate_waits_for_nobody(place: Place) -> None:
    """A worker that comes back while a migration is under way."""
    async with place.holding(f"select pg_advisory_xact_lock({postgres_migrate.LOCK})"), asyncio.timeout(60):
        await (await open_engine(Settings(engine=place.url))).close()


# ------------------------------------------------------------------------------------------- beside whoever comes later


def test_rows_name_their_columns() -> None:
    """So that a later version may add one: SQLite refuses rows that are too short, and with them older processes."""
    nameless = re.compile(r"insert( or \w+)? into [\w{}]+\s+(values|select)")
    engine = Path(sqlite_migrate.__file__).parent

    for path in (*engine.glob("*.py"), *engine.glob("sql/*.sql")):
        assert not nameless.search(path.read_text()), path


async def test_what_a_later_version_counts_is_passed_over(upgraded: Upgraded) -> None:
    await upgraded.by(*migrations("oncue.engines." + upgraded.engine))
    await upgraded.ask("insert into counters (uid, class_id, what, n) values (1, 1, 'later', 5), (1, 1, 'dead', 2)")
    engine = await open_engine(Settings(engine=upgraded.url))
    try:
        assert await engine.history.counters(UserNumber(1)) == [Counter(UserNumber(1), ClassId(1), Count.DEAD, 2)]
        assert await engine.history.counters() == [Counter(EVERYBODY, ClassId(1), Count.DEAD, 2)]
    finally:
        await engine.close()


async def test_totals_are_right_on_a_store_that_older_versions_filled(upgraded: Upgraded) -> None:
    """Those of all users, and of open dead letters, although nobody counted what became of them; and they stay so while
    an older version adds to the counters.
    """
    ours = migrations("oncue.engines." + upgraded.engine)
    await upgraded.by(*(one for one in ours if one[0] < 9))
    run_id = "x'00'" if upgraded.engine == "sqlite" else "'00000000-0000-0000-0000-000000000000'::uuid"
    await upgraded.ask(
        "insert into counters (uid, class_id, what, n)"
        " values (1, 1, 'created', 5), (2, 1, 'created', 3), (1, 1, 'dead', 4)"
    )
    await upgraded.ask(
        "insert into dead (run_id, job_id, uid, class_id, state, wanted, trigger, job_version, token, failures, losses,"
        f" ended_at) values ({run_id}, {run_id}, 1, 1, 3, 1, 0, 1, 1, 1, 0, 1)"
    )
    await upgraded.by(*ours)
    await upgraded.ask(
        "insert into counters (uid, class_id, what, n) values (2, 1, 'created', 1), (3, 2, 'created', 1)"
        " on conflict (uid, class_id, what) do update set n = counters.n + excluded.n"
    )
    engine = await open_engine(Settings(engine=upgraded.url))
    try:
        found = {(one.class_id, one.what): one.n for one in await engine.history.counters()}
    finally:
        await engine.close()

    one, two = ClassId(1), ClassId(2)
    assert found == {(one, Count.CREATED): 9, (one, Count.DEAD): 4, (one, Count.DISCARDED): 3, (two, Count.CREATED): 1}
