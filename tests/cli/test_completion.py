"""What a shell completes, and that it never waits or prints an error for it."""

import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem
from tests.cli.conftest import StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import ONCUE

from oncue.cli.completing import job_names, queue_names, run_names, task_names, worker_names
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND, Duration
from oncue.testing.clock import FakeClock

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
PARAMETER = click.Argument(["job"])
JOB = {"job_id": "01990000-0000-7000-8000-0000abcd0001", "task": "hello", "status": "active"}


def answer(request: Request) -> Said:
    match request.parts:
        case ["lookup"]:
            named = [{**JOB, "name": "greeting"}, {**JOB, "name": "greet me; rm -rf /"}, {**JOB, "key": "greet-2"}]
            return 200, {"jobs": [{**one, "match": "prefix"} for one in named]}
        case ["runs"]:
            return 200, {"runs": [{**JOB, "run_id": JOB["job_id"]}], "next_page_token": None}
    names = {"tasks": [{"name": "hello"}], "queues": [{"name": "mail"}]}
    return 200, {
        **names,
        "workers": [{"worker_id": JOB["job_id"], "name": "box:1"}, {"worker_id": JOB["job_id"], "name": "box-2"}],
    }


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def words(complete: Complete, begun: str = "", clock: FakeClock | None = None) -> list[str]:
    return [item.value for item in complete(click.Context(click.Command("x"), obj=clock), PARAMETER, begun)]


@pytest.mark.parametrize(
    ("complete", "begun", "found"),
    [
        (job_names, "gre", ["greeting", "greet-2"]),
        (run_names, "abcd", ["abcd0001"]),
        (run_names, "gre", ["greeting", "greet-2"]),
        (task_names, "h", ["hello"]),
        (task_names, "x", []),
        (queue_names, "", ["mail"]),
        (worker_names, "box", ["box-2"]),
    ],
)
def test_names_are_asked_for_and_only_typeable_ones_are_offered(
    stand_in: StandIn, complete: Complete, begun: str, found: list[str]
) -> None:
    stand_in(answer)

    assert words(complete, begun) == found


def test_statuses_are_completed_after_a_comma_too() -> None:
    asked = {"_ONCUE_COMPLETE": "bash_complete", "COMP_WORDS": "oncue runs list --status dead,ca", "COMP_CWORD": "4"}

    answered = subprocess.run([ONCUE], env={**os.environ, **asked}, capture_output=True, text=True)

    assert answered.stdout.split() == ["plain,dead,cancelling", "plain,dead,cancelled"]


async def test_an_answer_is_used_again_for_ten_seconds_and_is_private(stand_in: StandIn, home: Path) -> None:
    server, clock = stand_in(answer), FakeClock()

    for _ in range(2):
        assert words(job_names, "gre", clock) == ["greeting", "greet-2"]
    assert len(server.requests) == 1
    [kept] = (home / ".cache" / "oncue").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    words(job_names, "gree", clock)
    assert len(server.requests) == 2
    await clock.advance(Duration(10 * SECOND))
    words(job_names, "gree", clock)
    assert len(server.requests) == 3


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    with socket.create_server(("127.0.0.1", 0)) as door:  # it accepts, and says nothing
        monkeypatch.setenv("ONCUE_URL", f"http://127.0.0.1:{door.getsockname()[1]}")
        begun = clock.monotonic()
        assert words(job_names, "gre") == []
        assert clock.monotonic() - begun < 3 * SECOND


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1:1"])
def test_nothing_is_printed_whatever_goes_wrong(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    asked = {"_ONCUE_COMPLETE": "bash_complete", "COMP_WORDS": "oncue jobs show gre", "COMP_CWORD": "3"}

    answered = subprocess.run([ONCUE], env={**os.environ, **asked, "ONCUE_URL": url}, capture_output=True, text=True)

    assert (answered.stdout.strip(), answered.stderr) == ("", "")


def test_installing_twice_loads_it_once_and_keeps_the_rest(home: Path) -> None:
    (home / ".bashrc").write_text("export EDITOR=vi")

    for _ in range(2):
        assert command("completion", "install", "bash").exit_code == 0

    script = home / ".local/share/oncue/completion.bash"
    assert "_ONCUE_COMPLETE=bash_complete" in script.read_text()
    assert (home / ".bashrc").read_text() == f"export EDITOR=vi\n. '{script}'  # completion of oncue\n"
    assert command("completion", "install", "fish").stdout.startswith(
        f"Installed {home}/.config/fish/completions/oncue"
    )
    assert "_ONCUE_COMPLETE=zsh_complete" in command("completion", "show", "zsh").stdout


def test_the_shell_is_that_of_the_user_unless_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/zsh")
    assert "open a new zsh" in command("completion", "install").stdout.lower()
    monkeypatch.setenv("SHELL", "/bin/ksh")
    refused = command("completion", "install")
    assert (refused.exit_code, "SHELL is ksh. Name one of bash, zsh, fish." in refused.stderr) == (2, True)


def test_a_start_file_that_cannot_be_written_is_refused_in_one_line(home: Path) -> None:
    (home / ".bashrc").mkdir()

    refused = command("completion", "install", "bash")

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.endswith("Use `oncue completion show bash` instead.\n")
