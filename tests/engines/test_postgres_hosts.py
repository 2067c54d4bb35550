"""Several hosts in the URL: which one is used, how soon, and which one never."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.engines.test_postgres_opening import unused_port
from tests.engines.test_postgres_outside import eventually

from oncue.clock import SystemClock
from oncue.domain.errors import OldPrimary, StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.engines.open import open_engine
from oncue.engines.postgres import dialling
from oncue.engines.postgres.connecting import options
from oncue.engines.postgres.dialling import Dialling
from oncue.engines.postgres.engine import PostgresEngine
from oncue.engines.postgres.hosts import Answer, Identity, NoHost, hosts_of, name_of, note, understood
from oncue.engines.postgres.race import SETTLE, Race
from oncue.settings import Settings
from oncue.testing.logs import capture_logs
from oncue.testing.postgres_replica import ReplicatedPostgres

USUAL = options(Duration(10 * SECOND), False, "oncue", {})


@contextmanager
def silent_host() -> Iterator[str]:
    """One that takes connections and never says a word."""
    with socket.socket() as taking:
        taking.bind(("127.0.0.1", 0))
        taking.listen(50)
        yield f"127.0.0.1:{taking.getsockname()[1]}"


def with_hosts(url: str, *hosts: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.username}@{','.join(hosts)}").geturl()


def host_in(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


# ------------------------------------------------------------------------------------------------------------- the URL


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:p@a:1/d", ["postgresql://u:p@a:1/d"]),
        ("postgresql:///d", ["postgresql:///d"]),
        ("postgresql://u:p%2C@a:1,b/d", ["postgresql://u:p%2C@a:1/d", "postgresql://u:p%2C@b/d"]),
        ("postgresql://a,[::1]:2/d?x=y", ["postgresql://a/d?x=y", "postgresql://[::1]:2/d?x=y"]),
        ("postgresql:///d?host=a,b", ["postgresql:///d?host=a", "postgresql:///d?host=b"]),
        ("postgresql:///d?host=a,b&port=1", ["postgresql:///d?host=a&port=1", "postgresql:///d?host=b&port=1"]),
        ("postgresql://a,b/d?port=1,2", ["postgresql://a/d?port=1", "postgresql://b/d?port=2"]),
        ("postgresql://a,b/d?port=1,2,3", ["postgresql://a,b/d?port=1,2,3"]),  # the driver says what is wrong
    ],
)
def test_each_host_gets_a_url_of_its_own(url: str, expected: list[str]) -> None:
    assert [one.replace(":///", ":/") for one in hosts_of(url)] == [one.replace(":///", ":/") for one in expected]


def test_a_host_is_named_without_user_and_password() -> None:
    assert name_of("postgresql://u:p@a:1/d") == "a:1"
    assert name_of("postgresql:///d?host=/run/pg") == "/run/pg"
    assert name_of("postgresql:///d") == "this machine"


def test_what_others_have_noted_is_read() -> None:
    started = datetime(2026, 11, 19, tzinfo=UTC)
    assert understood((7, "0000000A0000000000000001", started, None)) == (Identity(7, 10, started), 0)
    noted = f"{note(9)},{note(11)},oncue: timeline of a stranger"
    assert understood((7, "0000000A0000000000000001", started, noted)) == (Identity(7, 10, started), 11)


# --------------------------------------------------------------------------------------------------------- real hosts


async def test_a_silent_host_holds_up_neither_the_first_connection_nor_the_next(postgres_url: str) -> None:
    dialled = Dialling()
    with silent_host() as silent:
        url = with_hosts(postgres_url, silent, host_in(postgres_url))
        began = perf_counter()
        first = await dialled.connect(url, **USUAL)
        chosen = perf_counter()
        second = await dialled.connect(url, **USUAL)
        again = perf_counter()

    first.terminate()
    second.terminate()
    assert chosen - began < 5, "the silent host took the time of both"
    assert again - chosen < 0.25, "the silent host was asked first again"


async def test_an_engine_opens_although_the_first_host_is_silent(postgres_url: str) -> None:
    with silent_host() as silent:
        url = with_hosts(postgres_url, silent, host_in(postgres_url))
        engine = await open_engine(Settings(engine=url, store_timeout=Duration(6 * SECOND)))
        [primary] = [one for one in await engine.diagnose() if one.check == "primary"]
        await engine.close()

    assert primary.seen == f"{host_in(postgres_url)}, on timeline 1"


async def test_when_no_host_can_be_used_each_is_named_with_its_reason(postgres_url: str) -> None:
    refusing = f"127.0.0.1:{unused_port()}"
    with silent_host() as silent:
        settings = Settings(engine=with_hosts(postgres_url, refusing, silent), store_timeout=Duration(SECOND))
        with pytest.raises(StoreUnavailable) as said:
            await open_engine(settings)

    assert f"{refusing}: the connection was refused" in str(said.value) or "no answer in time" in str(said.value)


async def test_a_promoted_replica_is_used_and_the_old_primary_refused(replicated_postgres: ReplicatedPostgres) -> None:
    servers, early = replicated_postgres, Dialling()
    url = await asyncio.to_thread(servers.create_database, "oncue")
    before = await early.connect(url, **USUAL)
    assert before.get_server_pid()
    await asyncio.to_thread(servers.second.promote)  # nobody stopped the first one

    with capture_logs() as lines:
        late = Dialling()  # of a process that starts now: the newer one, although it is second
        connection = await late.connect(url, **USUAL)
        assert await connection.fetchval("select inet_server_port()") == servers.second.port
        with pytest.raises(OldPrimary, match=r"old_primary.* rebuild it as a replica"):
            await late.connect(servers.first.url("oncue"), **USUAL)
    before.terminate()
    connection.terminate()

    assert [one["kind"] for one in lines] == ["old_primary"]


async def test_who_stays_with_a_primary_that_was_not_stopped_leaves_it_and_warns_others(
    replicated_postgres: ReplicatedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the network splits. Catches a process that keeps its connections, and one that can reach no other."""
    servers = replicated_postgres
    url = await asyncio.to_thread(servers.create_database, "oncue")
    engine = await PostgresEngine.open(Settings(engine=url))
    alone = await PostgresEngine.open(Settings(engine=servers.first.url("oncue")))
    await asyncio.to_thread(servers.first.wait_for, servers.second)
    await asyncio.to_thread(servers.second.promote)

    with capture_logs() as lines:
        await engine._store.lookout.run_once()
        assert await engine._store.fetch("select inet_server_port() as port") == [(servers.second.port,)]
        await engine._store.lookout.run_once()
    monkeypatch.setattr(dialling, "_SEEN", {})  # of a process that has seen nothing
    with pytest.raises(OldPrimary):
        await PostgresEngine.open(Settings(engine=servers.first.url("oncue")))
    with pytest.raises(OldPrimary):
        await alone._store.lookout.run_once()
    with pytest.raises(OldPrimary):
        await alone.now()
    await engine.close()
    await alone.close()

    assert [one["kind"] for one in lines] == ["primary_changed"]
    monkeypatch.setattr(dialling, "_SEEN", {})
    await eventually(lambda: is_accepted(servers.first.url("oncue")))  # nobody says so any more


async def is_accepted(url: str) -> bool:
    try:
        (await Dialling().connect(url, **USUAL)).terminate()
    except OldPrimary:
        dialling._SEEN.clear()
        return False
    return True


# ----------------------------------------------------------------------------------------------------------- decisions


class Connection:
    """Whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def terminate(self) -> None:
        self.closed = True


Told = Identity | Exception | None


class Hosts:
    """Each answers at its time, or never."""

    def __init__(self, **told: tuple[float, Told]) -> None:
        self.told = told
        self.asked: list[str] = []
        self.connections: dict[str, Any] = {}

    async def ask(self, host: str) -> Answer:
        self.asked.append(host)
        after, told = self.told[host]
        await asyncio.sleep(after)
        if isinstance(told, Exception):
            raise told
        self.connections[host] = Connection()
        return Answer(host, self.connections[host], told)

    async def winner(self, is_sure: Callable[[Answer], bool] = lambda _: False) -> str:
        async with asyncio.timeout(5):
            answer = await Race(list(self.told), self.ask, SystemClock()).winner(is_sure)
        assert not self.connections.pop(answer.host).closed
        assert all(one.closed for one in self.connections.values()), "a connection that nobody uses stays open"
        return answer.host


def on(timeline: int, system: int = 1) -> Identity:
    return Identity(system, timeline, SOME_DAY)


READ_ONLY = asyncpg.exceptions.TargetServerAttributeNotMatched("read-only")
NEVER = 60.0
SOME_DAY = datetime(2026, 11, 19, tzinfo=UTC)


async def test_the_highest_timeline_of_a_cluster_wins() -> None:
    assert await Hosts(a=(0, on(1)), b=(0.2, on(3)), c=(0.1, on(2))).winner() == "b"


async def test_of_different_clusters_the_first_wins() -> None:
    assert await Hosts(a=(0.1, on(1, system=1)), b=(0, on(9, system=2))).winner() == "a"


async def test_servers_that_do_not_say_are_taken_in_their_order() -> None:
    assert await Hosts(a=(0, READ_ONLY), b=(0, None), c=(0, on(9))).winner() == "b"


async def test_a_silent_host_is_waited_for_as_long_as_it_takes_to_settle() -> None:
    began = perf_counter()
    assert await Hosts(a=(NEVER, on(2)), b=(0, on(1))).winner() == "b"
    assert perf_counter() - began >= SETTLE / SECOND


async def test_nobody_else_is_asked_when_the_first_is_surely_right() -> None:
    hosts = Hosts(a=(0, on(1)), b=(0, on(1)))
    assert await hosts.winner(lambda answer: answer.host == "a") == "a"
    assert hosts.asked == ["a"]


async def test_a_host_that_is_promoted_while_another_is_silent_is_found() -> None:
    hosts = Hosts(a=(NEVER, on(1)), b=(0, READ_ONLY))
    finding = asyncio.create_task(hosts.winner(lambda answer: answer.host == "b"))
    await asyncio.sleep(0.3)
    hosts.told["b"] = (0, on(2))

    assert await finding == "b"


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (ConnectionRefusedError(), NoHost),
        (asyncpg.TooManyConnectionsError(), asyncpg.TooManyConnectionsError),
        (OldPrimary(), OldPrimary),
        (ValueError(), ValueError),
    ],
)
async def test_what_the_caller_acts_on_is_raised(first: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await Hosts(a=(0, READ_ONLY), b=(0, first)).winner()
