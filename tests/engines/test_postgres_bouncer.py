"""Behind PgBouncer in transaction mode, where the next transaction may be on another connection of the server's."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_opening import unused_port
from tests.engines.test_postgres_outside import SHORT, Place, eventually, every_verb, refused

from oncue.domain.errors import OncueError, StoreFull
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.run import State
from oncue.engines.port import Hint, JobQuery, Topic
from oncue.engines.postgres.connecting import Apart
from oncue.testing.postgres_cluster import _account, _usual_place
from oncue_conformance.store import Store

place = outside.place

CONFIGURATION = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = {clients}
"""


@contextmanager
def bouncer(server: str, size: int, clients: int = 100) -> Iterator[str]:
    """One in front of this server, with so many connections to it for all its clients; the URL to use instead."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer on this machine: apt-get install pgbouncer")
    to, listen = urlsplit(server), unused_port()
    with TemporaryDirectory(prefix="oncue-bouncer-", dir=_usual_place()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        place = {"host": to.hostname, "port": to.port, "listen": listen, "folder": folder}
        (folder / "configuration").write_text(CONFIGURATION.format(**place, size=size, clients=clients))
        (folder / "users").write_text('"postgres" ""\n')
        command = [program, "-q", folder / "configuration"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=folder, **quiet, **_account()) as process:  # like the server, never as root
            try:
                yield to._replace(netloc=f"postgres@127.0.0.1:{listen}").geturl() + "&prepared_statements=off"
            finally:
                process.terminate()


async def listens(url: str) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.fixture(params=[1, 2], ids=["one connection", "two connections"])
async def bounced(request: pytest.FixtureRequest, place: Place) -> AsyncIterator[str]:
    with bouncer(place.url, request.param) as url:
        await eventually(lambda: listens(url))
        yield url


async def test_every_verb_works(place: Place, bounced: str) -> None:
    """Catches a statement prepared here and executed there, and a call that needs two connections at once."""
    store = await place.store(engine=bounced)
    for verb, call in (await every_verb(store)).items():
        try:
            await call()
        except Exception as failed:
            raise AssertionError(verb) from failed


async def test_several_engines_share_the_few_connections(place: Place, bounced: str) -> None:
    stores = [await place.store(engine=bounced) for _ in range(3)]

    await asyncio.gather(*(day_of_a_worker(store) for store in stores))

    await stores[0].check_counts()
    assert await place.value("select count(*) from pg_locks where locktype = 'advisory'") == 0
    assert await place.idle_in_transaction() == []


async def day_of_a_worker(store: Store) -> None:
    """Create, plan, peek, claim, settle, cancel, list and tend."""
    worker = await store.worker()
    runs = await store.one_shots(6, group=f"g{worker}", gate=("c", 2))
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=3 * MINUTE)
    store.advance(MINUTE)
    assert await store.beat(worker) is not None
    taken = [run for run in await store.claim_due(worker, limit=20) if run.run_id in runs]
    await store.hand_back(worker, *taken[:1])
    await store.succeed(worker, *taken[1:])
    await store.running.cancel(store.uid, runs[-1], store.now)
    assert await store.state(runs[-1]) is State.CANCELLED
    assert await store.pause(job_id)
    await store.jobs.cancel(store.uid, job_id, store.now)
    assert (await store.lists.jobs(JobQuery(store.uid, limit=5))).items
    await store.signals.send([Hint(Topic.RUNS)])
    await store.fleet.leave(worker)
    await store.recover_runs()


async def test_no_statement_falls_apart(place: Place, bounced: str) -> None:
    """Catches one that is prepared on one connection of the server's and executed on another, as somebody else's."""
    stores = [await place.store(engine=bounced) for _ in range(3)]
    runs = await stores[0].one_shots(10)
    for run_id in runs:
        await stores[0].history.append_log(run_id, 1, run_id.bytes, stores[0].now)

    async def read_all(store: Store) -> list[bytes]:
        return [await store.log(run_id) for run_id in runs]

    found = await asyncio.gather(*(read_all(store) for store in stores for _ in range(4)))

    assert found == [[run_id.bytes for run_id in runs]] * 12


async def test_pieces_are_made_and_dropped(place: Place, bounced: str) -> None:
    """Catches a lock that stays behind on the server's connection, or a detach within a transaction."""
    stores = [await place.store(engine=bounced, partition_span=HOUR) for _ in range(2)]
    for store in stores:
        store.advance(2 * DAY)

    dropped = await asyncio.gather(*(store.maintenance.maintain(store.now, DAY) for store in stores))
    left = await stores[0].maintenance.maintain(stores[0].now, DAY)

    assert sum(dropped) + left == 3  # the audit log is kept longer
    assert await place.value("select count(*) from pg_locks where locktype = 'advisory'") == 0
    assert await place.value("select count(*) from pieces where until_at <= $1", stores[0].at(-DAY)) == 1


async def test_the_server_gives_up_what_nobody_waits_for(place: Place, bounced: str) -> None:
    """Catches limits that are set at login: PgBouncer does not pass them on."""
    store = await place.store(engine=bounced, store_timeout=SHORT)
    async with place.locked("users"):
        took = await refused(lambda: store.accounts.user("eve", store.now))
        await eventually(lambda: nobody_waits(place))

    assert took < 5 * SHORT / SECOND
    assert await store.accounts.user("ada", store.now) == store.uid


async def nobody_waits(place: Place) -> bool:
    waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    return not await place.session.fetch(waiting)


async def test_tables_are_read_through_their_indexes(place: Place, bounced: str) -> None:
    """Catches planner settings that are lost on the way, or that stay with a connection others use, too."""
    store = await place.store(engine=bounced)
    shown = await outside.postgres_of(store)._store.fetch("show enable_seqscan")

    assert shown[0][0] == "off"


async def test_hints_come_past_it_if_the_url_says_where(place: Place) -> None:
    with bouncer(place.url, 2) as url:
        await eventually(lambda: listens(url))
        store = await place.store(engine=f"{url}&listen=127.0.0.1:{urlsplit(place.url).port}")
        assert store.engine.capabilities.hints
        hints = store.signals.listen()
        async with asyncio.timeout(60):
            for _ in Topic:  # those of the connection
                await anext(hints)
            await store.signals.send([Hint(Topic.RUNS, store.now)])
            assert (await anext(hints)).due == store.now
        assert len(await place.backends(name="oncue signals")) == 1


async def test_a_url_without_the_option_is_refused_with_it(place: Place) -> None:
    with bouncer(place.url, 1) as url:
        await eventually(lambda: listens(url))
        with pytest.raises(OncueError, match="add \\?prepared_statements=off"):
            await place.store(engine=url.replace("&prepared_statements=off", ""))


async def test_a_full_one_is_full_like_a_server(place: Place) -> None:
    """Its code for that is that of any login that went wrong. Catches a role that ends instead of waiting."""
    with bouncer(place.url, 1, clients=1) as url:
        await eventually(lambda: listens(url))
        session = await eventually(lambda: only_session(url.replace("&prepared_statements=off", "")))
        with pytest.raises(StoreFull, match="no free connection: raise"):
            await place.store(engine=url)
        session.terminate()
        await eventually(lambda: answers(place, url))


async def only_session(url: str) -> Apart | None:
    """Return the one that there may be, once the connection that found PgBouncer listening has left."""
    try:
        return await asyncpg.connect(url)
    except asyncpg.ProtocolViolationError:
        return None


async def answers(place: Place, url: str) -> bool:
    try:
        return bool(await place.store(engine=url))
    except StoreFull:
        return False


async def test_listening_does_no_harm(place: Place, bounced: str) -> None:
    """Hints do not come through; whoever listens is told once to look, and polls."""
    store = await place.store(engine=bounced, store_timeout=Duration(2 * SECOND))
    assert not store.engine.capabilities.hints
    hints = store.signals.listen()
    async with asyncio.timeout(60):
        assert [await anext(hints) for _ in Topic] == [Hint(topic) for topic in sorted(Topic)]

    await store.one_shot()
