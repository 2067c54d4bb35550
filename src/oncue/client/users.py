"""Calls on users, for administrators."""

from __future__ import annotations

from oncue.client.call import Call, model, path
from oncue.shapes.accounts import ForgottenUser


def forget(user_id: str) -> Call[ForgottenUser]:
    """Forget a user for good: keys, jobs, runs, dead letters, objects and archived files. It takes a while."""
    return Call(method="DELETE", path=path("users", user_id), parse=model(ForgottenUser), params={"purge": "true"})
