"""Calls on users, for administrators: routes.py says so."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import structlog
from starlette.requests import Request

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Line, Outcome
from oncue.domain.errors import Conflict, Invalid, NotFound
from oncue.domain.fields import Reader, choice
from oncue.engines.port import Revoked

log = structlog.get_logger()

PARAMETERS: Mapping[str, Reader] = {"purge": choice({"true": True})}


async def forget(api: Api, request: Request, caller: Caller) -> Outcome:
    """Forget a user for good. Schedulers do it: what is left after this answer is a note, and no valid key."""
    if not read_query(request, PARAMETERS).get("purge"):
        raise Invalid.of(
            "purge", "required", "write ?purge=true: all jobs, runs and files of the user are deleted and cannot return"
        )
    user_id = request.path_params["user_id"]
    uid = await api.engine.forgetting.begin(user_id, api.clock.now())
    if uid is Revoked.LAST_ADMIN:
        raise Conflict("This user has the last valid admin key. Create another admin key first.")
    if isinstance(uid, Revoked):
        raise NotFound
    log.info("A user is being forgotten", kind="user_forgetting", user=uid, by=caller.user_id)
    return Outcome(answer({"user_id": user_id, "number": uid}, HTTPStatus.ACCEPTED), (Changed(uid),), Line())
