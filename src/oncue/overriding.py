"""What takes the calls of a program instead of a server while one of its tests runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncue.client import AsyncClient, Client


class Override(Protocol):
    """Takes the calls of every handle of a `Tasks`, whatever client it would use."""

    @property
    def fixture(self) -> str:
        """The name by which tests ask for it."""

    @property
    def client(self) -> Client: ...

    @property
    def async_client(self) -> AsyncClient: ...


_in_use: list[Override] = []


@contextmanager
def overriding(one: Override) -> Iterator[None]:
    """Let no client of this process call the server of the environment during the block."""
    _in_use.append(one)
    try:
        yield
    finally:
        _in_use.remove(one)


def override_in_use() -> Override | None:
    """Return that of the innermost block."""
    return _in_use[-1] if _in_use else None


def keep_inside(url: str | None) -> None:
    """Refuse a client of the environment, which was given no address. RuntimeError: a test must not leave its process.

    A client asks this before each request: it may have been created before the test.
    """
    if not url and _in_use:
        fixture = _in_use[-1].fixture
        raise RuntimeError(
            f"{fixture} is in use, so no client may call the server of the environment. Use `tasks.connected()` or "
            f"{fixture}.client, pass `url=`, or add the module of the task that is enqueued to `oncue_tasks`."
        )
