"""A database with an outbox: an application's role, which may enqueue and nothing else, and what takes in its jobs."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import asyncpg
import msgspec
from tests.engines.test_postgres_opening import as_user
from tests.engines.test_postgres_outside import Place

from oncue.clock import SystemClock
from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import DAY, Duration
from oncue.engines.open import open_engine
from oncue.engines.outbox_values import Enqueued
from oncue.engines.port import Engine, Role, Task
from oncue.intake.context import Intake
from oncue.intake.large_values import LargeValues
from oncue.services.outbox import OutboxIntake
from oncue.settings import Settings
from oncue.storage.open import open_storage

WELCOME = {
    "type": "object",
    "properties": {"user": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["user"],
    "additionalProperties": False,
}


class Site:
    """`web` is a session of the application's role."""

    def __init__(self, engine: Engine, settings: Settings, url: str, db_role: str, web: Any, uid: UserNumber) -> None:
        self.engine = engine
        self.settings = settings
        self.url = url
        self.db_role = db_role
        self.web = web
        self.uid = uid
        self.clock = SystemClock()

    @property
    def schema(self) -> str:
        named = parse_qs(urlsplit(self.settings.engine).query).get("schema")
        return "public" if named is None else named[0]

    def service(self, timeout: Duration = DAY, **how: Any) -> OutboxIntake:
        settings = msgspec.structs.replace(self.settings, **how)
        large = LargeValues(self.engine, open_storage(settings, self.clock), self.clock, settings.inline_cap)
        intake = Intake(self.engine, self.clock, settings, large)
        return OutboxIntake(self.engine, self.clock, intake, timeout)

    async def enqueue(self, task: str = "welcome", payload: Any = None, web: Any = None, **given: Any) -> UUID:
        """Call the function as an application does."""
        values = {"payload": {"user": 7} if payload is None else payload, "options": {}, **given}
        names = ", ".join(f"{name} => ${place}" for place, name in enumerate(values, 2))
        texts = [msgspec.json.encode(one).decode() if isinstance(one, dict | list) else one for one in values.values()]
        call = f"select {self.schema}.enqueue($1, {names})"
        found: UUID = await (web or self.web).fetchval(call, task, *texts)
        return found

    async def listed(self) -> list[Enqueued]:
        return await self.engine.outbox.listed(100)

    async def has(self, job_id: UUID) -> bool:
        """Whether the job was created."""
        return await self.engine.history.run(self.uid, RunId(job_id)) is not None

    async def job(self, job_id: UUID) -> Any:
        found = await self.engine.jobs.read(self.uid, JobId(job_id))
        assert found is not None
        return found

    @asynccontextmanager
    async def another(self) -> AsyncIterator[Any]:
        """One more session of the application."""
        session = await asyncpg.connect(self.url)
        try:
            yield session
        finally:
            session.terminate()


@asynccontextmanager
async def opened(place: Place, folder: Path, schema: str | None = None) -> AsyncIterator[Site]:
    url = place.url if schema is None else f"{place.url}&schema={schema}"
    settings = Settings(engine=url, pool_size=4, data_dir=str(folder))
    engine, name = await open_engine(settings), f"web_{secrets.token_hex(6)}"
    now = await engine.now()
    uid = await engine.accounts.user("shop", now)
    await engine.fleet.announce([Task("welcome", msgspec.json.encode(WELCOME), announced_at=now)], now)
    await place.session.execute(f"create role {name} login password '{name}'")
    await engine.outbox.grant(name, uid, Role.MEMBER, now)
    web = await asyncpg.connect(as_user(name, place.url))
    try:
        yield Site(engine, settings, as_user(name, place.url), name, web, uid)
    finally:
        web.terminate()
        await engine.close()
        await place.session.execute(f"drop owned by {name}; drop role {name}")
