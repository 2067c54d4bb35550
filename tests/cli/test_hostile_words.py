"""What others wrote does not command the terminal of whoever reads it, nor hold up a command."""

import os
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from click.testing import CliRunner
from tests.cli.conftest import StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import on_a_terminal

from oncue.cli.job_file import LARGEST, read_job_file
from oncue.cli.main import main
from oncue.domain.errors import Invalid

EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202egpj\u2066\u2028b\r\0c"
SAFE = "\n\té☃"
RUN_ID = "01990000-0000-7000-8000-000000000001"
RUN = {
    "run_id": RUN_ID, "job_id": RUN_ID, "job_name": EVIL, "task": EVIL, "status": "dead",
    "scheduled_for": "2027-01-01T00:00:00Z", "attempt_number": 1, "attempts": [],
    "error_type": EVIL, "error_message": EVIL, "executor_name": EVIL,
    "result": {EVIL: EVIL},
}  # fmt: skip


def obeyed(text: str) -> set[str]:
    return {letter for letter in text if letter not in SAFE and not (letter.isprintable() or letter == " ")}


def answer(request: Request) -> Said:
    match request.parts:
        case ["runs"]:
            return 200, {"runs": [RUN], "next_page_token": EVIL}
        case ["runs", _, "logs"]:
            return 200, EVIL + SAFE
        case ["runs", _, "explain"]:
            return 200, {"reason": EVIL, "detail": EVIL, "state": "dead"}
        case ["runs", _, "cancel"]:
            return 404, {"title": EVIL, "detail": EVIL, "status": 404}
    return 200, RUN


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("ask", ["logs", "show", "list --limit 1", "explain", "cancel"])
def test_nothing_a_terminal_obeys_is_printed(stand_in: StandIn, ask: str, as_json: list[str]) -> None:
    stand_in(answer)

    said = command("runs", *ask.split(), *([] if "list" in ask else [RUN_ID]), *as_json)

    assert "owned" in said.output, said
    assert obeyed(said.output) == set()


def test_json_means_the_same_as_before(stand_in: StandIn) -> None:
    stand_in(answer)

    assert msgspec.json.decode(command("runs", "show", RUN_ID, "--json").stdout) == RUN
    assert msgspec.json.decode(command("runs", "logs", RUN_ID, "--json").stdout)["log"] == EVIL + SAFE


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-1", "1e999"])
@pytest.mark.parametrize("option", ["--worker-cpu", "--reserved-for-high"])
def test_a_number_that_is_none_is_refused_in_one_line(option: str, number: str) -> None:
    said = command("worker", "--engine", "nowhere:", option, number)

    assert said.exit_code == 2
    assert f"Invalid value for '{option}'" in said.stderr
    assert said.stderr.count("Error") == 1


LATIN_1 = "caf\udce9"  # as Python passes on a byte that is not UTF-8


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("jobs", "list", "--name", LATIN_1), "--name"),
        (("jobs", "list", f"--name={LATIN_1}"), "--name"),
        (("jobs", "pause", "-y", LATIN_1), "an argument"),
        (("enqueue", "hello", f"name={LATIN_1}"), "an argument"),
        (("keys", "create", "--user", LATIN_1, "--role", "admin"), "--user"),
        (("preview", LATIN_1), "an argument"),
        ((LATIN_1,), "an argument"),
    ],
)
def test_what_is_not_utf_8_is_refused_before_anything_happens(
    stand_in: StandIn, arguments: tuple[str, ...], where: str
) -> None:
    server = stand_in(answer)

    said = command(*arguments)

    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.startswith(f"Error: {where} is not UTF-8: '")
    assert r"caf\xe9'; convert the text" in said.stderr
    assert server.requests == []


def test_lines_that_are_not_utf_8_are_refused(stand_in: StandIn) -> None:
    server = stand_in(answer)

    said = CliRunner().invoke(main, ["runs", "cancel", "-"], input=b"a\n\xff\n")

    assert (said.exit_code, "standard input is not UTF-8" in said.stderr) == (2, True)
    assert server.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        "tasks register ",
        "jobs create --task t --file ",
        "import crontab ",
        "doctor --data-dir ",
        "doctor --engine sqlite:///",
        "config check --config ",
        "migrate --check --engine sqlite:///",
        "keys create --user a --role admin --engine sqlite:///",
        "relay --from sqlite:///",
    ],
)
def test_a_name_that_no_file_can_have_is_no_traceback(arguments: str) -> None:
    said = command(*f"{arguments}{'x' * 300}.py".split())

    assert said.exit_code in (1, 2)
    assert isinstance(said.exception, SystemExit)


# -------------------------------------------------------------------------------------------------------- files of jobs

BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{BOMB}\njobs: *a11", "expands to more than"),
        ("jobs: &a [*a]", "expands to more than"),
        ("jobs: [{key: a, task: t, payload: &p {x: *p}}]", "expands to more than"),
        ("jobs: " + "[" * 600, "nested too deeply"),
        ("jobs: " + "[" * 600 + "]" * 600, "nested too deeply"),
        ("jobs: [" + "9" * 100_000 + "]", "Exceeds the limit"),
        ("jobs: [!!binary aGVsbG8=]", "could not determine a constructor"),
        ("jobs: [!!timestamp 2027-01-01]", "could not determine a constructor"),
        ("\0", "special characters are not allowed"),
    ],
)
def test_a_file_that_is_meant_to_hurt_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(text)

    with pytest.raises(Invalid) as refused:
        read_job_file(file)
    assert said in str(refused.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        read_job_file(tmp_path)


def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    with file.open("wb") as huge:
        huge.truncate(1_000_000_000)

    with pytest.raises(Invalid, match=f"larger than {LARGEST} bytes"):
        read_job_file(file)


def test_a_pipe_that_never_ends_is_left(tmp_path: Path) -> None:
    pipe = tmp_path / "jobs.yaml"
    os.mkfifo(pipe)

    def talk() -> None:
        with pipe.open("wb", buffering=0) as end:
            try:
                while True:
                    end.write(b"# for ever\n" * 10_000)
            except BrokenPipeError:
                pass

    talking = Thread(target=talk)
    talking.start()
    with pytest.raises(Invalid, match="larger than"):
        read_job_file(pipe)
    talking.join(10)
    assert not talking.is_alive()


def test_line_ends_of_other_kinds_break_no_line_on_a_terminal(stand_in: StandIn) -> None:
    server = stand_in(lambda _: (200, RUN | {"error_message": "one\rtwo\x85three\u2028four"}))

    shown = on_a_terminal("runs", "show", RUN_ID, ONCUE_URL=server.url, ONCUE_API_KEY="oc_1")

    assert r"one\u000dtwo\u0085three\u2028four" in shown


def test_a_file_with_control_characters_is_refused_in_one_line() -> None:
    said = command("apply", "-", stdin="set: \x01").stderr

    assert said == "standard input: unacceptable character #x0001: special characters are not allowed\n"
