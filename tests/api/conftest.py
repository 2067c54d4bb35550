"""The API on each engine, called over HTTP without a socket; workers are played by engine verbs, time by a fake."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import msgspec
import pytest

from oncue import logs
from oncue.api.application import Application
from oncue.clock import SystemClock
from oncue.domain.ids import KeyId, RunId, UserNumber
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.keys import key_hash, make_key
from oncue.engines.port import JobQuery, Key, Role, Task
from oncue.logs.limits import Bursts
from oncue.settings import Settings
from oncue_conformance.store import EmptyStore, Store

# httpx2 looks for this package at every request, and that nothing was found is not remembered.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

HERE = Path(__file__).parent
SLOW = {
    "type": "object",
    "properties": {"seconds": {"type": "number"}, "tag": {"type": "string"}},
    "required": ["seconds"],
    "additionalProperties": False,
}
URL = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
TASKS = (
    Task("mark", b'{"type": "object"}'),
    Task("slow", msgspec.json.encode(SLOW), b'{"timeout":"30s","max_retries":5,"retry":{"factor":3}}'),
    Task("http", msgspec.json.encode(URL)),
    Task("command", b'{"type": "object"}', roles=("admin",)),
)


@pytest.fixture(autouse=True)
def own_bursts() -> Iterator[None]:
    """What other tests have logged leaves out no line of this one."""
    before, logs.bursts = logs.bursts, Bursts(SystemClock(), lambda *_: None)
    yield
    logs.bursts = before


class Desk:
    """A store, the API on it, and people with keys. Calls are ada's, a member's, unless they say otherwise."""

    def __init__(self, store: Store, app: Application, client: httpx2.AsyncClient, keys: dict[str, str]) -> None:
        self.store = store
        self.app = app
        self.client = client
        self.keys = keys

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str = "ada", headers: dict[str, Any] | None = None
    ) -> httpx2.Response:
        sent: dict[str, Any] = {"Authorization": f"Bearer {self.keys.get(key, key)}"} | (headers or {})
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        if body is not None:
            sent = {"Content-Type": "application/json"} | sent
        return await self.client.request(method, path, content=body, headers=sent)

    async def get(self, path: str, key: str = "ada") -> Any:
        answer = await self.call("GET", f"/v1{path}", key=key)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def create(self, task: str = "mark", *, key: str = "ada", **job: Any) -> Any:
        answer = await self.call("POST", "/v1/jobs", {"task": task, **job}, key=key)
        assert answer.status_code == 201, answer.text
        return read_back(answer)

    async def dead(self, key: str = "ada", **job: Any) -> RunId:
        """A run that used up its attempts, of a job made by the API."""
        await self.create(key=key, **job)
        worker = await self.store.worker()
        [run] = await self.store.claim_due(worker)
        await self.store.fail(worker, run, retry=False)
        return run.run_id

    async def quiet(self) -> None:
        """Have the last uses of all keys written: after this only a request waits for the clock."""
        for key in self.keys:
            await self.call("GET", "/v1/me", key=key)
        while self.store.clock._sleepers:
            await self.store.clock.advance(Duration(SECOND))
            await asyncio.sleep(0.001)

    async def nothing_stored(self) -> bool:
        return not await self.store.runs() and not await self.jobs()

    async def jobs(self) -> tuple[object, ...]:
        return (await self.store.lists.jobs(JobQuery())).items


def read_back(answer: httpx2.Response) -> Any:
    """The job of an answer without what only a change tells: that no worker can run it, since here is mostly none."""
    job = answer.json()
    return job | {"warnings": [one for one in job.get("warnings", ()) if one["code"] != "no_worker"]}


def etag_of(job: dict[str, Any]) -> str:
    return f'"{job["version"]}-{job["job_id"][-8:]}"'


async def add_key(store: Store, uid: UserNumber, user_id: str, role: Role, **how: Any) -> str:
    text = make_key(store.chance.randbytes(32))
    await store.accounts.add_key(Key(KeyId(store.new_id()), key_hash(text), uid, user_id, role, store.now, **how))
    return text


@asynccontextmanager
async def time_passing(desk: Desk) -> AsyncIterator[None]:
    """Whoever pauses before trying again wakes up."""

    async def tick() -> None:
        while True:
            await desk.store.clock.advance(MILLISECOND)
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()


# Answers that an engine's SQL decides, or who comes first: pages, quotas, repeats, calls at once. The rest follows from
# verbs that the conformance suite tries on both engines.
DIFFER = {"test_create", "test_idempotency", "test_listing", "test_own_changes", "test_quotas", "test_quotas_threads"}
assert all((HERE / f"{name}.py").exists() for name in DIFFER), "a file that has another name by now"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On PostgreSQL only what may differ there; the rest when everything is run."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if item.path.parent != HERE or item.path.stem in DIFFER or callspec is None:
            continue
        if callspec.params.get("engine_name") == "postgres":
            item.add_marker(pytest.mark.long)


@pytest.fixture
async def desk(empty_store: EmptyStore) -> AsyncIterator[Desk]:
    async with desk_on(empty_store) as desk:
        yield desk


@asynccontextmanager
async def desk_on(empty_store: EmptyStore) -> AsyncIterator[Desk]:
    async with await Store.on(await empty_store()) as store:
        root = await store.accounts.user("root", store.now)
        keys = {
            "root": await add_key(store, root, "root", Role.ADMIN),
            "ada": await add_key(store, store.uid, "ada", Role.MEMBER),
            "bob": await add_key(store, store.stranger, "bob", Role.MEMBER),
            "viewer": await add_key(store, store.uid, "ada", Role.VIEWER),
        }
        await store.fleet.announce(TASKS, store.now)
        with TemporaryDirectory() as folder:
            app = Application(store.engine, store.clock, Settings(http_allow=("10.1.0.0/16",), data_dir=folder))
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://oncue") as client:
                yield Desk(store, app, client, keys)
