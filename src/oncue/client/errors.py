"""Every error the client raises on purpose.

ClientError
├── ServerUnreachable      no answer came; a change may or may not have been made
├── NotOncue               an answer came, but not one of this API: another server has this address
├── WaitTimeout            what was waited for did not happen in time; it goes on
└── OncueApiError          the server said no; carries the problem it told
    ├── BadRequest         the request cannot be read                              (400)
    ├── Unauthorized       no key, or not a good one                               (401)
    ├── Forbidden          the key's role does not allow it                        (403)
    ├── NotFound           there is no such thing, or it is not yours              (404)
    ├── Conflict           the thing's state does not allow it                     (409)
    ├── Stale              it was changed since it was read: read it again         (412)
    ├── TooLarge           send less at a time                                     (413)
    ├── Invalid            read, but wrong; `errors` names each field              (422)
    ├── TooManyRequests    slower, please; `retry_after` seconds                   (429)
    └── Unavailable        the store is away, or a proxy finds no server           (502, 503, 504)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec


class FieldProblem(msgspec.Struct, frozen=True):
    """One thing wrong with one field. `path` is dotted, `code` is stable, `message` is for people."""

    path: str = ""
    code: str = ""
    message: str = ""


class ClientError(Exception):
    """The root: `except ClientError` catches whatever the client raises on purpose."""


class ServerUnreachable(ClientError):
    """No answer came. Unless `sent` is false, what was asked for may have been done: look before you ask again."""

    def __init__(self, url: str, why: str, *, sent: bool) -> None:
        super().__init__(f"no answer from {url}: {why}" if sent else f"no server at {url}: {why}")
        self.url = url
        self.why = why
        self.sent = sent


class NotOncue(ClientError):
    """An answer came that this API does not give."""


class WaitTimeout(ClientError, TimeoutError):
    """What was waited for did not happen in time. It was not stopped: wait again, or cancel it."""


class OncueApiError(ClientError):
    """The server said no. The members of its problem are attributes; those beyond the usual are in `members`."""

    def __init__(
        self,
        status: int,
        title: str = "",
        detail: str = "",
        errors: tuple[FieldProblem, ...] = (),
        type: str = "about:blank",  # noqa: A002 - the member's name in RFC 9457
        members: Mapping[str, Any] = MappingProxyType({}),
        retry_after: float | None = None,
    ) -> None:
        told = "; ".join(f"{one.path}: {one.message}" if one.path else one.message for one in errors)
        super().__init__(told or detail or title or f"status {status}")
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = errors
        self.type = type
        self.members = members
        self.retry_after = retry_after


class BadRequest(OncueApiError):
    """The request cannot be read."""


class Unauthorized(OncueApiError):
    """No key, or not a good one."""


class Forbidden(OncueApiError):
    """The key's role does not allow it."""


class NotFound(OncueApiError):
    """There is no such thing, or it is not yours: the two look the same on purpose."""


class Conflict(OncueApiError):
    """The thing's state does not allow it. About a run, `members` has its `run_status`."""


class Stale(OncueApiError):
    """It was changed since it was read. Read it again, then decide again."""


class TooLarge(OncueApiError):
    """Send less at a time."""


class Invalid(OncueApiError):
    """Read, but wrong. Nothing was stored; `errors` names each field."""


class TooManyRequests(OncueApiError):
    """Nothing was done. Ask again after `retry_after` seconds."""


class Unavailable(OncueApiError):
    """The store is away, or a proxy finds no server. It may or may not have been done."""


BY_STATUS: Mapping[int, type[OncueApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Stale,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
