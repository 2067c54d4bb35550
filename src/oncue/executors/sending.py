"""Send one message over the channel of an entry."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from oncue.clock import Clock
from oncue.domain.addresses import check_url, parse_networks
from oncue.domain.errors import Invalid
from oncue.domain.ids import UserNumber
from oncue.domain.instants import rfc3339
from oncue.domain.masking import Masking
from oncue.domain.messages import Message, chat_body
from oncue.domain.notify import Entry, Place, SecretName, Webhook
from oncue.domain.signing import key_of, signed_headers
from oncue.executors.dialling import Resolve, resolve
from oncue.executors.http import Post, Posted
from oncue.executors.mailing import mail_of, send_mail
from oncue.executors.port import TaskFailed
from oncue.settings import Settings
from oncue.settings.checks import mail_server

WITHIN = 20.0  # seconds for one try
GONE = 410


class FindSecret(Protocol):
    """Finds the value of a secret. `uid` None: one of the installation itself. TaskFailed: there is none."""

    async def __call__(self, name: str, uid: UserNumber | None) -> str: ...


async def no_secret(name: str, uid: UserNumber | None) -> str:
    raise TaskFailed("SecretMissing", f"no secret {name!r}: this worker has no secrets", retry=False)


class DerivedSecrets(Protocol):
    """Returns the derived secrets that sign for a user's URL now, newest first."""

    async def __call__(self, uid: UserNumber, url: str) -> list[str]: ...


class TargetGone(TaskFailed):
    """The receiver says that it is gone for good."""


class Letter(msgspec.Struct, frozen=True):
    """A message with what is the same at every try: its id, the thread it belongs to, and whose it is."""

    message: Message
    message_id: str
    thread: str
    uid: UserNumber


@contextmanager
def _masked(value: str) -> Iterator[None]:
    """Keep the value of a secret out of what is said of a failure: its owner's run is shown to whoever may read it."""
    masking = Masking([value])
    try:
        yield
    except TaskFailed as failed:
        failed.args = (masking.excerpt(str(failed)),)
        raise


class Sending:
    """All channels. Raises TaskFailed if the message was not taken."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        derived: DerivedSecrets,
        find_secret: FindSecret = no_secret,
        resolve: Resolve = resolve,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._derived = derived
        self._find = find_secret
        self._post = Post(parse_networks(settings.http_allow), resolve)
        self._mail = mail_server(settings.smtp)
        self._trust = trust

    async def send(self, entry: Entry, letter: Letter) -> None:
        if entry.webhook is not None:
            await self._webhook(entry.webhook, letter)
        elif entry.email:
            await self._email(entry, letter)
        else:
            service = entry.channel
            place: Place = getattr(entry, service)
            url = await self._find(place.secret, letter.uid) if isinstance(place, SecretName) else place
            with _masked(url if isinstance(place, SecretName) else ""):
                await self._posted(url, {}, chat_body(service, letter.message))

    async def _webhook(self, webhook: Webhook, letter: Letter) -> None:
        message, now = letter.message, self._clock.now()
        secrets = await self._secrets(webhook, letter.uid)
        headers = {
            **signed_headers(letter.message_id, message.body, secrets, now),
            "ce-specversion": "1.0",
            "ce-id": letter.message_id,
            "ce-source": self._settings.public_url or "urn:oncue",
            "ce-type": f"oncue.{message.kind}",
            "ce-time": rfc3339(message.at),
        }
        await self._posted(webhook.url, headers, message.body)

    async def _secrets(self, webhook: Webhook, uid: UserNumber) -> list[str]:
        if webhook.secret is None:
            return await self._derived(uid, webhook.url)
        found = await self._find(webhook.secret.secret, uid)
        try:
            key_of(found)
        except ValueError as wrong:
            message = f"secret {webhook.secret.secret!r} cannot sign a webhook: it {wrong}"
            raise TaskFailed("BadSecret", message, retry=False) from None
        return [found]

    async def _posted(self, url: str, headers: dict[str, str], content: bytes) -> None:
        try:
            checked = check_url(url, self._post.allow, "url")
        except Invalid as wrong:
            raise TaskFailed("AddressRefused", str(wrong), retry=False) from None
        if checked.scheme != "https" and not self._settings.webhook_plain:
            raise TaskFailed("AddressRefused", "notices are sent by https only", retry=False)
        answer: Posted = await self._post(checked, headers, content, WITHIN)
        if answer.status == GONE:
            raise TargetGone("HttpStatus", answer.words, retry=False)
        if not 200 <= answer.status <= 299:
            raise TaskFailed("HttpStatus", answer.words, after=answer.wait)

    async def _email(self, entry: Entry, letter: Letter) -> None:
        server = self._mail
        if server is None or not self._settings.smtp_from:
            raise TaskFailed("MailOff", "this worker sends no mail: set smtp and smtp_from", retry=False)
        named = server.password_secret
        password = None if named is None else await self._find(named, None)
        sender = self._settings.smtp_from
        mail = mail_of(letter.message, entry.email, sender, letter.message_id, letter.thread)
        try:
            with _masked(password or ""):
                async with asyncio.timeout(WITHIN):
                    await send_mail(server, mail, password, self._trust)
        except TimeoutError:
            raise TaskFailed("MailError", f"{server.host} did not answer within {WITHIN:.0f} s") from None
