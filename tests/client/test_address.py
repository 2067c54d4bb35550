"""Where a client looks for the server and its key."""

import os
import threading
from pathlib import Path

import pytest

from oncue import local_server
from oncue.client import AsyncClient, Client
from oncue.client.address import find_address
from oncue.client.contexts import Context, Contexts, write_contexts
from oncue.local_server import LocalServer, announced, data_dir, local_servers


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("ONCUE_URL", "ONCUE_API_KEY", "ONCUE_DATA_DIR", "ONCUE_CONTEXT", "ONCUE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def put_key(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "admin.key").write_text(f"{text}\n")


def test_what_is_given_comes_first_then_the_environment_then_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (find_address().url, find_address().key) == ("http://127.0.0.1:8470", None)

    monkeypatch.setenv("ONCUE_URL", "https://jobs.example.org/")
    monkeypatch.setenv("ONCUE_API_KEY", "oc_env\n")
    assert (find_address().url, find_address().key) == ("https://jobs.example.org", "oc_env")

    assert find_address("http://10.0.0.1/v1/").url == "http://10.0.0.1"  # as examples for curl have it
    given = find_address("http://10.0.0.1", "oc_given")
    assert (given.url, given.key) == ("http://10.0.0.1", "oc_given")


def test_the_key_of_a_server_started_here_is_found(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_key(elsewhere / ".oncue", "oc_usual")
    put_key(elsewhere / "data", "oc_data")

    assert find_address().key == "oc_usual"
    monkeypatch.setenv("ONCUE_DATA_DIR", "data")
    assert find_address().key == "oc_data"
    monkeypatch.setenv("ONCUE_API_KEY", "oc_env")
    assert find_address().key == "oc_env"


def test_the_key_of_a_folder_is_sent_to_its_running_server_only(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_key(elsewhere / ".oncue", "oc_usual")
    before = find_address("http://127.0.0.1:8485")  # a program may start before its server
    assert before.key_now() is None

    with (
        announced(elsewhere / ".oncue", "http://0.0.0.0:8485", ""),
        announced(elsewhere / ".oncue", "http://[::]:1", ""),
    ):
        sent = {
            url: find_address(url).key_now()
            for url in ("http://localhost:8485", "http://[::1]:1", "http://127.0.0.1:1")
        }
        assert sent == {"http://localhost:8485": "oc_usual", "http://[::1]:1": "oc_usual", "http://127.0.0.1:1": None}
        assert (find_address().url, before.key_now()) == ("http://[::1]:1", "oc_usual")
    assert (find_address().url, before.key_now()) == ("http://[::1]:1", None)
    with pytest.raises(ConnectionError, match="does not run here"):
        find_address().key_now()

    with announced(elsewhere / ".oncue", "http://127.0.0.1:2", ""):
        assert [one.url for one in local_servers(elsewhere / ".oncue")] == ["http://127.0.0.1:2"]
        before = find_address()
        monkeypatch.chdir("/")  # as daemons do
        assert before.key_now() == "oc_usual"


def test_a_folder_from_elsewhere_leads_nowhere(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may be shared with a container or another machine, or come with a stranger's file in it."""
    monkeypatch.setenv("ONCUE_API_KEY", "oc_env")
    folder = elsewhere / ".oncue"
    folder.mkdir()
    with announced(folder, "http://192.0.2.1:8485", ""):
        [file] = folder.glob("address.*")
        assert find_address().url == "http://192.0.2.1:8485"
        with monkeypatch.context() as another:
            another.setattr(local_server, "_place", lambda: "boot 1")
            assert find_address().url == "http://127.0.0.1:8470"
            another.setattr(local_server, "_place", lambda: "- -")
            assert find_address().url == "http://192.0.2.1:8485"
            another.setattr(local_server, "_place", lambda: "- 1")
            another.delenv("ONCUE_API_KEY")
            found = find_address()
            assert found.url == "http://127.0.0.1:8470"
            with pytest.raises(ConnectionError):
                found.key_now()
        with monkeypatch.context() as another:
            another.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
            assert find_address().url == "http://127.0.0.1:8470"
    assert find_address().url == "http://127.0.0.1:8470"


def test_an_address_that_somebody_else_put_into_a_folder_gets_no_key(elsewhere: Path) -> None:
    """Root reads what others wrote, and a link leads to a file of the right owner."""
    put_key(elsewhere / ".oncue", "oc_usual")
    (elsewhere / "other").mkdir()
    with announced(elsewhere / "other", "http://127.0.0.1:3", ""):
        [other] = (elsewhere / "other").glob("address.*")
        (elsewhere / ".oncue" / other.name).symlink_to(other)
        assert local_servers(elsewhere / ".oncue") == []
    if os.geteuid():
        return
    with announced(elsewhere / ".oncue", "http://127.0.0.1:4", ""):
        file = next(one for one in (elsewhere / ".oncue").glob("address.*") if not one.is_symlink())
        os.chown(file, 65534, -1)
        assert find_address().url == "http://127.0.0.1:8470"
        assert find_address("http://127.0.0.1:4").key_now() is None
        os.chown(file.parent, 65534, -1)  # a service's folder, in which root looks
        assert find_address("http://127.0.0.1:4").key_now() == "oc_usual"


def test_whatever_else_is_in_a_folder_hinders_neither_its_clients_nor_its_server(elsewhere: Path) -> None:
    folder = elsewhere / ".oncue"
    folder.mkdir(exist_ok=True)
    (folder / "address.url").write_text("http://[\nsqlite\n- -\n")
    (folder / "address.folder").mkdir()
    os.mkfifo(folder / "address.pipe")
    assert local_servers(folder) == []

    found: list[list[LocalServer]] = []

    def serve() -> None:
        with announced(folder, "http://127.0.0.1:5", ""):
            found.append(local_servers(folder))

    server = threading.Thread(target=serve, daemon=True)  # which a pipe would hold for ever
    server.start()
    server.join(60)
    assert [one.url for one in found[0]] == ["http://127.0.0.1:5"]


def test_a_program_uses_a_context_by_name_only(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_contexts(Contexts("prod", {"prod": Context("https://prod.example", "oc_prod")}, noted=True))
    with pytest.raises(
        ValueError, match=r"no server runs in this folder .* set ONCUE_CONTEXT=prod or pass context='prod'"
    ):
        find_address()
    assert find_address("https://prod.example").key == find_address(context="prod").key == "oc_prod"
    assert find_address("https://elsewhere.example", context="prod").key is None

    put_key(elsewhere / ".oncue", "oc_usual")
    with announced(elsewhere / ".oncue", "http://127.0.0.1:2", ""):
        assert (find_address().url, find_address().key_now()) == ("http://127.0.0.1:2", "oc_usual")
        monkeypatch.setenv("ONCUE_CONTEXT", "prod")
        assert (find_address().url, find_address().key_now()) == ("https://prod.example", "oc_prod")


def test_the_data_directory_is_that_of_a_server_started_here(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_dir() == Path(".oncue")
    (elsewhere / "pyproject.toml").write_text('[tool.oncue]\ndata_dir = "of-the-project"\n')
    assert data_dir() == Path("of-the-project")
    (elsewhere / "oncue.toml").write_text('engine = "${NOT_SET}"\ndata_dir = "${PLACE}/data"\n')
    with pytest.raises(ValueError, match=r"data_dir in oncue.toml: the environment variable PLACE is not set"):
        find_address()
    assert find_address("http://127.0.0.1:1").url == "http://127.0.0.1:1"  # which needs no settings
    monkeypatch.setenv("PLACE", "/srv")
    assert data_dir() == Path("/srv/data")
    (elsewhere / "other.toml").write_text("data_dir = 1\n")
    monkeypatch.setenv("ONCUE_CONFIG", "other.toml")
    with pytest.raises(ValueError, match=r"data_dir in other.toml: is no folder"):
        data_dir()
    monkeypatch.setenv("ONCUE_DATA_DIR", "given")
    assert data_dir() == Path("given")


def test_a_folder_that_cannot_be_written_is_told(elsewhere: Path) -> None:
    with announced(elsewhere / "missing", "http://127.0.0.1:2", "") as why:
        assert why == "No such file or directory"


@pytest.mark.parametrize(
    "url", ["http://jobs.example.org", "http://127.0.0.1.example.org", "http://localhost.evil.org"]
)
def test_the_local_key_is_never_sent_to_another_machine(elsewhere: Path, url: str) -> None:
    put_key(elsewhere / ".oncue", "oc_usual")

    assert find_address(url).key is None


@pytest.mark.parametrize("start", ["http://ada:", "https://", "ada:"])
def test_a_password_in_the_address_is_refused_and_not_repeated(start: str) -> None:
    with pytest.raises(ValueError, match="must not have a user or password") as no:
        find_address(f"{start}SEKRIT@127.0.0.1:8470")

    assert "SEKRIT" not in str(no.value)


@pytest.mark.parametrize("url", ["localhost:8470", "ftp://localhost", "/v1", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a server"):
        find_address(url)


def test_keys_are_not_in_what_is_printed_of_an_address() -> None:
    assert "oc_secret" not in repr(find_address(key="oc_secret"))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_nothing_for_this_machine_goes_over_a_proxy(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    assert kind("http://127.0.0.1:8470")._http.trust_env is False
    assert kind("http://jobs.example.org")._http.trust_env is True
