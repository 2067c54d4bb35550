"""A worker that sends notices, and servers of the test that receive them: HTTP and SMTP with STARTTLS and AUTH."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from tests.certificates import self_signed
from tests.services.worker_loops import OFFER, Stage, StagedCrew

from oncue.domain.instants import SECOND, Duration
from oncue.domain.run import RunView
from oncue.engines.derived_secrets import DerivedSecrets
from oncue.executors.dialling import Resolve, resolve
from oncue.executors.functions import LoopExecutor
from oncue.executors.sending import FindSecret, Sending, no_secret
from oncue.metrics.numbers import SILENT, Numbers
from oncue.services.execution import Execution
from oncue.services.notifying import Notifier
from oncue.services.rate_limiter import RateLimiter
from oncue.settings import Settings
from oncue.tasks import Isolation
from oncue_conformance.store import Store

PASSWORD = "s3cret"


class Post(msgspec.Struct):
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class HttpServer:
    """Records posts, and answers each with the next status; when there is none left, with 204."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.answers: list[tuple[int, str]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1)[:1] + line.split(": ", 1)[1:] for line in head[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        self.posts.append(Post(head[0].split()[1], headers, body))
        status, more = self.answers.pop(0) if self.answers else (204, "")
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n{more}connection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def http_server() -> AsyncIterator[HttpServer]:
    server = HttpServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


class MailServer:
    """Takes mail of the user `oncue` after STARTTLS; can be taken down and brought up again on the same port."""

    def __init__(self, certificate: Path) -> None:
        self.mails: list[EmailMessage] = []
        self.refusals: list[str] = []  # the next answers to a mail
        self.port = 0
        self._certificate = certificate
        self._listening: asyncio.Server | None = None

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802 (aiosmtpd's name)
        if self.refusals:
            return self.refusals.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        mail = message_from_bytes(content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"

    def _authenticate(self, *given: Any) -> AuthResult:
        data = given[-1]
        good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"oncue", PASSWORD.encode())
        return AuthResult(success=good, handled=good)

    async def up(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate)
        how = {"require_starttls": True, "auth_required": True, "authenticator": self._authenticate}
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: SMTP(self, tls_context=context, loop=loop, hostname="localhost", **how), "127.0.0.1", self.port
        )
        self.port = self._listening.sockets[0].getsockname()[1]

    async def down(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    @property
    def subjects(self) -> list[str]:
        return [str(mail["subject"]) for mail in self.mails]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed("localhost", tmp_path_factory.mktemp("tls"))


class Office:
    """A crew that also sends notices, a rate limiter, and the steps that loops would do."""

    def __init__(self, store: Store, stage: Stage, crew: StagedCrew) -> None:
        self.store = store
        self.stage = stage
        self.crew = crew
        self._limiter = RateLimiter(store.engine, store.clock)

    async def turn(self) -> None:
        """A second, in which what is due runs, and then what is told of it."""
        await self.pass_time(SECOND, step=SECOND // 4)

    async def pass_time(self, length: int, step: int = SECOND) -> None:
        end = self.store.now + length
        while True:
            await self._work()
            if self.store.now >= end:
                return
            self.store.clock.jump(Duration(min(step, end - self.store.now)))

    async def _work(self) -> None:
        """Grant starts, run what is due, and settle it."""
        await self.store.beat(self.crew.worker_id)
        await self._limiter.run_once()
        self.crew.prefetch.ask(None)
        await self.crew.holdings.run_once()
        await self.crew.worker.run_once()
        await self.crew.rest()
        while len(self.crew.settling):
            await self.crew.settling.run_once()

    async def notices(self) -> list[RunView]:
        from oncue.domain.ids import NOTICES

        return await self.store.runs(job_id=NOTICES)


async def office_on(
    store: Store,
    tmp_path: Path,
    *,
    find_secret: FindSecret = no_secret,
    resolve: Resolve = resolve,
    trust: ssl.SSLContext | None = None,
    numbers: Numbers = SILENT,
    **given: Any,
) -> Office:
    usual = {"http_allow": ("127.0.0.1/32",), "webhook_plain": True, "data_dir": str(tmp_path), "concurrency": 1_000}
    settings = Settings(**usual | {"reserved_for_high": 0.0} | given)
    stage, worker_id = Stage(), await store.worker()
    derived = DerivedSecrets(store.engine.notices, store.clock, settings)
    sending = Sending(settings, store.clock, derived, find_secret, resolve, trust)
    notifier = Notifier(store.engine, store.clock, settings, worker_id, numbers, sending=sending)
    stage.tasks.add(notifier.task())
    offer = msgspec.structs.replace(OFFER, tasks=OFFER.tasks | {"notify"}, queues=OFFER.queues | {"oncue"}, slots={})
    executors = {kind: LoopExecutor(10_000) for kind in Isolation}
    crew = StagedCrew(
        *(store.engine, store.clock, settings, worker_id, offer),
        Execution(stage.tasks, executors, LoopExecutor(10_000), settings.kill_grace),
        chance=Random(1),
        linger=Duration(0),
        numbers=numbers,
    )
    crew.stage = stage
    notifier.renewed = crew.attempts.renew
    return Office(store, stage, crew)
