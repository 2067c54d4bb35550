"""Build answers: JSON, text and problems. Only this file turns an error into a status."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oncue.api.http.connection import write_once
from oncue.api.http.encodings import WORTH_IT, gzipped, taken
from oncue.domain.errors import (
    Conflict,
    Forbidden,
    Invalid,
    KeyReused,
    NotFound,
    NotKept,
    ObjectLost,
    OldPrimary,
    OncueError,
    Problem,
    QuotaExceeded,
    Stale,
    StorageRefused,
    StorageUnavailable,
    StoreRefused,
    StoreUnavailable,
    WritesStalled,
)
from oncue.log import log

ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
JSON = "application/json"
# Answers with one of these stay as they are: a version or a range is one of these very bytes.
AS_IT_IS = frozenset({b"etag", b"accept-ranges", b"content-range", b"content-encoding"})

_encode = msgspec.json.Encoder().encode

AGAIN_SOON = {"Retry-After": "1"}
AGAIN_LATER = {"Retry-After": "10"}
_TITLES = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Content",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Content Too Large",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "Range Not Satisfiable",
}


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


_ALWAYS = _raw(ALWAYS)


class Answer(Response):
    """An answer whose body is complete. It skips the general case's overhead, because every request creates one."""

    def __init__(
        self,
        body: bytes,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.media_type = media_type
        kind, length = (b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body))
        self.raw_headers = [kind, length, *_ALWAYS, *_raw(headers or {})]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) >= WORTH_IT:
            await self._compress(scope)
        if scope["method"] != "HEAD":
            write_once(send)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})

    async def _compress(self, scope: Scope) -> None:
        """Compress JSON that was asked for by somebody who takes that: browsers, and our own client."""
        is_read = scope["method"] in ("GET", "HEAD")  # answers to changes are ids, which hardly get smaller
        if not is_read or self.media_type != JSON or any(name in AS_IT_IS for name, _ in self.raw_headers):
            return
        self.headers["Vary"] = "Accept-Encoding"
        if "gzip" in taken(Headers(scope=scope).get("accept-encoding", "")):
            self.body = await gzipped(bytes(self.body))
            self.headers["Content-Encoding"] = "gzip"
            self.headers["Content-Length"] = str(len(self.body))


def answer(
    value: Any,
    status: HTTPStatus = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
    media_type: str = JSON,
) -> Response:
    return Answer(_encode(value), status, headers, media_type)


def stored_json(value: bytes, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON exactly as it is stored."""
    return Answer(value, status, headers)


def plain_text(value: bytes, headers: Mapping[str, str] | None = None) -> Response:
    return Answer(value, headers=headers, media_type="text/plain; charset=utf-8")


class Refused(OncueError):
    """The server cannot serve this request: `status` says how, the message what to do."""

    def __init__(self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class WrongState(Conflict):
    """A Conflict that names the state of a run, for programs also as the member `run_status`."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


def problem_of(error: Exception, request: Request) -> Response:
    """Build the answer to an exception of a call. Unexpected ones are logged, and the caller learns nothing of them."""
    match error:
        case Invalid():
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), errors=error.problems)
        case Refused():
            return problem(error.status, str(error), error.headers)
        case Forbidden():
            return problem(HTTPStatus.FORBIDDEN, str(error))
        case NotFound():
            return problem(HTTPStatus.NOT_FOUND, "Not found. Check the id; objects of other users also answer 404.")
        case WrongState():
            return problem(HTTPStatus.CONFLICT, str(error), run_status=error.status)
        case Conflict():
            return problem(HTTPStatus.CONFLICT, str(error))
        case Stale():
            return problem(HTTPStatus.PRECONDITION_FAILED, str(error))
        case QuotaExceeded():
            wrong = Problem(error.path, "quota_exceeded", str(error))
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), errors=[wrong])
        case KeyReused():
            wrong = Problem("Idempotency-Key", "key_reused", str(error))
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), errors=[wrong])
        case StoreUnavailable():
            log.warning(
                "The database is unavailable; the caller was asked to retry",
                kind="request_unavailable",
                path=request.url.path,
                why=str(error),
            )
            return _unavailable_problem(error)
        case StorageUnavailable() | StorageRefused() | ObjectLost():
            return _storage_problem(error, request.url.path)
        case StoreRefused():
            path = request.url.path
            log.warning("The database refused a value of a request", kind="request_refused", path=path, exc_info=error)
            message = "The database refused a text or a number in this request. Nothing was stored; change the value."
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, message, errors=[Problem("", "not_storable", message)])
        case ClientDisconnect():
            return problem(HTTPStatus.BAD_REQUEST, "The connection was closed before the request was complete.")
        case _:
            log.error(
                "A request failed", kind="request_failed", method=request.method, path=request.url.path, exc_info=error
            )
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error. The server's log has the details.")


def _unavailable_problem(error: StoreUnavailable) -> Response:
    if isinstance(error, OldPrimary):
        message = (
            "The only database server that answers is an old primary, which another has superseded: an operator has to "
            "start the new one, and rebuild the old one as its replica. Retry in 10 seconds."
        )
        wrong = Problem("", "old_primary", message)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, message, AGAIN_LATER, errors=[wrong])
    what, then = "The database is unavailable", "The request may or may not have been applied; retry in 1 second."
    if isinstance(error, WritesStalled):
        what = f"The database answers, but does not confirm writes: {error.why}"
        if not error.tried:
            then = "Nothing was changed; retry in 1 second."
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, f"{what}. {then}", AGAIN_SOON)


def _storage_problem(error: Exception, path: str) -> Response:
    if isinstance(error, NotKept):
        message = "Object storage was unavailable when the run ended. The result follows if its worker still has it."
        return problem(HTTPStatus.NOT_FOUND, message)
    if isinstance(error, ObjectLost):
        log.error("An object in storage is missing or damaged", kind="object_lost", path=path, why=str(error))
        return problem(HTTPStatus.NOT_FOUND, "This value is no longer in object storage, or is damaged there.")
    log.warning(
        "Object storage is unavailable; the caller was asked to retry",
        kind="request_without_storage",
        path=path,
        why=str(error),
    )
    message = "Object storage, which keeps large values, is unavailable. Nothing was stored; retry later."
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, message, AGAIN_LATER)


def problem(status: HTTPStatus, detail: str, headers: dict[str, str] | None = None, **members: Any) -> Response:
    """Build a problem document. Titles are those of RFC 9110, whatever the Python in use calls them."""
    title = _TITLES.get(status, status.phrase)
    body = {
        "type": "about:blank",
        "title": title,
        "status": status.value,
        "detail": detail[:2_000],
        "errors": [],
        **members,
    }
    return answer(body, status, headers, "application/problem+json")
