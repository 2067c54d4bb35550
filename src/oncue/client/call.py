"""A call as a value: what to send, how to read the answer, and whether it is safe to repeat. No network here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import msgspec

from oncue.client.errors import BY_STATUS, FieldProblem, NotOncue, OncueApiError
from oncue.client.html import table_of_all
from oncue.domain.errors import Invalid as Refused
from oncue.domain.instants import SECOND, parse_duration
from oncue.domain.plain_json import is_not_finite

T = TypeVar("T")
Parse = Callable[["Answer"], T]
Id = UUID | str
TimeLimit = str | timedelta | float

IDEMPOTENCY_KEY = "Idempotency-Key"
_PRINTABLE = re.compile("[ -~]{1,255}")
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_PROBLEM = frozenset({"type", "title", "status", "detail", "errors"})


class Answer(msgspec.Struct, frozen=True):
    """The response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """Return the seconds of Retry-After; a date is ignored."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdecimal() else None


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    method: str
    path: str
    parse: Parse[T]
    params: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    reads: bool = False
    """It changes nothing, whatever its method."""
    removes: bool = False
    """It removes an object: repeated after success, it is answered with 404."""
    timeout: float | None = None
    """Time limit of its answer in seconds; None: the client's default."""

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice has the same effect as once."""
        return self.reads or self.method in _REPEATABLE or IDEMPOTENCY_KEY in self.headers

    @property
    def changes(self) -> bool:
        return not (self.reads or self.method == "GET" or self.params.get("dry_run") == "true")

    def plain(self) -> Call[Any]:
        """Return the same call with the plain JSON of its answer as the result."""
        return msgspec.structs.replace(self, parse=anything)

    def read(self, answer: Answer) -> T:
        """Decode the answer, or raise the error it stands for."""
        if not 200 <= answer.status < 300:
            raise _error(answer)
        try:
            return self.parse(answer)
        except msgspec.MsgspecError as unreadable:
            message = f"The answer to {self.method} {self.path} is not from an oncue server: {unreadable}"
            raise NotOncue(message) from None


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list. It may be short, even empty, while the token says that there is more."""

    items: tuple[T, ...]
    next_page_token: str | None = None
    looked_back_to: datetime | None = None
    """how far a filter looked that left this page short"""

    def _repr_html_(self) -> str:
        return table_of_all(self.items)


def following(call: Call[Page[T]], token: str) -> Call[Page[T]]:
    """Return the call for the next page, after the one that had this token."""
    return msgspec.structs.replace(call, params={**call.params, "page_token": token})


# ----------------------------------------------------------------------------------------------------- building calls


def path(*parts: Id) -> str:
    """Build a path: `path("jobs", "a/b", "runs")` is `/v1/jobs/a%2Fb/runs`."""
    texts = [str(part) for part in parts]
    for part in texts:
        if part in ("", ".", ".."):
            raise ValueError(f"{part!r} is not a valid id or name")
    return "/".join(["/v1", *(quote(part, safe="") for part in texts)])


def get(where: str, parse: Parse[T], **params: Any) -> Call[T]:
    return Call(method="GET", path=where, parse=parse, params=_params(params))


def make(where: str, parse: Parse[T], body: Any = None, idempotency_key: str | None = None) -> Call[T]:
    """Build a POST that creates an object. Retries send the same idempotency key, so that it creates one only."""
    key = str(uuid4()) if idempotency_key is None else idempotency_key
    if not isinstance(key, str) or not _PRINTABLE.fullmatch(key):
        raise ValueError(f"idempotency_key {key!r:.80} must be a text of 1 to 255 printable ASCII characters")
    return change("POST", where, parse, body, {IDEMPOTENCY_KEY: key})


def change(
    method: str, where: str, parse: Parse[T], body: Any = None, headers: Mapping[str, str] | None = None
) -> Call[T]:
    sent = None if body is None else msgspec.json.encode(body, enc_hook=_plain)
    if sent is not None and b"null" in sent and is_not_finite(body):
        raise ValueError("a number is NaN or infinite, which JSON does not have; send None or a text instead")
    return Call(method=method, path=where, parse=parse, headers=headers or {}, body=sent)


def _plain(value: Any) -> Any:
    """Encode what JSON has no form for: a time zone, by its name."""
    if isinstance(value, ZoneInfo) and value.key:
        return value.key
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


def _params(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: _param(name, value) for name, value in given.items() if value is not None}


def _param(name: str, value: Any) -> str:
    if isinstance(value, timedelta):
        return str(msgspec.to_builtins(value))
    if not isinstance(value, datetime):
        return str(value)
    if value.tzinfo is None:
        raise ValueError(f"{name} needs a time zone: datetime(…, tzinfo=UTC)")
    return value.isoformat()


def seconds_of(limit: TimeLimit) -> float:
    """Read a time limit: "5m", a timedelta, or seconds. ValueError: it is none."""
    match limit:
        case timedelta():
            return limit.total_seconds()
        case str():
            try:
                return parse_duration(limit) / SECOND
            except Refused as wrong:
                raise ValueError(f"timeout: {wrong.problems[0].message}") from None
        case _:
            return limit


def given(**fields: Any) -> dict[str, Any] | None:
    """Build a body of the fields that are not None; None: of none."""
    return {name: value for name, value in fields.items() if value is not None} or None


# --------------------------------------------------------------------------------------------------- reading answers


def model(kind: type[T]) -> Parse[T]:
    decoder = msgspec.json.Decoder(kind)
    return lambda answer: decoder.decode(answer.body)


def field(name: str, kind: type[T]) -> Parse[T]:
    """Read one member of the answer's object."""
    return lambda answer: msgspec.convert(_member(_object(answer), name), kind)


def page_of(name: str, kind: type[T]) -> Parse[Page[T]]:
    items: type[tuple[T, ...]] = tuple[kind, ...]  # type: ignore[valid-type]  # the class is known when this is called

    def parse(answer: Answer) -> Page[T]:
        found = _object(answer)
        looked_to = msgspec.convert(found.get("looked_back_to"), datetime | None)
        return Page(msgspec.convert(_member(found, name), items), found.get("next_page_token"), looked_to)

    return parse


def anything(answer: Answer) -> Any:
    return msgspec.json.decode(answer.body)


def text(answer: Answer) -> str:
    return answer.body.decode(errors="replace")


def nothing(answer: Answer) -> None:
    """Ignore the body of the answer."""


def _object(answer: Answer) -> dict[str, Any]:
    return msgspec.json.decode(answer.body, type=dict[str, Any])


def _member(found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise msgspec.ValidationError(f"the field {name!r} is missing")
    return found[name]


class _Problem(msgspec.Struct):
    type: str = "about:blank"
    title: str = ""
    detail: str = ""
    errors: tuple[FieldProblem, ...] = ()


def _error(answer: Answer) -> OncueApiError:
    """Build the error of a refusal. A proxy's page has no problem object: then only the status is known."""
    try:
        told = msgspec.json.decode(answer.body, type=_Problem)
        members = _object(answer)
    except msgspec.MsgspecError:
        told, members = _Problem(), {}
    return BY_STATUS.get(answer.status, OncueApiError)(
        answer.status,
        told.title or _phrase(answer.status),
        told.detail,
        told.errors,
        told.type,
        {name: value for name, value in members.items() if name not in _PROBLEM},
        answer.retry_after,
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"status {status}"
