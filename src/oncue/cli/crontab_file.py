"""Translate a crontab into jobs that run its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec

from oncue.cli.imported import Entry, key_of

SHELL = "/bin/sh"
NOT_UTF8 = "\ufffd"  # stands for bytes that could not be read
NAMED = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
LIKE_CRON = {"overlap": "allow", "catch_up": "skip", "max_retries": 0}
HEADER = (
    "Translated from a crontab by `oncue import crontab`. Look through it, then: oncue apply FILE --dry-run",
    "The commands run as the user of a worker that was started with --allow-commands; applying needs an admin key.",
    "As in cron a run may overlap the one before it, is not retried, and does not run later if an outage prevented it.",
    "cron mailed every output to MAILTO; notify tells of failures, and needs the settings smtp and smtp_from.",
)
_VARIABLE = re.compile(r"^\s*(?:\"([^\"]+)\"|'([^']+)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*?)\s*$")


class _Variables(msgspec.Struct):
    """What the lines above an entry have set."""

    machine: str  # its time zone
    zone: str
    shell: str = SHELL
    jitter: str | None = None
    mail: list[str] | None = None  # None: not said
    local_mail: str = ""  # a MAILTO that is a mailbox of the machine
    env: dict[str, str] = {}

    def set(self, name: str, value: str) -> None:
        match name:
            case "CRON_TZ":
                self.zone = value or self.machine
            case "SHELL":
                self.shell = value
            case "RANDOM_DELAY":
                self.jitter = f"{value}m"
            case "MAILTO":
                given = [one.strip() for one in value.split(",") if one.strip()]
                self.mail = [one for one in given if "@" in one] or (None if given else [])
                self.local_mail = ", ".join(one for one in given if "@" not in one)
            case _:
                self.env = {**self.env, name: value}


def read_crontab(text: str, zone: str, *, system: bool = False) -> Iterator[Entry]:
    """Read the entries. `system`: the sixth column is a user, as in /etc/crontab. `zone` is that of the machine."""
    variables = _Variables(zone, zone)
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (found := _VARIABLE.match(line)) is not None:
            quoted, also, plain, value = found.groups()
            variables.set(quoted or also or plain, _unquoted(value))
        else:
            yield _entry(line.strip(), variables, system=system)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _entry(line: str, variables: _Variables, *, system: bool) -> Entry:
    if NOT_UTF8 in line:
        return Entry(line, notes=("not translated: the line is not UTF-8; convert the file, as with iconv",))
    times = 1 if line.startswith("@") else 5
    parts = line.split(None, times + system)
    if len(parts) <= times + system:
        wanted = "times, a user and a command" if system else "times and a command"
        return Entry(line, notes=(f"not translated: an entry has {wanted}",))
    when, command = " ".join(parts[:times]).lower(), parts[-1]
    if when == "@reboot":
        return Entry(line, notes=("not translated: oncue has no event for a boot; a service manager does this",))
    if when.startswith("@") and when not in NAMED:
        return Entry(line, notes=(f"not translated: {when} is no schedule that oncue has",))
    notes = [f"ran as {parts[times]}; here it runs as the worker's user"] if system else []
    if variables.local_mail:
        notes.append(f"not translated: MAILTO={variables.local_mail} is no e-mail address; write notify yourself")
    command, stdin = _split(command)
    job: dict[str, Any] = {"key": key_of(_program(command)), "task": "command", "schedule": _schedule(when, variables)}
    job["payload"] = _payload(command, stdin, variables)
    if variables.mail is not None:
        job["notify"] = [{"on": ["failed", "recovered"], "email": variables.mail}] if variables.mail else []
    return Entry(line, {**job, **LIKE_CRON}, tuple(notes))


def _schedule(when: str, variables: _Variables) -> dict[str, str]:
    schedule = {"cron": when, "timezone": variables.zone}
    return schedule | ({} if variables.jitter is None else {"jitter": variables.jitter})


def _payload(command: str, stdin: str | None, variables: _Variables) -> dict[str, Any]:
    payload: dict[str, Any] = {"argv": [variables.shell, "-c", command]}
    if variables.env:
        payload["env"] = dict(variables.env)
    if "HOME" in variables.env:
        payload["cwd"] = variables.env["HOME"]
    return payload if stdin is None else payload | {"stdin": stdin}


def _split(command: str) -> tuple[str, str | None]:
    r"""Split at the first `%`: what follows is standard input, each further `%` a new line; `\%` is a percent sign."""
    first, *more = (part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", command))
    return first.strip(), "\n".join(more) + "\n" if more else None


def _program(command: str) -> str:
    """Return the name of what the command starts, without variables in front of it."""
    words = [word for word in command.split() if not re.match(r"^[A-Za-z_]\w*=", word)]
    return PurePath(words[0].strip("\"'();")).name if words else "job"
