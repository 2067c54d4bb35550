"""Names of secrets: how a payload names one instead of holding its value, and who may use which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from oncue.domain.errors import Problem

KEY = "secret"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
HOW = 'name a secret, like {"secret": "crm-token"}'
SHARED = "shared"  # the folder of secrets for more than one user: no user has it as their own

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SecretAccess(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose secrets the runs of a job may use. The API decides, by the key that wrote the payload: design/0025."""

    user_id: str
    shared: bool = False  # also those for all users: in the folder `shared`, and in the worker's environment


def is_name(text: str) -> bool:
    """Whether this may be the name of a secret: also safe as the name of a file, and without a folder in it."""
    return _NAME.fullmatch(text) is not None


def own_folder(user_id: str) -> str | None:
    """Return the folder of a user's own secrets. None: this user has none, because the id is no safe name."""
    return user_id if is_name(user_id) and user_id.lower() != SHARED else None


def variable(name: str) -> str:
    """Return the environment variable that holds a secret."""
    return "ONCUE_SECRET_" + re.sub("[.-]", "_", name).upper()


def filled(value: Any, find: Callable[[str], str]) -> Any:
    """Return a JSON value with the secrets that it names. An object with other fields beside `secret` is data."""
    match value:
        case {"secret": str(name), **rest} if not rest:
            return find(name)
        case dict():
            return {field: filled(one, find) for field, one in value.items()}
        case list():
            return [filled(one, find) for one in value]
        case _:
            return value


def may_name_any(payload: bytes | None) -> bool:
    """Whether a stored payload may name a secret; some that do not look as if they did."""
    return payload is not None and b'{"secret":"' in payload


def misnamed(value: Any, path: str) -> Iterator[Problem]:
    """Return what is wrong with the names of secrets inside a JSON value, where other objects are data."""
    match value:
        case {"secret": _, **rest} if not rest:
            yield from problems_of(value, path)
        case dict():
            for field, one in value.items():
                yield from misnamed(one, f"{path}.{field}")
        case list():
            for index, one in enumerate(value):
                yield from misnamed(one, f"{path}.{index}")


def problems_of(value: Any, path: str) -> Iterator[Problem]:
    """Return what is wrong with this reference, where nothing else may stand."""
    match value:
        case {"secret": str(name), **rest} if not rest:
            if not is_name(name):
                message = (
                    "is not the name of a secret: 1 to 100 letters, digits, '.', '_' or '-', a letter or digit first"
                )
                yield Problem(f"{path}.secret", "bad_secret_name", message)
        case {"secret": str(), **rest}:
            yield Problem(path, "bad_secret", f"has more fields than secret; {HOW}")
        case _:
            yield Problem(path, "bad_secret", f"is not a string and names no secret; {HOW}")
