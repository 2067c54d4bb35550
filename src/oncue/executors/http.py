"""The built-in task `http`: call a URL, and judge the answer.

Every call has a connection of its own, which ends with it: about a millisecond more than a kept one, and in return no
call fails because a server had just dropped an idle connection, and users share nothing.

Timeouts: 10 s to connect (resolving and connecting, then TLS, 10 s each), and five minutes without data from the
server, longer than most gateways in between allow. The whole call ends with the run's own timeout.

All runs share the loop: all calls together get a limited share of it, whatever servers send.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import zlib
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import httpcore2
import msgspec
from msgspec.structs import replace

import oncue
from oncue.clock import Clock, SystemClock
from oncue.context import Context
from oncue.domain.addresses import NOT_CALLED, CheckedUrl, Networks, check_url, parse_networks
from oncue.domain.errors import Invalid
from oncue.domain.headers import header_fault
from oncue.domain.instants import DAY, SECOND, Duration, instant, rfc3339
from oncue.domain.masking import MASK
from oncue.domain.plain_json import DEEPEST, too_deep
from oncue.executors.dialling import CONNECT_WITHIN, Dial, Line, Resolve, resolve
from oncue.executors.outgoing import outgoing
from oncue.executors.port import TaskFailed
from oncue.executors.share import LoopShare, Turns
from oncue.secret import Secret, revealed, secrets_of_run
from oncue.settings import Settings
from oncue.tasks import Isolation, Task

LONGEST_SILENCE = 300.0  # seconds
LONGEST_HEAD = 16 * 1024  # bytes of an answer before its body, or between two parts of the body

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
Status: TypeAlias = Annotated[int, msgspec.Meta(ge=100, le=599)]


def http_task(settings: Settings, resolve: Resolve = resolve, clock: Clock | None = None) -> Task:
    """Build the task `http` for a worker with these settings. Its result: status, a few headers, body, truncated."""
    allow = parse_networks(settings.http_allow)
    dial = Dial(allow, resolve)
    share = LoopShare(clock or SystemClock())

    async def http(
        ctx: Context,
        url: str | Secret,
        method: Method = "GET",
        headers: dict[str, str | Secret] = {},  # noqa: B006  (a Task copies it for every run)
        body: Any = None,
        expect_status: Status | list[Status] | None = None,
    ) -> dict[str, Any]:
        turns = share.turns()
        await turns.begin()
        checked = _checked(url, allow)
        shown = replace(checked, host=MASK, path="/", query=None) if isinstance(url, Secret) else checked
        with outgoing(ctx, method, shown) as call, _without(checked.host, hidden=shown is not checked):
            given = {name: revealed(value) for name, value in headers.items()}
            request = _request(ctx, checked, method, given, body, call.headers)
            try:
                async with dial.connected(checked.host, checked.port, turns) as line:
                    answer = await _call(line, turns, request, settings.max_http_body_bytes)
            except _FAILURES as failed:
                raise TaskFailed("HttpError", f"{method} {shown.shown}: {_reason(failed)}") from failed
            call.status = answer.status
        await turns.begin()
        try:
            answer = answer.masked()
            if not answer.is_expected(expect_status):
                raise answer.as_failure(f"{method} {shown.shown}")
            return answer.as_result(settings.max_result_bytes)
        finally:
            turns.end()

    roles = ("admin", "member")
    return Task("http", http, isolation=Isolation.LOOP, defaults={}, roles=roles, filled=("body",))


def _checked(url: str | Secret, allow: Networks) -> CheckedUrl:
    """Check where the call goes. Of a secret URL the refusal does not say the address."""
    try:
        return check_url(revealed(url), allow)
    except Invalid as wrong:
        hidden = isinstance(url, Secret) and wrong.problems[0].code == "refused_address"
        said = f"payload.url: the host of the URL {NOT_CALLED}" if hidden else str(wrong)
        raise TaskFailed("AddressRefused", said, retry=False) from None


@contextmanager
def _without(host: str, *, hidden: bool) -> Iterator[None]:
    """Keep the host of a secret URL out of failures."""
    try:
        yield
    except TaskFailed as failed:
        if not hidden:
            raise
        said = str(failed).replace(host, MASK)
        raise TaskFailed(failed.kind, said, retry=failed.retry, after=failed.after) from None


# ------------------------------------------------------------------------------------------------------- the connection


class _Connection(httpcore2.AsyncHTTP11Connection):
    MAX_INCOMPLETE_EVENT_SIZE = LONGEST_HEAD


@cache
def _trust() -> ssl.SSLContext:
    """Load the trusted certificates once, because reading them takes long. SSL_CERT_FILE names others."""
    trust = httpcore2.default_ssl_context()
    trust.set_alpn_protocols(["http/1.1"])
    return trust


async def _call(line: Line, turns: Turns, request: _Request, cap: int) -> _Answer:
    url = request.url
    place = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
    if url.scheme == "https":
        await line.start_tls(_trust(), url.host, timeout=CONNECT_WITHIN)
    limits = {"write": LONGEST_SILENCE, "read": LONGEST_SILENCE}
    async with _Connection(place.origin, line).stream(
        request.method, place, headers=request.headers, content=request.content, extensions={"timeout": limits}
    ) as response:
        received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        line.read_more()
        body, truncated = await _read(response, received.get("content-encoding", ""), cap, turns)
        return _Answer(response.status, received, body, truncated)


async def _read(response: httpcore2.Response, encoding: str, cap: int, turns: Turns) -> tuple[bytes, bool]:
    """Read and unpack the body, and whether it was cut: at most `cap` bytes are read from the server or unpacked."""
    packed = zlib.decompressobj(wbits=31) if encoding.lower() in ("gzip", "x-gzip") else None
    body, taken = bytearray(), 0
    async with aclosing(response.aiter_stream()) as chunks:
        async for chunk in chunks:
            taken += len(chunk)
            body += packed.decompress(chunk, cap + 1 - len(body)) if packed else chunk
            if max(taken, len(body)) > cap:
                return bytes(body[:cap]), True
            if turns.is_long:
                await turns.begin()
    return bytes(body), bool(packed and taken and not packed.eof)


_FAILURES = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, zlib.error)


def _reason(failed: Exception) -> str:
    match failed:
        case httpcore2.ConnectTimeout():
            return f"no connection within {CONNECT_WITHIN:.0f} s"
        case httpcore2.TimeoutException():
            return f"no data was sent or received for {LONGEST_SILENCE:.0f} s"
        case httpcore2.RemoteProtocolError() if str(failed) == "Receive buffer too long":
            return f"the response headers or a chunk header are longer than {LONGEST_HEAD} bytes"
        case zlib.error():
            return f"the response is not valid gzip, although its headers say so: {failed}"
    cause: BaseException = failed
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
        return os.strerror(cause.errno)
    return str(cause) or type(failed).__name__


# ---------------------------------------------------------------------------------------------------------- the request


class _Request(msgspec.Struct, frozen=True):
    method: str
    url: CheckedUrl
    headers: list[tuple[bytes, bytes]]
    content: bytes | None


def _request(
    ctx: Context, url: CheckedUrl, method: str, headers: Mapping[str, str], body: Any, trace: Mapping[str, str]
) -> _Request:
    content, content_type = _content(method, body)
    ours = {**_headers_of_ours(ctx, url, content_type), **trace}
    return _Request(method, url, _headers(headers, ours), content)


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
    """Merge our headers and the user's; the user's win."""
    for name, value in users.items():
        if fault := header_fault(name, value):
            raise TaskFailed("BadHeader", f"payload.headers: {name[:100]!r} {fault}", retry=False)
    taken = {name.lower() for name in users}
    kept = {name: value for name, value in ours.items() if name.lower() not in taken}
    return [(name.encode(), value.strip(" \t").encode()) for name, value in {**kept, **users}.items()]


# ----------------------------------------------------------------------------------------------------------- the answer

_HEADERS_KEPT = ("content-type", "etag", "location", "last-modified")
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429})
_JSON = re.compile(r"application/(?:[^;\s]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_EXCERPT = 200  # characters


class _Answer(msgspec.Struct, frozen=True):
    """The answer, its body unpacked."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool

    def masked(self) -> _Answer:
        """Return the answer without the secrets of this run, which a server may send back."""
        masking = secrets_of_run.get().masking
        if not masking:
            return self
        headers = {name: masking.text(value) for name, value in self.headers.items()}
        return _Answer(self.status, headers, masking.content(self.body), self.truncated)

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
        if said := _printable(self.body[: 16 * _EXCERPT].decode("utf-8", "replace")):
            words += f": {said}"
        return TaskFailed("HttpStatus", words, retry=retry, after=after)

    def as_result(self, cap: int) -> dict[str, Any]:
        """The result. A body too large to be kept is cut like one too large to be read: the call itself succeeded."""
        result: dict[str, Any] = {
            "status": self.status,
            "headers": {name: self.headers[name] for name in _HEADERS_KEPT if name in self.headers},
            "body": None,
            "truncated": self.truncated,
        }
        for result["body"] in self._json(cap):
            if len(msgspec.json.encode(result)) <= cap:
                return result
        whole = self.body.decode("utf-8", "replace")
        text = whole[:cap]
        result |= {"body": text, "truncated": self.truncated or len(text) < len(whole)}
        while text and (size := len(msgspec.json.encode(result))) > cap:
            text = text[: len(text) * cap // size]
            result |= {"body": text, "truncated": True}
        return result

    def _json(self, cap: int) -> Iterator[Any]:
        """The body as one JSON value, if it may be kept. A value that may not be kept is never decoded: decoding a
        megabyte of brackets takes longer than any call may block the loop.
        """
        if not self.truncated and _JSON.fullmatch(self.headers.get("content-type", "")):
            with suppress(ValueError, RecursionError):  # else it is text
                compact = msgspec.json.format(self.body, indent=-1)
                if len(compact) <= cap and not too_deep(compact, DEEPEST - 1):  # the result adds one level
                    yield msgspec.json.decode(compact)


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
    """The target of a redirect, without user, query and fragment."""
    return _printable(re.sub(r"//[^/]*@", "//", re.split(r"[?#]", location, maxsplit=1)[0]))


def _printable(text: str) -> str:
    """The beginning of a server's text, on one line: stores and screens accept no control characters."""
    words = " ".join(text[: 4 * _EXCERPT].split())
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in words)[:_EXCERPT]


# ------------------------------------------------------------------------------------------------ posts of oncue's own


class Posted(msgspec.Struct, frozen=True):
    """The answer to a post: its status, how long it asks to wait, and what it says."""

    status: int
    wait: Duration | None
    words: str


class Post:
    """Posts on a user's behalf like the task `http`: the same check of addresses, the same limits, no redirects."""

    def __init__(self, allow: Networks, resolve: Resolve = resolve, clock: Clock | None = None) -> None:
        self.allow = allow
        self._dial = Dial(allow, resolve)
        self._share = LoopShare(clock or SystemClock())

    async def __call__(self, url: CheckedUrl, headers: Mapping[str, str], content: bytes, within: float) -> Posted:
        """Return the answer, whatever its status. TaskFailed: there was none."""
        turns = self._share.turns()
        await turns.begin()
        ours = {"Host": url.authority, "Connection": "close", "Accept-Encoding": "identity"}
        ours |= {"User-Agent": f"oncue/{oncue.__version__}", "Content-Type": "application/json"}
        request = _Request(
            "POST", url, [(name.encode(), value.encode()) for name, value in {**ours, **headers}.items()], content
        )
        try:
            async with asyncio.timeout(within), self._dial.connected(url.host, url.port, turns) as line:
                answer = await _call(line, turns, request, 16 * _EXCERPT)
        except TimeoutError:
            raise TaskFailed("HttpError", f"POST {url.shown}: no answer within {within:.0f} s") from None
        except _FAILURES as failed:
            raise TaskFailed("HttpError", f"POST {url.shown}: {_reason(failed)}") from failed
        finally:
            turns.end()
        return Posted(answer.status, _asked_to_wait(answer.headers), str(answer.as_failure(f"POST {url.shown}")))
