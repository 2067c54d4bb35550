"""Commands against a real server, and against stand-ins."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.standin import Request, Said, Standin, standing_in
from tests.client.server import running
from tests.examples.server import Up

from oncue.cli.main import main

Oncue = Callable[..., Result]
StandIn = Callable[[Callable[[Request], Said]], Standin]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("ONCUE_URL", "ONCUE_API_KEY", "ONCUE_DATA_DIR", "ONCUE_ENGINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def oncue_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("oncue")) as started:
        yield started


@pytest.fixture
def oncue(oncue_up: Up, monkeypatch: pytest.MonkeyPatch) -> Oncue:
    """The command, with the real server named by the environment."""
    monkeypatch.setenv("ONCUE_URL", oncue_up.address)
    monkeypatch.setenv("ONCUE_DATA_DIR", str(oncue_up.key_file.parent))
    return command


def command(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Something that answers in a server's place, named by the environment."""
    with ExitStack() as stack:

        def start(answer: Callable[[Request], Said]) -> Standin:
            standin = stack.enter_context(standing_in(Standin(answer)))
            monkeypatch.setenv("ONCUE_URL", standin.url)
            monkeypatch.setenv("ONCUE_API_KEY", "oc_1")
            return standin

        yield start
