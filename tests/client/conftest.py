"""Both clients, on a stand-in for the wire and on a real server."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.client.both import Awaiting, Blocking, Either, Pauses, Wire
from tests.client.server import running
from tests.examples.server import Up

Connect = Callable[..., Either]


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture(params=[Blocking, Awaiting])
def connect(request: pytest.FixtureRequest, pauses: Pauses) -> Iterator[Connect]:
    """Makes a client; on a `Wire` if one is given, else on the network."""
    made: list[Either] = []

    def open_one(wire: Wire | None = None, url: str = "http://oncue", key: str = "oc_1", **options: Any) -> Either:
        transport = None if wire is None else httpx2.MockTransport(wire)
        made.append(request.param(pauses, url=url, key=key, transport=transport, **options))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def oncue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("oncue")) as server:
        yield server
