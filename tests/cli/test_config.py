"""Settings from options, variables and files."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from oncue.cli.config_file import RENAMED
from oncue.cli.main import main
from oncue.settings import DECLARED, Settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments], env=environment)


def shown(*arguments: str, **environment: str) -> dict[str, tuple[Any, str]]:
    answer = ask("show", "--json", *arguments, **environment)
    assert answer.exit_code == 0, answer.stderr
    return {one["setting"]: (one["value"], one["source"]) for one in json.loads(answer.stdout)}


def test_an_option_goes_before_a_variable_before_the_file_before_the_default(folder: Path) -> None:
    (folder / "oncue.toml").write_text('port = 1\nhost = "a"\nlease = "20s"\nqueues = ["x", "y"]\nreap = true')

    found = shown("--port", "3", ONCUE_PORT="2", ONCUE_HOST="b", ONCUE_LABELS="gpu, eu")

    assert found["port"] == (3, "--port")
    assert found["host"] == ("b", "ONCUE_HOST")
    assert found["lease"] == ("20s", "oncue.toml")
    assert found["queues"] == (["x", "y"], "oncue.toml")
    assert found["labels"] == (["gpu", "eu"], "ONCUE_LABELS")
    assert found["reap"] == (True, "oncue.toml")
    assert found["threads"] == (32, "default")
    assert shown("--no-reap")["reap"] == (False, "--reap")


@pytest.mark.parametrize("role", ["up", "api", "scheduler", "worker"])
def test_every_setting_a_role_reads_is_an_option_and_a_variable_of_it(role: str) -> None:
    command = main.get_command(click.Context(main), role)
    assert command is not None
    variables = {option.name: option.envvar for option in command.params if option.name in DECLARED}

    read = {name for name, one in DECLARED.items() if role == "up" or role.upper() in str(one.roles)}
    assert variables == {name: f"ONCUE_{name.upper()}" for name in read}


def test_without_anything_the_settings_are_the_defaults(folder: Path) -> None:
    engine = f"sqlite:///{folder}/.oncue/oncue.db"
    values = {name: value for name, (value, _) in shown().items()}

    defaults = {name: value for name, value in values.items() if isinstance(value, int | float) and name != "reap"}
    assert defaults == {name: getattr(Settings(), name) for name in defaults}
    assert values["engine"] == engine
    assert values["retention"] == "90d"


def test_the_file_is_the_named_one_else_of_this_folder_else_of_the_project(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.other]\nx = 1\n[tool.oncue]\nworker_name = "project"')
    assert shown()["worker_name"] == ("project", "[tool.oncue] in pyproject.toml")

    (folder / "oncue.toml").write_text('worker_name = "folder"')
    assert shown()["worker_name"] == ("folder", "oncue.toml")

    (folder / "named.toml").write_text('worker_name = "named"')
    assert shown("--config", "named.toml")["worker_name"] == ("named", "named.toml")
    assert shown(ONCUE_CONFIG="named.toml")["worker_name"] == ("named", "named.toml")


def test_a_folder_in_place_of_the_file_is_refused(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.oncue]\nworker_name = "project"')
    (folder / "oncue.toml").mkdir()

    for arguments in ((), ("--config", "oncue.toml")):
        refused = ask("show", *arguments)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "cannot read oncue.toml: Is a directory" in refused.stderr


def test_a_link_to_nothing_in_place_of_the_file_is_refused(folder: Path) -> None:
    (folder / "pyproject.toml").symlink_to("nowhere")
    assert "cannot read pyproject.toml: No such file" in ask("show").stderr

    (folder / "oncue.toml").symlink_to("nowhere")
    assert "cannot read oncue.toml: No such file" in ask("show").stderr


def test_a_file_may_begin_with_a_byte_order_mark(folder: Path) -> None:
    (folder / "oncue.toml").write_text('worker_name = "ä"', "utf-8-sig")

    assert shown()["worker_name"] == ("ä", "oncue.toml")


def test_variables_in_a_file_are_replaced(folder: Path) -> None:
    (folder / "oncue.toml").write_text('engine = "${BASE}/jobs"\ntasks = ["${APP}.tasks", "other"]')

    found = shown(BASE="postgresql://db.example", APP="shop")

    assert found["engine"][0] == "postgresql://db.example/jobs"
    assert found["tasks"][0] == ["shop.tasks", "other"]
    refused = ask("check", BASE="x")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "tasks in oncue.toml: the environment variable APP is not set" in refused.stderr


def test_names_of_before_lead_to_settings_that_exist() -> None:
    assert set(RENAMED.values()) <= set(DECLARED)
    assert not set(RENAMED) & set(DECLARED)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "oncue.toml: 'prot' is no setting; did you mean 'port'?"),
        ('keep_history = "30d"', "'keep_history' is no setting; did you mean 'retention'?"),
        ("port = 99999", "'port in oncue.toml': 99999 is not in the range"),
        ("port = ", "oncue.toml is not TOML"),
        ("[port]\nx = 1", "port in oncue.toml: is a table"),
        ('log_level = "loud"', "'log_level in oncue.toml': 'loud' is not one of"),
        ("port = true", "port in oncue.toml: is true; write a whole number, like port = 8470"),
        ("port = [1]", "port in oncue.toml: is a list; write a whole number"),
        ("concurrency = 1.9", "concurrency in oncue.toml: is 1.9; write a whole number, like concurrency = 1000"),
        ("threads = 2026-01-31", "threads in oncue.toml: is a date or time; write a whole number"),
        ("worker_cpu = false", "worker_cpu in oncue.toml: is false; write a number"),
        ("queues = [true, 7]", 'queues in oncue.toml: is true; write texts in quotes, like queues = ["a", "b"]'),
        ('queues = ["a", 7]', "queues in oncue.toml: is 7; write texts in quotes"),
        ('queues = [["a"]]', "queues in oncue.toml: is a list; write texts in quotes"),
        ("queues = 7", "queues in oncue.toml: is 7; write texts in quotes"),
        ("reap = 1", "reap in oncue.toml: is 1; write true or false"),
        ("host = true", "host in oncue.toml: is true; write a text in quotes"),
        ("worker_name = 7", "worker_name in oncue.toml: is 7; write a text in quotes"),
        ('engine = ["a"]', "engine in oncue.toml: is a list; write a text in quotes"),
        ("lease = 20", 'lease in oncue.toml: is 20; write a duration in quotes, like lease = "15s"'),
        ("notify = false", 'notify in oncue.toml: is false; write "on" or "off" or "only"'),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_the_file(folder: Path, text: str, said: str) -> None:
    (folder / "oncue.toml").write_text(text)

    answer = ask("check")

    assert (answer.exit_code, answer.stdout) == (2, "")
    assert said in answer.stderr


def test_texts_stand_for_every_type_in_a_file(folder: Path) -> None:
    (folder / "oncue.toml").write_text('port = "${PORT}"\nreap = "${REAP}"\nworker_cpu = "1.5"\nqueues = "${QUEUES}"')

    found = shown(PORT="9000", REAP="true", QUEUES="mail, default")

    values = [found[name][0] for name in ("port", "reap", "worker_cpu", "queues")]
    assert values == [9000, True, 1.5, ["mail", "default"]]


def test_numbers_in_a_file_stay_what_they_are(folder: Path) -> None:
    (folder / "oncue.toml").write_text("worker_cpu = 2\nreserved_for_high = 0.5\nthreads = 7")

    found = shown()

    assert [found[name][0] for name in ("worker_cpu", "reserved_for_high", "threads")] == [2, 0.5, 7]


@pytest.mark.parametrize("text", ["tool.oncue = 7", "[tool]\noncue = 'x'", "[[tool.oncue]]\nport = 1"])
def test_settings_that_are_no_table_are_refused(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)

    refused = ask("check")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "[tool.oncue] in pyproject.toml: is not a table" in refused.stderr


def test_a_wrong_value_is_named_as_it_was_given(folder: Path) -> None:
    (folder / "oncue.toml").write_text('lease = "soon"')

    assert "lease in oncue.toml: 'soon' is not a duration" in ask("check").stderr
    assert "ONCUE_LEASE: 'late' is not a duration" in ask("check", ONCUE_LEASE="late").stderr
    assert "--lease: 'now' is not a duration" in ask("check", "--lease", "now").stderr
    assert "'ONCUE_PORT': 'x' is not a valid integer" in ask("check", ONCUE_PORT="x").stderr


def test_settings_are_checked_beyond_their_types() -> None:
    for right in ("oncue@example.org", "oncue <oncue@example.org>", ""):
        assert ask("check", "--smtp-from", right).exit_code == 0
    refused = ask("check", ONCUE_SMTP_FROM="oncue <example.org>", ONCUE_COMMAND_ROLES="admin,root")
    assert refused.exit_code == 2
    assert refused.stderr.splitlines() == [
        "ONCUE_COMMAND_ROLES: may have admin, member, viewer",
        "ONCUE_SMTP_FROM: must be an address, like oncue@example.org or oncue <oncue@example.org>",
    ]


def test_a_folder_or_file_without_a_name_is_not_this_folder(folder: Path) -> None:
    (folder / "oncue.toml").write_text("port = 1")

    for option in ("--data-dir", "--config"):
        answer = ask("check", option, "")
        assert (answer.exit_code, f"{option}" in answer.stderr, "is empty; name a f" in answer.stderr) == (
            2,
            True,
            True,
        )


def test_settings_are_printed_in_every_common_form() -> None:
    as_json = ask("show", "-o", "json", "--port", "1").stdout

    assert json.loads(as_json) == json.loads(ask("show", "--json", "--port", "1").stdout)
    assert "setting: port\n" in ask("show", "-o", "yaml").stdout
    assert ask("show", "-q").stdout.splitlines() == list(DECLARED)
    assert json.loads(ask("check", "-o", "json").stdout) == {"file": None, "set": []}


def test_passwords_are_not_shown() -> None:
    found = shown(ONCUE_ENGINE="postgresql://ada:hunter22@db/x", ONCUE_SMTP="smtp://me:pa%40ss@mail:587")

    assert found["engine"][0] == "postgresql://ada:•••@db/x"
    assert found["smtp"][0] == "smtp://me:•••@mail:587"
    assert "hunter22" not in ask("show", ONCUE_ENGINE="postgresql://ada:hunter22@[db/x").stdout


@pytest.mark.parametrize("parameter", ["password", "sslpassword", "pass%77ord", "anything"])
@pytest.mark.parametrize("from_file", [True, False])
def test_secrets_in_parameters_are_not_shown(folder: Path, parameter: str, from_file: bool) -> None:
    url = f"postgresql://ada@db:1/x?schema=jobs&{parameter}=geheim"
    archive = "s3://bucket/old?secret_access_key=geheim"
    if from_file:
        (folder / "oncue.toml").write_text(f'engine = "{url}"\narchive = "{archive}"')
    given = {} if from_file else {"ONCUE_ENGINE": url, "ONCUE_ARCHIVE": archive}

    found = shown(**given)

    assert found["engine"][0] == f"postgresql://ada@db:1/x?schema=jobs&{parameter}=•••"
    assert found["archive"][0] == "s3://bucket/old?secret_access_key=•••"
    assert "geheim" not in ask("show", **given).stdout


@pytest.mark.parametrize(
    "url",
    [
        "smtp://u:ge/heim@h:25",
        "smtp://u:25/heim@h",
        "smtp://u:25#heim@h",
        "smtp://u:25?heim@h",
        "u:geheim@h",
        "smtp://",
    ],
)
def test_a_wrong_mail_server_is_refused_without_its_password(url: str) -> None:
    for command in ("show", "check"):
        refused = ask(command, ONCUE_SMTP=url)

        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "ONCUE_SMTP: is not the URL of a mail server; write smtp://user:password@host:587" in refused.stderr
        assert "characters of the password as %XX" in refused.stderr
        assert "heim" not in refused.stderr


def test_rare_options_are_shown_on_request() -> None:
    short, whole = (CliRunner().invoke(main, ["worker", option]).output for option in ("--help", "--help-all"))

    assert "--kill-grace" not in short
    assert "--kill-grace" in whole
    assert "--lease" in short
    assert "--help-all" in short
