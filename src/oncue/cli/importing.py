"""`oncue import`: schedules of cron and Celery as YAML for `oncue apply`."""

from __future__ import annotations

import click

from oncue.cli.groups import Group
from oncue.cli.job_export import JSON
from oncue.cli.refusing import refusals
from oncue.cli.roles import options
from oncue.cli.time_option import local_zone
from oncue.clock import Clock
from oncue.domain.errors import Invalid

EXAMPLES = """\b
Examples:
  crontab -l | oncue import crontab - > jobs.yaml
  oncue import celery shop.celery:app > jobs.yaml
  oncue apply jobs.yaml --dry-run

Nothing is created: the command prints a file for `oncue apply`. Comments in it say what could not be translated, and a
line on standard error how much.
"""
CRONTAB = """\b
Examples:
  crontab -l | oncue import crontab - > jobs.yaml
  oncue import crontab --system /etc/crontab --timezone Europe/Berlin

\b
Translated:
  CRON_TZ       the time zone of the entries below it
  MAILTO        notify by e-mail, of failures
  RANDOM_DELAY  jitter
  SHELL, PATH…  the shell, and the environment of the command
  %             standard input
  @daily …      cron; @reboot becomes a comment
"""
CELERY = """\b
Examples:
  oncue import celery shop.celery:app > jobs.yaml
  oncue import celery shop.celery:app | oncue apply - --dry-run

Reads beat_schedule: crontab, timedelta and seconds, args by the names of the task's parameters, the queue, priority
and expires of options, and the queues of task_routes. Solar schedules become comments. APP is imported, as Celery does.
"""
SET = click.option("--set", "name", metavar="NAME", help="Name of the set in the file.")


@click.group("import", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Translate schedules of cron or Celery."""


@command.command("crontab", epilog=CRONTAB)
@click.argument("file", metavar="FILE|-")
@click.option("--system", is_flag=True, help="The sixth column is a user, as in /etc/crontab.")
@click.option("--timezone", metavar="ZONE", help="Time zone of the machine. [default: that of this one]")
@options((SET, JSON))
@click.pass_obj
def crontab(clock: Clock, file: str, system: bool, timezone: str | None, name: str | None, as_json: bool) -> None:
    """Translate a crontab into jobs."""
    from oncue.cli.crontab_file import HEADER, read_crontab
    from oncue.cli.imported import print_file
    from oncue.domain.zones import zone

    with refusals({}, as_json=as_json):
        machine = str(local_zone()) if timezone is None else zone(timezone, "--timezone").key
        entries = read_crontab(_text_of(file), machine, system=system)
    print_file(name or "crontab", entries, HEADER, clock.now(), as_json=as_json)


@command.command("celery", epilog=CELERY)
@click.argument("app")
@options((SET, JSON))
@click.pass_obj
def celery(clock: Clock, app: str, name: str | None, as_json: bool) -> None:
    """Translate the beat_schedule of a Celery app."""
    from oncue.cli.celery_app import header, load_app, read_celery
    from oncue.cli.imported import print_file

    with refusals({}, as_json=as_json):
        entries = list(read_celery(load_app(app)))
    print_file(name or "celery", entries, header(entries), clock.now(), as_json=as_json)


def _text_of(file: str) -> str:
    try:
        with click.open_file(file, encoding="utf-8-sig", errors="replace") as opened:
            return str(opened.read())
    except OSError as no:
        raise Invalid.of(file, "unreadable", f"cannot be read: {no.strerror}") from None
