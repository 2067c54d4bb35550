"""What `oncue import` prints is read by the reader of `oncue apply`, and means what cron and Celery meant."""

import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.cli.conftest import command

from oncue.cli.job_file import read_job_file
from oncue.domain.definition import define
from oncue.domain.instants import parse_instant

NOW = parse_instant("2026-11-18T00:00:00Z")
NOON = datetime(2027, 1, 1, 12)

CRONTAB = r"""
# a comment
PATH = "/usr/bin:/bin"
MAILTO=ops@example.org, b@example.org
*/5 * * * * /usr/local/bin/backup.sh --all
CRON_TZ=Europe/Berlin
MAILTO=""
RANDOM_DELAY=10
SHELL=/bin/bash
0 9 1 * MON-FRI  FOO=1 "/usr/bin/mail" -s "100\% done" you%Hello,%bye
@Daily /usr/local/bin/backup.sh
@reboot /bin/start
@every_minute /bin/x
0 25 * * * bad
1 2 3
"""


def imported(printed: str, folder: Path) -> dict[str, Any]:
    """The jobs by key, as `apply` reads them, each a definition that the server would accept."""
    (folder / "made.yaml").write_text(printed)
    found = read_job_file(folder / "made.yaml")
    for job in found.jobs:
        define(job, {}, NOW)
    assert found.named
    return {job["key"]: job for job in found.jobs}


def test_a_crontab_becomes_jobs_with_its_variables(tmp_path: Path) -> None:
    result = command("import", "crontab", "-", "--timezone", "America/New_York", stdin=CRONTAB)
    jobs = imported(result.stdout, tmp_path)

    assert result.exit_code == 0
    assert list(jobs) == ["backup-sh", "mail", "backup-sh-2"]
    first, mail, daily = jobs.values()
    assert result.stderr == "3 jobs; 4 schedules not translated: see the comments\n"
    assert first["schedule"] == {"cron": "*/5 * * * *", "timezone": "America/New_York"}
    assert first["payload"] == {
        "argv": ["/bin/sh", "-c", "/usr/local/bin/backup.sh --all"],
        "env": {"PATH": "/usr/bin:/bin"},
    }
    assert first["notify"] == [{"on": ["failed", "recovered"], "email": ["ops@example.org", "b@example.org"]}]
    assert (first["overlap"], first["catch_up"], first["max_retries"]) == ("allow", "skip", 0)
    assert mail["schedule"] == {"cron": "0 9 1 * mon-fri", "timezone": "Europe/Berlin", "jitter": "10m"}
    assert mail["payload"]["argv"] == ["/bin/bash", "-c", 'FOO=1 "/usr/bin/mail" -s "100% done" you']
    assert (mail["payload"]["stdin"], mail["notify"]) == ("Hello,\nbye\n", [])
    assert daily["schedule"]["cron"] == "@daily"


def test_what_cannot_be_translated_is_a_comment_with_the_reason(tmp_path: Path) -> None:
    printed = command("import", "crontab", "-", stdin=CRONTAB).stdout

    for source, reason in (
        ("@reboot /bin/start", "oncue has no event for a boot"),
        ("@every_minute /bin/x", "@every_minute is no schedule"),
        ("0 25 * * * bad", "25 is not between 0 and 23"),
        ("1 2 3", "an entry has times and a command"),
    ):
        after = printed.partition(f"  # {source}\n")[2]
        assert after.startswith("  # not translated: ")
        assert reason in after.splitlines()[0]


def test_the_user_column_of_a_system_crontab_is_no_part_of_the_command(tmp_path: Path) -> None:
    text = "HOME=/srv\n17 * * * * www-data cd / && run-parts /etc/cron.hourly\n@weekly root /bin/x\n"
    printed = command("import", "crontab", "--system", "-", stdin=text).stdout
    first, weekly = imported(printed, tmp_path).values()

    assert first["payload"]["argv"][-1] == "cd / && run-parts /etc/cron.hourly"
    assert (first["payload"]["cwd"], weekly["payload"]["argv"][-1]) == ("/srv", "/bin/x")
    assert "# ran as www-data; here it runs as the worker's user" in printed


def test_as_json_the_jobs_are_the_same_and_notes_go_to_standard_error(tmp_path: Path) -> None:
    result = command("import", "crontab", "--json", "-", stdin=CRONTAB)

    assert imported(result.stdout, tmp_path) == imported(
        command("import", "crontab", "-", stdin=CRONTAB).stdout, tmp_path
    )
    assert "@reboot /bin/start: not translated" in result.stderr
    assert result.stderr.endswith("3 jobs; 4 schedules not translated\n")


def test_a_mailbox_of_the_machine_and_an_empty_zone_lose_no_job(tmp_path: Path) -> None:
    text = "MAILTO=root\nCRON_TZ=Asia/Tokyo\n0 1 * * * a\nCRON_TZ=\nMAILTO=root, ops@example.org\n0 2 * * * b\n"
    result = command("import", "crontab", "-", "--timezone", "Europe/Berlin", stdin=text)
    printed = result.stdout
    first, second = imported(printed, tmp_path).values()

    assert result.stderr == "2 jobs; 2 options not translated: see the comments\n"
    assert "notify" not in first
    assert [one["email"] for one in second["notify"]] == [["ops@example.org"]]
    assert [one["schedule"]["timezone"] for one in (first, second)] == ["Asia/Tokyo", "Europe/Berlin"]
    assert printed.count("not translated: MAILTO=root is no e-mail address") == 2


def test_a_command_that_is_not_utf8_is_not_changed_silently(tmp_path: Path) -> None:
    (tmp_path / "tab").write_bytes(b"\xef\xbb\xbf0 1 * * * a\n0 2 * * * echo \xe9\n")
    printed = command("import", "crontab", str(tmp_path / "tab")).stdout

    assert list(imported(printed, tmp_path)) == ["a"]
    assert "not translated: the line is not UTF-8" in printed


def test_an_unknown_zone_of_the_machine_is_refused() -> None:
    result = command("import", "crontab", "-", "--timezone", "Europe/Berln", stdin=CRONTAB)

    assert (result.exit_code, result.stdout) == (1, "")
    assert 'did you mean "Europe/Berlin"?' in result.stderr


def test_a_file_that_cannot_be_read_is_named() -> None:
    result = command("import", "crontab", "no-such-crontab")

    assert (result.exit_code, "no-such-crontab" in result.stderr) == (1, True)


def test_a_crontab_without_entries_is_an_empty_set(tmp_path: Path) -> None:
    assert imported(command("import", "crontab", "-", stdin="# nothing\n").stdout, tmp_path) == {}


# ------------------------------------------------------------------------------------------------------------- Celery


class crontab:  # noqa: N801  # its name decides
    def __init__(self, minute: Any = "*", hour: Any = "*", day_of_week: str = "*", day_of_month: str = "*") -> None:
        self._orig_minute, self._orig_hour, self._orig_month_of_year = minute, hour, "*"
        self._orig_day_of_week, self._orig_day_of_month = day_of_week, day_of_month
        self.day_of_week, self.day_of_month = (
            {int(text) for text in one.split(",") if text.isdigit()} for one in (day_of_week, day_of_month)
        )


class solar:  # noqa: N801
    run_every = None


def add(x: int, y: int = 1) -> int:
    return x + y


def stand_in() -> Any:
    """An app with the attributes of a real one that are read."""
    routes = {"shop.mail": {"queue": SimpleNamespace(name="mail")}}
    return SimpleNamespace(
        conf=SimpleNamespace(timezone="Europe/Berlin", task_default_queue="celery", beat_schedule={}),
        amqp=SimpleNamespace(router=SimpleNamespace(route=lambda _, task: routes.get(task, {}))),
        tasks={"shop.add": SimpleNamespace(run=add)},
        crontab=crontab,
        solar=solar,
    )


def real() -> Any:
    """A real app, where Celery is installed."""
    celery, schedules = pytest.importorskip("celery"), pytest.importorskip("celery.schedules")
    pytest.importorskip("ephem")
    app = celery.Celery("shop", set_as_current=False)
    app.conf.update(timezone="Europe/Berlin", task_routes={"shop.m*": {"queue": "mail"}})
    app.task(name="shop.add")(add)
    app.crontab, app.solar = schedules.crontab, lambda: schedules.solar("sunset", -37, 144)
    return app


@pytest.fixture(params=[stand_in, real])
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    app = request.param()
    app.conf.beat_schedule = {
        "add every 30 s": {"task": "shop.add", "schedule": 30.0, "args": (2,), "kwargs": {"y": 3}},
        "digest": {
            "task": "shop.mail",
            "schedule": app.crontab(minute="0", hour="9", day_of_week="mon-fri"),
            "options": {"expires": 600, "priority": 9, "exchange": "x"},
        },
        "often": {"task": "shop.mail", "schedule": timedelta(minutes=5), "options": {"queue": "fast"}},
        "sunset": {"task": "shop.mail", "schedule": app.solar()},
        "friday the 13th": {
            "task": "shop.mail",
            "schedule": app.crontab(minute="0", hour="0", day_of_week="5", day_of_month="13"),
        },
        "first mondays": {
            "task": "shop.mail",
            "schedule": app.crontab(minute="0", hour="9", day_of_week="1", day_of_month="1-7"),
        },
        "unknown": {"task": "shop.unknown", "schedule": 10, "args": [1]},
    }
    module = ModuleType("shop_of_celery")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_of_celery", module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return app


def test_a_beat_schedule_becomes_jobs(app: Any, tmp_path: Path) -> None:
    result = command("import", "celery", "shop_of_celery:app")
    jobs = imported(result.stdout, tmp_path)

    assert result.exit_code == 0
    assert list(jobs) == ["add-every-30-s", "digest", "often", "first-mondays"]
    assert 'with these names: @tasks.task("shop.add").' in result.stdout
    first, digest, often, mondays = jobs.values()
    assert mondays["schedule"] == {"cron": "0 9 * * 1#1", "timezone": "Europe/Berlin"}
    assert (first["task"], first["schedule"], first["payload"]) == ("shop.add", {"every": "30s"}, {"x": 2, "y": 3})
    assert "queue" not in first
    assert digest["schedule"] == {"cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin"}
    assert (digest["queue"], digest["priority"], digest["start_within"]) == ("mail", "high", "600s")
    assert result.stderr == "4 jobs; 3 schedules and 1 option not translated: see the comments\n"
    assert (often["queue"], often["schedule"]) == ("fast", {"every": "300s"})
    for reason in (
        "not translated: the option exchange='x'",
        "none that follows the sun",
        'Write the cron "0 0 * * 5", and begin the task with: if ctx.scheduled_for',
        '.astimezone(ZoneInfo("Europe/Berlin")).day not in (13,): return',
        "the names of the arguments [1] are unknown",
    ):
        assert reason in result.stdout


def test_odd_entries_are_comments_and_stop_no_other(app: Any, tmp_path: Path) -> None:
    app.conf.beat_schedule = {
        "no dictionary": 5,
        "no json": {"task": "shop.add", "schedule": 30, "args": (object(),)},
        "no number": {"task": "shop.add", "schedule": 30, "args": (float("nan"),)},
        "lists": {"task": "shop.add", "schedule": app.crontab(minute={0, 30}, hour=[1, 2]), "args": (NOON,)},
        "until": {"task": "shop.mail", "schedule": 30, "options": {"expires": NOON}},
        "within": {"task": "shop.mail", "schedule": 30, "options": {"expires": timedelta(minutes=1)}},
    }
    printed = command("import", "celery", "shop_of_celery:app").stdout
    lists, until, within = imported(printed, tmp_path).values()

    assert (lists["schedule"]["cron"], lists["payload"]) == ("0,30 1,2 * * *", {"x": "2027-01-01T12:00:00"})
    assert ("start_within" in until, within["start_within"]) == (False, "60s")
    for reason in ("an entry must be a dictionary", "are not JSON: Encoding", "is not finite", "expires=datetime"):
        assert reason in printed


@pytest.mark.parametrize(
    ("broker", "given", "made"),
    [
        ("amqp://", [0, 3, 4, 6, 7, 10, True], ["low", "low", "normal", "normal", "high", None, None]),
        ("redis://h/0", [0, 2, 3, 5, 6, 9], ["high", "high", "normal", "normal", "low", "low"]),
    ],
)
def test_priorities_become_those_of_oncue(
    app: Any, broker: str, given: list[int], made: list[str | None], tmp_path: Path
) -> None:
    app.conf.broker_url = broker
    app.conf.beat_schedule = {
        str(number): {"task": "shop.mail", "schedule": 30, "options": {"priority": one}}
        for number, one in enumerate(given)
    }
    result = command("import", "celery", "shop_of_celery:app")

    assert [job.get("priority") for job in imported(result.stdout, tmp_path).values()] == made
    left = made.count(None)
    assert (
        result.stderr == f"{len(made)} jobs" + f"; {left} options not translated: see the comments" * bool(left) + "\n"
    )


def test_a_configuration_that_is_none_is_refused(app: Any) -> None:
    app.conf.beat_schedule = [1]
    result = command("import", "celery", "shop_of_celery:app")

    assert (result.exit_code, "beat_schedule must be a dictionary" in result.stderr) == (1, True)


def test_a_configuration_that_celery_cannot_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Conf:
        @property
        def timezone(self) -> str:
            raise ImportError("no module shop.config")

    module = ModuleType("shop_of_celery")
    module.app = SimpleNamespace(conf=Conf())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_of_celery", module)
    result = command("import", "celery", "shop_of_celery")

    assert (result.exit_code, "ImportError: no module shop.config" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("source", "said"), [("no_such_shop", "cannot be imported"), ("json:app", "has no Celery app")]
)
def test_an_app_that_is_not_there_is_refused(source: str, said: str) -> None:
    result = command("import", "celery", source)

    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
