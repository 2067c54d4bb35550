"""Calls on notifications: whom a user wants told, secrets of webhooks, and a test."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_object
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Line, Outcome
from oncue.domain.errors import Invalid, Problem
from oncue.domain.fields import Reader, instant, read_fields, schema_of, takes, text
from oncue.domain.ids import RunId
from oncue.domain.instants import rfc3339
from oncue.domain.notices import trial_notice
from oncue.domain.notify import LONGEST_URL, Entry, NotifyDefault, read_entry, read_notify, refused, show_entries
from oncue.domain.signing import url_hash
from oncue.engines.port import Role


@takes(**schema_of(read_notify)["items"] | {"required": []})
def _entry(raw: Any, path: str) -> Entry:
    return read_entry(raw, path, test=True)


@takes(type="string", minLength=8, maxLength=LONGEST_URL, pattern="^[Hh][Tt][Tt][Pp][Ss]?://")
def _webhook_url(raw: Any, path: str) -> str:
    """Read a URL only as far as to refuse what is none: its secret follows from it as it is written in the entry."""
    url: str = text(LONGEST_URL)(raw, path)
    if not url.lower().startswith(("https://", "http://")):
        raise Invalid.of(path, "bad_url", "must start with https://, and be written as in the entry")
    return url


FIELDS: Mapping[str, Reader] = {"entries": read_notify, "muted_until": instant}
TEST: Mapping[str, Reader] = {"entry": _entry}
URL: Mapping[str, Reader] = {"url": _webhook_url}
NULLABLE = frozenset({"muted_until"})


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return answer(await _shown(api, caller, await api.engine.notices.default(caller.uid)))


async def put(api: Api, request: Request, caller: Caller) -> Outcome:
    """Replace the caller's default as a whole."""
    raw, problems = await read_object(request), list[Problem]()
    found = read_fields(raw, FIELDS, problems, nothing=NULLABLE)
    entries: tuple[Entry, ...] = found.get("entries", ())
    problems += refused(entries, api.intake.notify_policy, "entries", anybody=caller.role is Role.ADMIN)
    if problems:
        raise Invalid(*problems)
    default = NotifyDefault(entries, found.get("muted_until"))
    await api.engine.notices.put_default(caller.uid, default, api.clock.now())
    return Outcome(answer(await _shown(api, caller, default)), (Changed(caller.uid),), Line())


async def test(api: Api, request: Request, caller: Caller) -> Outcome:
    """Send a notice that says only that it arrives, the way of every other."""
    entry: Entry = _required(await read_object(request), TEST)["entry"]
    if problems := refused([entry], api.intake.notify_policy, "entry", anybody=caller.role is Role.ADMIN):
        raise Invalid(*(Problem(one.path.replace("entry.0", "entry", 1), one.code, one.message) for one in problems))
    api.tests.admit(caller.uid)
    now = api.clock.now()
    notice = trial_notice(caller.uid, entry, RunId(api.new_id(now)), now, api.intake.defaults.rate)
    await api.engine.notices.add([notice], now)
    await api.hint_runs(now)
    made = answer({"run_id": notice.run_id}, HTTPStatus.ACCEPTED)
    return Outcome(made, (Changed(caller.uid),), Line({"channel": entry.channel}))


async def secret(api: Api, request: Request, caller: Caller) -> Response:
    return answer(await _secret(api, caller, _url(read_query(request, URL))))


async def rotate(api: Api, request: Request, caller: Caller) -> Outcome:
    """Replace the secret of a URL. For a day both sign."""
    url = _url(_required(await read_object(request), URL))
    await api.engine.notices.rotate(caller.uid, url_hash(url), api.clock.now())
    return Outcome(answer(await _secret(api, caller, url)), (Changed(caller.uid),), Line())


async def _secret(api: Api, caller: Caller, url: str) -> dict[str, Any]:
    newest, *old = await api.derived(caller.uid, url)
    return {"url": url, "secret": newest, "old_secret": old[0] if old else None}


def _url(found: Mapping[str, Any]) -> str:
    if "url" not in found:
        raise Invalid.of("url", "required", "is required: the URL of the webhook, as in its entry")
    url: str = found["url"]
    return url


def _required(raw: dict[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
    problems: list[Problem] = []
    found = read_fields(raw, readers, problems)
    problems += [Problem(name, "required", "is required") for name in readers if name not in raw]
    if problems:
        raise Invalid(*problems)
    return found


async def _shown(api: Api, caller: Caller, default: NotifyDefault) -> dict[str, Any]:
    targets = await api.engine.notices.targets(caller.uid)
    return {
        "entries": show_entries(default.entries),
        "muted_until": None if default.muted_until is None else rfc3339(default.muted_until),
        "targets": [
            {
                "target": one.shown,
                "dead": one.dead,
                "muted_at": None if one.muted_at is None else rfc3339(one.muted_at),
            }
            for one in targets
        ],
    }
