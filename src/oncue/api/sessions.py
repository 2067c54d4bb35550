"""Sessions of browsers: sign in with an API key, look, sign out. Viewers may, too."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_object
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Line, Outcome
from oncue.domain.errors import Conflict, Invalid, Problem
from oncue.domain.fields import Reader, read_fields, text
from oncue.domain.instants import NEVER, Duration, rfc3339
from oncue.domain.keys import ENTROPY, SESSION, key_hash, make_key
from oncue.engines.port import Session

MOST_SESSIONS = 100  # of one key; beyond that the one that would expire first ends
LARGEST_BODY = 16 * 1024  # bytes
LONGEST_KEY = 200  # characters
FIELDS: Mapping[str, Reader] = {"key": text(LONGEST_KEY)}


async def admit(api: Api, request: Request) -> Caller:
    """Return the caller whose key is in the body."""
    api.browsers.check(request, signs_in=True)
    raw = await read_object(request, LARGEST_BODY)
    problems: list[Problem] = []
    found = read_fields(raw, FIELDS, problems)
    if "key" not in raw:
        problems.append(Problem("key", "required", "is the API key to sign in with"))
    if problems:
        raise Invalid(*problems)
    return await api.keyring.admit_key(found["key"])


async def create(api: Api, request: Request, caller: Caller) -> Outcome:
    """Open a session with the rights of the caller's key. Its secret is in the cookie only."""
    now, token = api.clock.now(), make_key(secrets.token_bytes(ENTROPY), SESSION)
    session = Session(key_hash(token), caller.key_id, now, api.last_uses.end_of(now))
    await api.engine.sessions.open(session, MOST_SESSIONS)
    ends = min(session.expires_at, NEVER if caller.expires_at is None else caller.expires_at)
    signed_in = replace(caller, session=session, expires_at=ends)
    headers = {"Set-Cookie": api.browsers.cookie(request, token, api.settings.session_lifetime)}
    return Outcome(answer(_shown(signed_in), HTTPStatus.CREATED, headers), (), Line())


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return answer(_shown(caller))


async def end(api: Api, request: Request, caller: Caller) -> Outcome:
    if caller.session is None:
        raise Conflict("This request has an API key and no session. To end the key, an administrator revokes it.")
    await api.engine.sessions.end(caller.session.session_hash)
    api.keyring.forget_session(caller.session)
    headers = {"Set-Cookie": api.browsers.cookie(request, "", Duration(0))}
    ended = replace(caller, expires_at=api.clock.now())
    return Outcome(answer(_shown(ended), headers=headers), (), Line())


def _shown(caller: Caller) -> dict[str, Any]:
    return {
        "user_id": caller.user_id,
        "role": caller.role,
        "key_id": caller.key_id,
        "created_at": None if caller.session is None else rfc3339(caller.session.created_at),
        "expires_at": None if caller.expires_at is None else rfc3339(caller.expires_at),
    }
