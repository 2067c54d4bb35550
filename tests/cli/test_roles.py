"""The commands that run a role: what their options become, and what is refused before anything starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from oncue.__main__ import run
from oncue.cli import api
from oncue.cli.banner import announce, shown
from oncue.cli.main import COMMANDS, main
from oncue.cli.roles import settings_of
from oncue.domain.instants import DAY, HOUR, SECOND
from oncue.process.started import Started, started
from oncue.settings import Settings
from oncue.testing.logs import capture_logs

ONCUE = Path(sys.executable).with_name("oncue")


def test_without_an_engine_it_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    assert settings_of(engine=None, data_dir=str(tmp_path)).engine == f"sqlite:///{tmp_path}/oncue.db"


def test_lengths_of_time_are_read() -> None:
    given = settings_of(
        engine="sqlite:///x.db", data_dir=".", lease="3s", shutdown_grace="1m", retention="30d", partition_span="6h"
    )

    assert (given.lease, given.shutdown_grace) == (3 * SECOND, 60 * SECOND)
    assert (given.retention, given.partition_span) == (30 * DAY, 6 * HOUR)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "--host", "256.0.0.1"], "--host: cannot listen on 256.0.0.1"),
        (["api", "--http-allow", "everything"], "--http-allow: "),
        *(
            (
                [role, "--metrics-port", "19", "--metrics-host", "0.0.0.0"],
                "--metrics-host: 0.0.0.0 is reachable from other machines; set --metrics-token-file, or",
            )
            for role in ("api", "scheduler", "up", "worker")
        ),
        (
            ["scheduler", "--metrics-port", "19", "--metrics-host", "256.0.0.1"],
            "--metrics-host: cannot listen on 256.0.0.1: no such host name or address",
        ),
        (
            ["worker", "--metrics-port", "19", "--metrics-host", "192.0.2.1"],
            "--metrics-host: cannot listen on 192.0.2.1: it is not an address of this machine",
        ),
        (["worker", "--metrics-token-file", "/nowhere"], "--metrics-token-file: cannot read '/nowhere'"),
        (["scheduler", "--metrics-open"], "--metrics-open: needs --metrics-port"),
    ],
)
def test_bad_options_are_refused_by_name(arguments: list[str], said: str, tmp_path: Path) -> None:
    door = ["--port", "0"] if arguments[0] in ("api", "up") else []  # another oncue may have the default port
    answer = CliRunner().invoke(main, [*arguments, *door, "--data-dir", str(tmp_path)])

    assert answer.exit_code == 1
    assert said in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["worker", "--lease", "10ms"], "--lease: '10ms' must be between"),
        (["scheduler", "--retention", "soon"], "--retention: 'soon' is not a duration"),
        (["api", "--engine", "mysql://x"], "--engine: is not a supported engine: write sqlite:///file.db or"),
        (["api", "--secret-roles", "admin,root"], "--secret-roles: may have admin, member, viewer"),
        (["worker", "--public-url", "javascript:x"], "--public-url: must start with https://"),
        (["worker", "--smtp-from", "oncue"], "--smtp-from: must be an address"),
        (["worker", "--smtp-allow-to", "example.org"], "--smtp-allow-to: must be addresses"),
    ],
)
def test_settings_that_cannot_work_are_errors_of_the_command_line(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    answer = CliRunner().invoke(main, [*arguments, "--data-dir", str(tmp_path / "none")])

    assert answer.exit_code == 2
    assert said in answer.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("role", ["api", "up"])
@pytest.mark.parametrize(("host", "metrics_host"), [("127.0.0.1", "localhost"), ("0.0.0.0", "127.0.0.1")])
def test_metrics_do_not_have_the_port_of_the_api(role: str, host: str, metrics_host: str, tmp_path: Path) -> None:
    doors = ["--host", host, "--port", "9000", "--metrics-host", metrics_host, "--metrics-port", "9000"]
    answer = CliRunner().invoke(main, [role, *doors, "--data-dir", str(tmp_path)])

    assert answer.exit_code == 1
    assert answer.stderr == "--metrics-port: is the API's own port; leave it out, or choose another\n"


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_a_database_that_is_no_file_is_refused_by_what_it_is(kind: str, tmp_path: Path) -> None:
    path = Path("/dev/null") if kind == "device" else tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    where = ["--engine", f"sqlite:///{path}", "--data-dir", str(tmp_path)]

    for command in (["doctor"], ["migrate"], ["migrate", "--check"], ["scheduler"]):
        answer = CliRunner().invoke(main, [*command, *where])

        assert answer.exit_code == 1
        assert answer.stderr == f"--engine: {path} is a {kind}, not a file: name a database file\n"


def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("oncue.cli.main.import_module", interrupted)
        answer = CliRunner().invoke(main, ["doctor"])
    assert (answer.exit_code, answer.output) == (130, "")

    monkeypatch.setattr("oncue.cli.main.main", interrupted)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 130


def test_little_is_imported_before_ctrl_c_is_handled() -> None:
    """Catches a traceback of an import, which Ctrl-C right after the start would show."""
    check = (
        "import sys, oncue.__main__; print([name for name in sys.modules if name in ('click', 'msgspec', 'asyncio')])"
    )

    answer = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120)

    assert (answer.stdout, answer.stderr) == ("[]\n", "")


@pytest.mark.parametrize("command", [["preview", "every 1m"], ["--help"]], ids=" ".join)
def test_output_that_cannot_be_written_is_one_line(command: list[str]) -> None:
    """Catches a traceback, also of Python's own when it ends."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([str(ONCUE), *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)

    assert (ended.returncode, ended.stderr) == (1, "cannot write the output: No space left on device\n")


def test_a_command_whose_output_is_closed_does_its_work() -> None:
    """Catches a traceback after the work was done, for which a script would do it again."""
    ended = subprocess.run(
        ["sh", "-c", f"{ONCUE} preview 'every 1m' <&- >&-"], stderr=subprocess.PIPE, text=True, timeout=120
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def every_command() -> list[list[str]]:
    found: list[list[str]] = []
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        found += [[name, one] for one in command.commands] if isinstance(command, click.Group) else [[name]]
    return found


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_command_has_json_and_an_example(path: list[str]) -> None:
    shown = CliRunner().invoke(main, [*path, "--help"]).output

    assert "--json" in shown.partition("Options:")[2].partition("Examples:")[0]
    assert f"oncue {' '.join(path)}" in shown.partition("Examples:")[2]


@pytest.mark.parametrize("role", ["up", "worker"])
def test_with_json_tasks_that_cannot_be_loaded_are_told_as_a_problem(role: str, tmp_path: Path) -> None:
    door = ["--port", "0"] if role == "up" else []
    argv = [str(ONCUE), role, "--tasks", "nope.py", "--data-dir", str(tmp_path), "--json", *door]

    answer = subprocess.run(argv, capture_output=True, text=True, timeout=120)

    assert answer.returncode == 1
    assert "nope.py (looked in" in json.loads(answer.stderr.splitlines()[-1])["detail"]


def test_with_json_a_server_says_where_it_listens_and_where_the_key_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, started = settings_of(engine=None, data_dir=str(tmp_path)), Started("1", "x", 1, "http://127.0.0.1:1")
    with capture_logs() as lines:
        announce(settings, True, started, None)
        (tmp_path / "admin.key").write_text("oc_1")
        announce(settings, True, started, "oc_1")

    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())

    assert first == {"address": "http://127.0.0.1:1", "admin_key": None, "admin_key_file": None}
    assert second == {"address": "http://127.0.0.1:1", "admin_key": None, "admin_key_file": f"{tmp_path}/admin.key"}
    assert [line["kind"] for line in lines] == ["started", "started", "admin_key_created"]
    assert [line["address"] for line in lines[:2]] == ["http://127.0.0.1:1"] * 2
    assert lines[2]["file"] == f"{tmp_path}/admin.key"


def test_the_log_tells_how_many_tasks_there_are_and_the_first_ten(tmp_path: Path) -> None:
    names = tuple(f"task-{number}" for number in range(3_000))
    with capture_logs() as lines:
        announce(settings_of(engine=None, data_dir=str(tmp_path)), True, Started("1", "x", 1, tasks=names), None)

    [line] = lines
    assert (line["task_count"], line["tasks"]) == (3_000, names[:10])


def test_neither_the_banner_nor_the_log_tells_the_password_of_the_database(tmp_path: Path) -> None:
    settings = Settings(engine="postgresql://ada:geheim@db:5432/oncue?sslkey=geheim", data_dir=str(tmp_path))
    told = started(SimpleNamespace(schema=3), settings, "http://127.0.0.1:1")  # type: ignore[arg-type]  # all it reads

    assert "database  postgresql db:5432/oncue, schema 3" in shown(told, tmp_path / "admin.key")
    assert "geheim" not in f"{shown(told, tmp_path)}{told}"


@pytest.mark.parametrize(
    ("address", "port", "endpoint", "row"),
    [
        ("http://127.0.0.1:1", 0, "", "  metrics   /metrics                            traces  off"),
        (None, 0, "http://127.0.0.1:1", "  metrics   off                                 traces  on"),
        (None, 9100, "", "  metrics   /metrics on port 9100               traces  off"),
    ],
)
def test_the_banner_says_where_metrics_and_whether_traces_go(
    address: str | None, port: int, endpoint: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    told = started(SimpleNamespace(schema=3), Settings(metrics_port=port), address)  # type: ignore[arg-type]

    assert row in shown(told, tmp_path).splitlines()


@pytest.mark.parametrize(
    ("arguments", "environment", "found"),
    [
        ([], {}, ("info", "auto", False, False)),
        (["--log-level", "error", "--log-format", "json"], {}, ("error", "json", False, False)),
        ([], {"ONCUE_LOG_LEVEL": "debug", "ONCUE_LOG_FORMAT": "pretty"}, ("debug", "pretty", False, False)),
        (["--log-errors", "--access-log"], {}, ("info", "auto", True, True)),
        ([], {"ONCUE_LOG_ERRORS": "1", "ONCUE_ACCESS_LOG": "1"}, ("info", "auto", True, True)),
    ],
)
def test_logs_are_set_by_option_and_by_environment(
    arguments: list[str], environment: dict[str, str], found: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(api, "run", lambda role, work, options, as_json: given.append(options))

    assert CliRunner().invoke(main, ["api", *arguments], env=environment).exit_code == 0

    settings = settings_of(**given[0])
    assert (settings.log_level, settings.log_format, settings.log_errors, settings.access_log) == found


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_by_example(name: str) -> None:
    path = [name, "create"] if name == "keys" else [name]

    answer = CliRunner().invoke(main, [*path, "--help"])

    assert answer.exit_code == 0
    assert f"oncue {' '.join(path)}" in answer.output.partition("Examples:")[2]
