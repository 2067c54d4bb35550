"""Groups of errors: failures that are alike, counted together."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import page, wanted_page
from oncue.api.shared.context import Api
from oncue.domain.error_groups import ErrorGroup
from oncue.domain.errors import Invalid
from oncue.domain.fields import takes
from oncue.domain.fingerprint import OTHER, read_fingerprint, show_fingerprint
from oncue.domain.instants import rfc3339


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    found = await api.engine.errors.groups(caller.sees, wanted.limit, wanted.after)
    letters = await api.engine.errors.open_letters([(one.uid, one.fingerprint) for one in found.items])
    owners = {uid: await api.owner_of(uid, caller) for uid in {one.uid for one in found.items}}
    now = api.clock.now()

    def shown(one: ErrorGroup) -> dict[str, Any]:
        own = one.fingerprint != OTHER
        return {
            "fingerprint": show_fingerprint(one.fingerprint) if own else None,
            "user_id": owners[one.uid],
            "task": one.task if own else None,
            "error_type": one.error_type,
            "sample": one.sample,
            "count": one.count,
            "first_seen": rfc3339(one.first_seen),
            "last_seen": rfc3339(one.last_seen),
            "trend": one.trend(now),
            "open_letters": letters.get((one.uid, one.fingerprint), 0) if own else None,
        }

    return answer(page("errors", found, shown, wanted))


@takes(type="string", pattern="^[0-9a-f]{16}$")
def fingerprint(raw: Any, path: str) -> int:
    """Read a filter by the fingerprint of a group."""
    found = read_fingerprint(raw) if isinstance(raw, str) else None
    if found is None:
        raise Invalid.of(path, "bad_fingerprint", "is 16 hexadecimal digits, as GET /v1/errors shows them")
    return found
