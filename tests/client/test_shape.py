"""What the client is made of: two of one kind, and nothing of the server."""

import inspect
import subprocess
import sys

import pytest

from oncue.client import AsyncClient, Client
from oncue.client import async_client as asynchronous
from oncue.client import client as synchronous

SERVER_PARTS = {"starlette", "uvicorn", "apsw", "asyncpg", "click", "rich", "jsonschema_rs", "uvloop"}
PARTS = [
    "Jobs",
    "Runs",
    "DeadLetters",
    "Bulk",
    "Schedules",
    "Tasks",
    "Queues",
    "Workers",
    "Keys",
    "Users",
    "Notifications",
]


def test_importing_the_client_imports_nothing_of_the_server() -> None:
    script = "import sys, oncue.client; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()
    )

    assert {"httpx2", "msgspec"} <= loaded
    assert loaded & SERVER_PARTS == set()


def test_importing_the_client_imports_little_of_ours() -> None:
    script = "import sys, oncue.client; print(*(name for name in sys.modules if name.startswith('oncue.')))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()

    assert {name.split(".")[1] for name in loaded} <= {
        "client",
        "clock",
        "domain",
        "context",
        "tasks",
        "secret",
        "shapes",
    }


@pytest.mark.parametrize("name", PARTS)
def test_both_clients_have_the_same_parts_with_the_same_calls(name: str) -> None:
    one, other = vars(getattr(synchronous, name)), vars(getattr(asynchronous, name))

    assert [key for key in one if key[0] != "_"] == [key for key in other if key[0] != "_"]
    for call in one.keys() & other.keys():
        if hasattr(one[call], "_build"):
            assert one[call]._build is other[call]._build, call
            assert type(one[call]).__name__ == type(other[call]).__name__, call


def test_both_clients_have_the_same_surface() -> None:
    client, twin = Client("http://oncue"), AsyncClient("http://oncue")
    with client:
        assert [name for name in vars(client) if name[0] != "_"] == [name for name in vars(twin) if name[0] != "_"]
        assert public(Client) == public(AsyncClient)
        for name in ("wait",):
            assert parameters(getattr(synchronous.Runs, name)) == parameters(getattr(asynchronous.Runs, name))
        for name in ("ask", "through", "events", "send", "close"):
            assert parameters(getattr(Client, name)) == parameters(getattr(AsyncClient, name))


def public(kind: type) -> list[str]:
    return [name for name in vars(kind) if name[0] != "_"]


def parameters(function: object) -> list[str]:
    assert callable(function)
    return [str(one) for one in inspect.signature(function).parameters.values()]


def test_help_on_a_call_says_what_it_does() -> None:
    with Client("http://oncue") as client:
        assert "Only `task` is required" in (client.jobs.create.__doc__ or "")
        assert "if_match" in inspect.signature(client.jobs.edit).parameters
