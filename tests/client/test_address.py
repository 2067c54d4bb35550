"""Where a client looks for the server and its key."""

from pathlib import Path

import pytest

from oncue.client import AsyncClient, Client
from oncue.client.address import find_address


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("ONCUE_URL", "ONCUE_API_KEY", "ONCUE_DATA_DIR", "ONCUE_CONTEXT"):
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
