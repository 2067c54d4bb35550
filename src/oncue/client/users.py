"""Calls on users, for administrators."""

from __future__ import annotations

from oncue.client.call import Call, Page, get, model, page_of, path
from oncue.shapes.accounts import ForgottenUser, User


def page(*, limit: int | None = None, page_token: str | None = None) -> Call[Page[User]]:
    """List users with their keys, open jobs and quotas."""
    return get(path("users"), page_of("users", User), limit=limit, page_token=page_token)


def forget(user_id: str) -> Call[ForgottenUser]:
    """Forget a user for good: keys, jobs, runs, dead letters, objects and archived files. It takes a while."""
    return Call(method="DELETE", path=path("users", user_id), parse=model(ForgottenUser), params={"purge": "true"})
