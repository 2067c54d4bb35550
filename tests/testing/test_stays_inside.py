"""A test that uses a fixture sends nothing to a real server, whatever the environment says. The server counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from examples.fastapi_shop import app, send_receipt, tasks
from fastapi.testclient import TestClient
from tests.client.server import key_of
from tests.examples.server import Up, up
from tests.processes.loopback import Counting

from oncue import Tasks
from oncue.client import AsyncClient, Client, NotFound, OncueApiError
from oncue.client.contexts import Context, Contexts, write_contexts
from oncue.local_server import announced
from oncue.testing import OncueApp, OncueFake, OncueInline

UNKNOWN = "01a1ec94-d625-7791-b549-7d4e80e220e7"
TO = {"to": "you@example.org"}
SENT = "receipt for order 7 sent to you@example.org"


@pytest.fixture
def oncue_tasks() -> Tasks:
    return tasks


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("real")) as server:
        yield server


@pytest.fixture(params=["environment", "context", "folder"])
def real(
    request: pytest.FixtureRequest, server: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Counting]:
    """A server with a key, to which everything here leads but the tests: the last call proves that."""
    monkeypatch.chdir(tmp_path)
    for name in ("ONCUE_URL", "ONCUE_API_KEY", "ONCUE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with Counting(server.address) as counting:
        match request.param:
            case "environment":
                monkeypatch.setenv("ONCUE_URL", counting.url)
                monkeypatch.setenv("ONCUE_API_KEY", key_of(server))
            case "context":
                write_contexts(Contexts(None, {"prod": Context(counting.url, key_of(server))}))
                monkeypatch.setenv("ONCUE_CONTEXT", "prod")
            case _:
                (tmp_path / ".oncue").mkdir()
                (tmp_path / ".oncue" / "admin.key").write_text(key_of(server))
        with announced(tmp_path / ".oncue", counting.url, "") if request.param == "folder" else nullcontext():
            yield counting
            visits = counting.visits
            with Client() as client:
                jobs = list(client.jobs.list())
    assert (visits, jobs, counting.visits) == (0, [], 1)


@pytest.fixture
def old(real: Counting) -> Iterator[tuple[Client, Tasks]]:
    """A client that a program has since before the test, and a set of tasks of which the fixtures are not told."""
    others = Tasks()

    @others.task
    async def elsewhere() -> None: ...

    with Client() as client, others.clients.for_sync(None):
        yield client, others


def receipt(browser: TestClient) -> str:
    """Enqueue with one handler, and read with the other what there is not. Returns the run to read."""
    assert browser.get(f"/receipts/{UNKNOWN}").status_code == 404
    answered = browser.post("/orders/7/receipt", params=TO)
    assert answered.status_code == 202
    run: str = answered.json()["run"]
    return run


def read(browser: TestClient, run: str) -> tuple[str, str | None]:
    said = browser.get(f"/receipts/{run}").json()
    return said["status"], said["result"]


async def all_refused(fixture: str, old: tuple[Client, Tasks]) -> None:
    """No client without an address calls anybody, whenever it was made."""
    client, others = old
    [elsewhere] = others

    def refused() -> Any:
        return pytest.raises(RuntimeError, match=rf"^{fixture} is in use, .*`tasks\.connected\(\)`")

    for call in (client.jobs.list, others.clients.for_sync(None).jobs.list, client.events):
        with refused():
            list(call())
    for create in (Client, AsyncClient, elsewhere.sync.enqueue):
        with refused():
            create()
    with refused():
        await elsewhere.enqueue()
    async with others.connected() as inside:  # of a set that no fixture was told of
        assert inside.url == "http://oncue.test"


async def test_recorded(old: tuple[Client, Tasks], oncue_fake: OncueFake) -> None:
    with TestClient(app) as browser:
        run = receipt(browser)
        seen = read(browser, run)

    assert seen == ("queued", None)
    oncue_fake.assert_enqueued(send_receipt, {"order": 7}, queue="mail", times=1)
    async with tasks.connected() as client:
        assert (await client.runs.get(run)).task == "send_receipt"
        with pytest.raises(NotFound, match="no run"):
            await client.runs.get(UNKNOWN)
        with pytest.raises(OncueApiError, match="it never ends"):
            await client.runs.wait(run)
    await all_refused("oncue_fake", old)


async def test_run_at_once(old: tuple[Client, Tasks], oncue_inline: OncueInline) -> None:
    with TestClient(app) as browser:
        seen = read(browser, receipt(browser))

    assert seen == ("succeeded", SENT)
    async with tasks.connected() as client:
        run = await send_receipt.enqueue(order=8, **TO)
        assert (await client.runs.wait(run)).result == SENT.replace("7", "8")
    await all_refused("oncue_inline", old)


async def test_run_in_fake_time(old: tuple[Client, Tasks], oncue_app: OncueApp) -> None:
    with TestClient(app) as browser:
        run = receipt(browser)
        before = read(browser, run)
        await oncue_app.drain()
        after = read(browser, run)

    assert (before, after) == (("queued", None), ("succeeded", SENT))
    async with tasks.connected() as client:
        assert (await client.runs.wait(run)).task == "send_receipt"
    await all_refused("oncue_app", old)


def test_an_address_is_obeyed(server: Up, oncue_fake: OncueFake) -> None:
    with Client(server.address, key_of(server)) as client:
        assert client.me().role == "admin"


async def test_after_the_test_the_environment_counts_again(real: Counting) -> None:
    with OncueFake(tasks), OncueInline(tasks) as inner:
        async with tasks.connected() as client:
            assert client is inner.async_client
    async with tasks.connected() as client:
        assert client.url == real.url
