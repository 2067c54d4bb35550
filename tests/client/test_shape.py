"""What the client is made of: two of one kind, and nothing of the server."""

import inspect
import subprocess
import sys

from oncue.client import AsyncClient, AsyncJob, AsyncRun, Client, Job, Run

SERVER_PARTS = {"starlette", "uvicorn", "apsw", "asyncpg", "click", "rich", "jsonschema_rs", "uvloop"}


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
        "local_server",
        "overriding",
        "settings_file",
        "tasks",
        "secret",
        "shapes",
    }


def test_both_clients_have_the_same_surface() -> None:
    client, twin = Client("http://oncue"), AsyncClient("http://oncue")
    with client:
        assert [name for name in vars(client) if name[0] != "_"] == [name for name in vars(twin) if name[0] != "_"]
        assert public(Client) == public(AsyncClient)
        assert public(Run) == public(AsyncRun)
        assert public(Job) == public(AsyncJob) == []
        for name in ("ask", "bound", "stream", "events", "send", "close"):
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
