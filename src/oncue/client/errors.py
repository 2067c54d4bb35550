"""Every error the client raises on purpose.

ClientError
├── ServerUnreachable      no answer; the request may or may not have been applied
├── NotOncue               the answer is not from this API: another server has this address
├── WaitTimeout            the run did not end in time; it continues
├── RunFailed              the run that was waited for is dead, cancelled or expired
├── Ambiguous              several jobs, runs or workers match a text; `found` lists them
└── OncueApiError          the server refused; carries the problem from the answer
    ├── BadRequest         the request is not readable                             (400)
    ├── Unauthorized       missing or invalid API key                              (401)
    ├── Forbidden          the key's role does not allow this                      (403)
    ├── NotFound           not found, or owned by another user                     (404)
    ├── Conflict           the object's state does not allow this                  (409)
    ├── Stale              the object changed since it was read: read it again     (412)
    ├── TooLarge           the request is too large                                (413)
    ├── Invalid            readable but wrong; `errors` names each field           (422)
    ├── TooManyRequests    rate limit exceeded; retry after `retry_after` seconds  (429)
    └── Unavailable        the database is unavailable, or a proxy has no server   (502, 503, 504)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from oncue.shapes.lookup import FoundJob, FoundRun, FoundWorker
from oncue.shapes.runs import Run


class FieldProblem(msgspec.Struct, frozen=True):
    """One problem with one field. `path` is dotted, `code` is stable, `message` is for people."""

    path: str = ""
    code: str = ""
    message: str = ""


class ClientError(Exception):
    """The root: `except ClientError` catches every error that the client raises on purpose."""


class ServerUnreachable(ClientError):
    """No answer arrived. Unless `sent` is false, the request may have been applied: check before you repeat it."""

    def __init__(self, url: str, why: str, *, sent: bool) -> None:
        super().__init__(f"No answer from {url}: {why}" if sent else f"No server at {url}: {why}")
        self.url = url
        self.why = why
        self.sent = sent


class NotOncue(ClientError):
    """The answer is not from this API."""


class WaitTimeout(ClientError, TimeoutError):
    """The run did not end in time. It continues: wait again, or cancel it."""


class RunFailed(ClientError):
    """A run that was waited for did not succeed. `run` is the run as it ended, with the methods of a snapshot."""

    def __init__(self, run: Any) -> None:
        ended: Run = run
        why = ": ".join(filter(None, (ended.error_type, ended.error_message)))
        super().__init__(f"Run {ended.run_id} is {ended.status}" + (f": {why}" if why else "."))
        self.run = run
        self.status = ended.status
        self.error_type = ended.error_type


class Ambiguous(ClientError):
    """A text matches several jobs, runs or workers equally well. `found` has up to 5 of them: use the id of one."""

    def __init__(self, given: str, found: Sequence[FoundJob | FoundRun | FoundWorker]) -> None:
        listed = "".join(f"\n{_shown(one)}" for one in found)
        kind = type(found[0]).__name__.removeprefix("Found").lower()
        super().__init__(f"Several {kind}s match {given!r}. Use the id of one, such as:{listed}")
        self.given = given
        self.found = tuple(found)


def _shown(found: FoundJob | FoundRun | FoundWorker) -> str:
    match found:
        case FoundJob():
            words = (found.job_id, found.name or found.key or found.task, found.status)
        case FoundRun():
            words = (found.run_id, found.job_name or found.task, found.status)
        case FoundWorker():
            words = (found.worker_id, found.name, None)
    return "  ".join(str(word) for word in words if word)


class OncueApiError(ClientError):
    """The server refused. The standard members of its problem are attributes; all others are in `members`."""

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
    """The request is not readable."""


class Unauthorized(OncueApiError):
    """Missing or invalid API key."""


class Forbidden(OncueApiError):
    """The key's role does not allow this."""


class NotFound(OncueApiError):
    """Not found, or owned by another user: the two look the same on purpose."""


class Conflict(OncueApiError):
    """The object's state does not allow this. For a run, `members` has its `run_status`."""


class Stale(OncueApiError):
    """The object changed since it was read. Read it again, then decide again."""


class TooLarge(OncueApiError):
    """The request is too large. Send less at a time."""


class Invalid(OncueApiError):
    """Readable but wrong. Nothing was stored; `errors` names each field."""


class TooManyRequests(OncueApiError):
    """Rate limit exceeded. Nothing was done; retry after `retry_after` seconds."""


class Unavailable(OncueApiError):
    """The database is unavailable, or a proxy has no server. The request may or may not have been applied."""


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
