"""The built-in task `http`: call a URL, and judge the answer.

Every call has a connection of its own, which ends with it: about a millisecond more than a kept one, and in return no
call fails because a server had just dropped an idle connection, and nothing is shared between users.

Time: a connection is made within 10 s (finding and dialling the address, then TLS, 10 s each), and a server may be
silent for five minutes, longer than most gateways in between bear. The whole call ends with the run's own timeout.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import ip_address
from typing import Annotated, Any, Literal, TypeAlias

import httpcore2
import msgspec

import oncue
from oncue.context import Context
from oncue.domain.addresses import Address, CheckedUrl, Networks, check_url, parse_networks, refusal
from oncue.domain.errors import Invalid
from oncue.domain.instants import DAY, SECOND, Duration, instant, rfc3339
from oncue.domain.plain_json import DEEPEST, too_deep
from oncue.services.executors.port import TaskFailed
from oncue.settings import Settings
from oncue.tasks import Isolation, Task

CONNECT_WITHIN = 10.0  # seconds
LONGEST_SILENCE = 300.0  # seconds
MOST_ADDRESSES = 4  # of one name; each gets its share of the time to connect

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
Status: TypeAlias = Annotated[int, msgspec.Meta(ge=100, le=599)]
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


async def resolve(host: str, port: int) -> Sequence[Address]:
    """What a name stands for, best first. An address stands for itself."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        raise httpcore2.ConnectError(f"the name {host} is not known: {unknown.strerror}") from None
    return list(dict.fromkeys(ip_address(place[0]) for *_, place in found))


def http_task(settings: Settings, resolve: Resolve = resolve) -> Task:
    """The task `http`, as a worker with these settings runs it. Its result: status, a few headers, body, truncated."""
    allow = parse_networks(settings.http_allow)

    async def http(
        ctx: Context,
        url: str,
        method: Method = "GET",
        headers: dict[str, str] = {},  # noqa: B006  (a Task copies it for every run)
        body: Any = None,
        expect_status: Status | list[Status] | None = None,
    ) -> dict[str, Any]:
        try:
            checked = check_url(url, allow)
        except Invalid as wrong:
            raise TaskFailed("AddressRefused", str(wrong), retry=False) from None
        content, content_type = _content(method, body)
        sent = _headers(headers, _headers_of_ours(ctx, checked, content_type))
        dial = _Dial(allow, resolve)
        try:
            answer = await _call(dial, method, checked, sent, content, settings.http_body_cap)
        except _FAILURES as failed:
            raise TaskFailed("HttpError", f"{method} {checked.shown}: {_reason(failed)}") from failed
        finally:
            await dial.hang_up()
        if not answer.is_expected(expect_status):
            raise answer.as_failure(f"{method} {checked.shown}")
        return answer.as_result(settings.result_cap)

    return Task("http", http, isolation=Isolation.LOOP, defaults={}, roles=("admin", "member"))


# ------------------------------------------------------------------------------------------------------- the connection


class _Dial(httpcore2.AsyncNetworkBackend):
    """Makes the connection of one call, to an address that was judged and not to a name: whatever the name stands for
    a moment later, nobody asks again. TLS and the Host header still go by the name.
    """

    def __init__(self, allow: Networks, resolve: Resolve) -> None:
        self._allow = allow
        self._resolve = resolve
        self._plain = httpcore2.AnyIOBackend()
        self._stream: httpcore2.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                addresses = self._judged(host, await self._resolve(host, port))
                self._stream = await self._first_to_answer(addresses[:MOST_ADDRESSES], port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        return self._stream

    def _judged(self, host: str, addresses: Sequence[Address]) -> Sequence[Address]:
        """Those that may be dialled; a name that stands for no such is refused."""
        reasons = {address: refusal(address, self._allow) for address in addresses}
        if good := [address for address, why in reasons.items() if why is None]:
            return good
        why = "; ".join(filter(None, reasons.values()))
        raise TaskFailed("AddressRefused", f"{host} is not called: {why}, and http_allow does not name it", retry=False)

    async def _first_to_answer(self, addresses: Sequence[Address], port: int) -> httpcore2.AsyncNetworkStream:
        share = CONNECT_WITHIN / len(addresses)
        for address in addresses[:-1]:
            try:
                return await self._plain.connect_tcp(str(address), port, timeout=share)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._plain.connect_tcp(str(addresses[-1]), port, timeout=share)

    async def hang_up(self) -> None:
        """The connection is gone after this, also one that was cancelled half way into TLS."""
        if self._stream is not None:
            await self._stream.aclose()


@cache
def _trust() -> ssl.SSLContext:
    """The certificates that count; reading them takes long, so it is done once. SSL_CERT_FILE names others."""
    return httpcore2.default_ssl_context()


async def _call(
    dial: _Dial, method: str, url: CheckedUrl, headers: list[tuple[bytes, bytes]], content: bytes | None, cap: int
) -> _Answer:
    place = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
    connection = httpcore2.AsyncHTTPConnection(
        place.origin, ssl_context=_trust() if url.scheme == "https" else None, network_backend=dial
    )
    limits = {"connect": CONNECT_WITHIN, "write": LONGEST_SILENCE, "read": LONGEST_SILENCE}
    async with connection.stream(
        method, place, headers=headers, content=content, extensions={"timeout": limits}
    ) as response:
        received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        body, truncated = await _read(response, received.get("content-encoding", ""), cap)
        return _Answer(response.status, received, body, truncated)


async def _read(response: httpcore2.Response, encoding: str, cap: int) -> tuple[bytes, bool]:
    """The body, unpacked, and whether it was cut: no more than `cap` bytes are taken from the server or unpacked."""
    unpack = zlib.decompressobj(wbits=31).decompress if encoding.lower() in ("gzip", "x-gzip") else None
    body, taken = bytearray(), 0
    async with aclosing(response.aiter_stream()) as chunks:
        async for chunk in chunks:
            taken += len(chunk)
            body += unpack(chunk, cap + 1 - len(body)) if unpack else chunk
            if max(taken, len(body)) > cap:
                return bytes(body[:cap]), True
    return bytes(body), False


_FAILURES = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, zlib.error)


def _reason(failed: Exception) -> str:
    match failed:
        case httpcore2.ConnectTimeout():
            return f"no connection within {CONNECT_WITHIN:.0f} s"
        case httpcore2.TimeoutException():
            return f"nothing was heard for {LONGEST_SILENCE:.0f} s"
        case zlib.error():
            return f"the answer says it is gzip and cannot be unpacked: {failed}"
    cause: BaseException = failed
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
        return os.strerror(cause.errno)
    return str(cause) or type(failed).__name__


# ---------------------------------------------------------------------------------------------------------- the request

# How a message travels is ours to say; an answer packed in ways we cannot unpack would be of no use.
_NOT_FOR_USERS = frozenset(
    "accept-encoding connection content-length expect host keep-alive te trailer transfer-encoding upgrade".split()
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


def _content(method: str, body: Any) -> tuple[bytes | None, str | None]:
    """The body as it is sent, and its type: a string is text, anything else JSON."""
    match body:
        case None:
            return (b"" if method in ("POST", "PUT", "PATCH") else None), None
        case str():
            return body.encode(), "text/plain; charset=utf-8"
        case _:
            return msgspec.json.encode(body), "application/json"


def _headers_of_ours(ctx: Context, url: CheckedUrl, content_type: str | None) -> dict[str, str]:
    given = {
        "Host": url.authority,
        "Connection": "close",
        "Accept-Encoding": "identity",
        "User-Agent": f"oncue/{oncue.__version__}",
        "Idempotency-Key": ctx.idempotency_key,
        "Oncue-Run-Id": str(ctx.run_id),
        "Oncue-Job-Id": str(ctx.job_id),
        "Oncue-Attempt": str(ctx.attempt),
        "Oncue-Scheduled-For": rfc3339(instant(ctx.scheduled_for)),
    }
    return given if content_type is None else given | {"Content-Type": content_type}


def _headers(users: Mapping[str, str], ours: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Ours, and the user's instead where both have one."""
    for name, value in users.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _bad_header(name, "has characters that no header can have")
        if name.lower() in _NOT_FOR_USERS or name.lower().startswith("oncue-"):
            raise _bad_header(name, "is set by oncue: leave it out")
    taken = {name.lower() for name in users}
    kept = {name: value for name, value in ours.items() if name.lower() not in taken}
    return [(name.encode(), value.strip(" \t").encode()) for name, value in {**kept, **users}.items()]


def _bad_header(name: str, why: str) -> TaskFailed:
    return TaskFailed("BadHeader", f"payload.headers: {name[:100]!r} {why}", retry=False)


# ----------------------------------------------------------------------------------------------------------- the answer

_HEADERS_KEPT = ("content-type", "etag", "location", "last-modified")
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429})
_JSON = re.compile(r"application/(?:[^;\s]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_EXCERPT = 200  # characters


class _Answer(msgspec.Struct, frozen=True):
    """What came back, its body unpacked."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool

    def is_expected(self, expected: int | list[int] | None) -> bool:
        match expected:
            case None:
                return 200 <= self.status <= 299
            case int():
                return self.status == expected
            case _:
                return self.status in expected

    def as_failure(self, call: str) -> TaskFailed:
        retry = not 400 <= self.status <= 499 or self.status in _WORTH_ANOTHER_TRY
        after = _asked_to_wait(self.headers) if retry else None
        words = f"{call} answered {self.status}"
        if location := self.headers.get("location"):
            words += f", pointing to {_without_secrets(location)}"
        if said := _printable(self.body.decode("utf-8", "replace")):
            words += f": {said}"
        return TaskFailed("HttpStatus", words, retry=retry, after=after)

    def as_result(self, cap: int) -> dict[str, Any]:
        """A body that is too large to be kept is cut like one that is too large to be read: the call went well."""
        result: dict[str, Any] = {
            "status": self.status,
            "headers": {name: self.headers[name] for name in _HEADERS_KEPT if name in self.headers},
            "body": self._value(),
            "truncated": self.truncated,
        }
        text = self.body.decode("utf-8", "replace")
        while text and (size := len(msgspec.json.encode(result))) > cap:
            text = text[: min(len(text) * cap // size, len(text) - 1)]
            result |= {"body": text, "truncated": True}
        return result

    def _value(self) -> Any:
        if not self.truncated and _JSON.fullmatch(self.headers.get("content-type", "")):
            try:
                if not too_deep(self.body, DEEPEST - 1):  # there will be one more around it
                    return msgspec.json.decode(self.body)
            except (ValueError, RecursionError):
                pass  # a text, whatever it says
        return self.body.decode("utf-8", "replace")


def _asked_to_wait(headers: Mapping[str, str]) -> Duration | None:
    """Retry-After in seconds, or as a date by the server's own clock; at most a day. None: it asks for no wait."""
    asked = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,12}", asked):
        length = int(asked) * SECOND
    elif (until := _date(asked)) and (now := _date(headers.get("date", ""))):
        length = instant(until) - instant(now)
    else:
        return None
    return Duration(min(length, DAY)) if length > 0 else None


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else None


def _without_secrets(location: str) -> str:
    """Where a redirect points, without user, query and fragment."""
    return _printable(re.sub(r"//[^/]*@", "//", re.split(r"[?#]", location, maxsplit=1)[0]))


def _printable(text: str) -> str:
    """The beginning of what a server said, on one line: stores and screens take no control characters."""
    words = " ".join(text[: 4 * _EXCERPT].split())
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in words)[:_EXCERPT]
