"""What a shell completes, and that it never waits or prints an error for it."""

import os
import pty
import socket
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
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


CHARGE = {
    "$ref": "#/$defs/Payload",
    "$defs": {
        "Payload": {
            "properties": {
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "order": {"type": "integer"},
                "currency": {"enum": ["EUR", "USD"]},
                "to": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "string"}},
                "extra": {"$ref": "#/$defs/Extra"},
            },
            "required": ["order", "currency", "to"],
        },
        "Extra": {"type": "object"},
    },
}


def answer(request: Request) -> Said:
    match request.parts:
        case ["lookup"]:
            named = [{**JOB, "name": "greeting"}, {**JOB, "name": "greet me; rm -rf /"}, {**JOB, "key": "greet-2"}]
            return 200, {"jobs": [{**one, "match": "prefix"} for one in named]}
        case ["runs"]:
            return 200, {"runs": [{**JOB, "run_id": JOB["job_id"]}], "next_page_token": None}
    tasks = [{"name": "hello"}, {"name": "charge", "schema": CHARGE}, {"name": "--all"}]  # which would be an option
    names = {"tasks": tasks, "queues": [{"name": "mail"}]}
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
        (task_names, "-", []),
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


def completed(shell: str, typed: str, *, some: bool = True) -> list[str]:
    """What a shell is told to offer for the last of these words. A server has little time to answer: ask it again."""
    asked = {"_ONCUE_COMPLETE": f"{shell}_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    if shell == "fish":
        asked["COMP_CWORD"] = typed.split(" ")[-1]
    for _ in range(20 if some else 1):
        answered = subprocess.run([ONCUE], env={**os.environ, **asked}, capture_output=True, text=True)
        assert answered.stderr == ""
        if offered := answered.stdout.strip("\n").splitlines():
            return offered
    return []


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("charge ", ["order:=", "currency=", "to=", "note=", "lines:=", "extra:="]),
        ("charge or", ["order:="]),
        ("charge order:=1 to=a@b.example currency=EUR ", ["note=", "lines:=", "extra:="]),
        ("charge order := 1 to = a @ b.example currency = EUR n", ["note="]),  # as bash splits them
        ("hello ", []),
        ("sausage ", []),
    ],
)
def test_the_parameters_of_a_task_are_offered_as_its_schema_takes_them(
    stand_in: StandIn, typed: str, offered: list[str]
) -> None:
    stand_in(answer)

    assert completed("bash", f"oncue enqueue {typed}", some=bool(offered)) == [f"plain,{one}" for one in offered]


def test_parameters_have_their_type_beside_them_where_the_shell_shows_it(stand_in: StandIn) -> None:
    stand_in(answer)

    assert completed("fish", "oncue enqueue charge n") == ["plain,note=\toptional string or null"]
    assert completed("zsh", "oncue enqueue charge o") == ["plain", "order\\:=", "required integer"]


def test_the_value_can_be_typed_right_after_a_completed_parameter(stand_in: StandIn, tmp_path: Path) -> None:
    """A real bash, at its prompt: Tab completes the name, without a space behind it."""
    stand_in(answer)
    script = tmp_path / "completion.bash"
    script.write_text(command("completion", "show", "bash").stdout)
    assert completed("bash", "oncue enqueue charge ord") == ["plain,order:="]  # an answer that bash gets at once, too
    function = "oncue() { printf 'passed:'; printf ' %s' \"$@\"; }"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PATH": f"{ONCUE.parent}:{os.environ['PATH']}", "HISTFILE": "", "TERM": "dumb"},
        start_new_session=True,
    ) as bash:
        os.close(theirs)
        os.write(ours, f". {script}\n{function}\noncue enqueue charge ord\t7\nexit\n".encode())
        shown = b""
        with suppress(OSError):  # how the end of a terminal looks
            while part := os.read(ours, 10_000):
                shown += part
        os.close(ours)
    assert bash.returncode == 0
    assert b"passed: enqueue charge order:=7" in shown


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
