"""Calls on API keys. All but `mine` are for administrators: routes.py says so."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from uuid import UUID

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import path_id, read_object
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import idempotent
from oncue.api.shared.outcome import Changed, Interrupted, Line, Outcome, unchanged
from oncue.domain.definition import USUAL
from oncue.domain.errors import Conflict, Invalid, NotFound, Problem, StoreUnavailable
from oncue.domain.fields import Reader, choice, duration, read_fields, text
from oncue.domain.ids import KeyId
from oncue.domain.instants import SECOND, date_of, rfc3339
from oncue.engines.new_keys import new_key
from oncue.engines.port import Key, Revoked, Role
from oncue.log import log

ROLES = {role.value: role for role in Role}
LONGEST_NOTE = 200  # characters
REQUIRED = ("user_id", "role")
NULLABLE = frozenset({"note", "expires_in"})
FIELDS: Mapping[str, Reader] = {
    "user_id": text(USUAL.name),
    "role": choice(ROLES),
    "note": text(LONGEST_NOTE),
    "expires_in": duration(SECOND),
}


async def create(api: Api, request: Request, caller: Caller) -> Outcome:
    """Create a key of a user, and the user if it is new. The secret is shown only once."""
    raw = await read_object(request)
    asked = read_key(raw)
    user_id, role = asked["user_id"], asked["role"]

    async def make(made: UUID) -> Outcome:
        secret, key = await new_key(api.engine, api.clock, user_id, role, asked.get("note"), asked.get("expires_in"))
        key = replace(key, key_id=KeyId(made))
        await api.engine.accounts.add_key(key)
        if await api.engine.accounts.key(key.key_hash) is None:
            raise Conflict(
                f"This request already created key {key.key_id}, and its secret was shown only once."
                " Revoke that key, then create another one with a new Idempotency-Key."
            )
        headers = {"Location": f"/v1/keys/{key.key_id}"}
        made_key = answer({**_shown(key), "key": secret}, HTTPStatus.CREATED, headers)
        return Outcome(made_key, (Changed(caller.uid),), Line({"user_id": user_id, "role": role}))

    return await idempotent(api, request, caller, raw, make, kept=False)


async def mine(api: Api, request: Request, caller: Caller) -> Response:
    return answer({"user_id": caller.user_id, "role": caller.role, "key_id": caller.key_id})


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return answer({"keys": [_shown(key) for key in await api.engine.accounts.keys()]})


async def revoke(api: Api, request: Request, caller: Caller) -> Outcome:
    """Revoke a key. Conflict: it is the last valid admin key."""
    key_id, now = KeyId(path_id(request)), api.clock.now()
    key = next((one for one in await api.engine.accounts.keys() if one.key_id == key_id), None)
    if key is None:
        raise NotFound
    line = Line({"user_id": key.user_id, "role": key.role})
    try:
        revoked = await api.engine.accounts.revoke(key_id, now)
    except StoreUnavailable as error:
        raise Interrupted(error, (), line) from error
    if revoked is Revoked.LAST_ADMIN:
        raise Conflict("This is the last valid admin key. Create another admin key first.")
    api.keyring.forget(key)
    if key.revoked_at is not None:
        return unchanged(answer(_shown(key)))
    log.info("A key was revoked", kind="key_revoked", key_id=str(key_id), user_id=key.user_id, by=caller.user_id)
    shown = answer({**_shown(key), "revoked_at": rfc3339(now)})
    return Outcome(shown, (Changed(caller.uid),), line)


def read_key(raw: dict[str, Any]) -> dict[str, Any]:
    """Read the fields of a new key. Invalid: all that are wrong."""
    problems: list[Problem] = []
    found = read_fields(raw, FIELDS, problems, nothing=NULLABLE)
    if "user_id" not in raw:
        problems.append(Problem("user_id", "required", "name the user of the key; a new user is created"))
    if "role" not in raw:
        problems.append(Problem("role", "required", f"choose one of {', '.join(ROLES)}"))
    if problems:
        raise Invalid(*problems)
    return found


def _shown(key: Key) -> dict[str, Any]:
    return {
        "key_id": key.key_id,
        "user_id": key.user_id,
        "role": key.role,
        "created_at": rfc3339(key.created_at),
        "expires_at": None if key.expires_at is None else rfc3339(key.expires_at),
        "revoked_at": None if key.revoked_at is None else rfc3339(key.revoked_at),
        "note": key.note,
        "last_used_on": None if key.last_used_on is None else date_of(key.last_used_on),
    }
