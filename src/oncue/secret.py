"""Secrets of a run: values that its payload names and that only its code sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated

import msgspec

from oncue.domain.errors import SecretMissing
from oncue.domain.masking import MASK, Masking
from oncue.domain.secret_refs import NAME


class RunSecrets:
    """The values that one attempt may see, by name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.masking = Masking(values.values())

    def find(self, name: str) -> str:
        try:
            return self.values[name]
        except KeyError:
            raise SecretMissing(f"this attempt has no secret {name!r}") from None


NONE = RunSecrets({})

# Of the run whose code executes; set before its arguments are decoded.
secrets_of_run: ContextVar[RunSecrets] = ContextVar("oncue_secrets", default=NONE)


class Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, eq=False):
    """The name of a secret: the payload has {"secret": "name"}, and the worker finds the value when the run starts."""

    secret: Annotated[str, msgspec.Meta(pattern=NAME, description="The name of the secret, never its value.")]

    def __post_init__(self) -> None:
        self.__dict__["value"] = secrets_of_run.get().find(self.secret)

    @classmethod
    def of(cls, value: str) -> Secret:
        """Make a secret with this value, for tests of a task."""
        with finding(RunSecrets({"given": value})):
            return cls("given")

    @classmethod
    def named(cls, name: str) -> Secret:
        """Name a secret in a call of a task: `charge.enqueue(token=Secret.named("bank"))`. It has no value here."""
        with finding(RunSecrets({name: MASK})):
            return cls(name)

    def reveal(self) -> str:
        """Return the value."""
        value: str = self.__dict__["value"]
        return value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__


def revealed(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


@contextmanager
def finding(secrets: RunSecrets) -> Iterator[None]:
    """Find secrets there within this block."""
    token = secrets_of_run.set(secrets)
    try:
        yield
    finally:
        secrets_of_run.reset(token)


class Asked(dict[str, str]):
    """Has every name, and remembers which were asked for."""

    def __missing__(self, name: str) -> str:
        self[name] = ""
        return ""
