"""Names that other tools have for what oncue calls otherwise: commands, options, fields of a job, verbs of a task.

Each table maps words to what is probably meant by them. Only these words and names that are spelled much like the one
typed are suggested; a guess beyond that would mislead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

ALIKE = 0.7  # of 1: `tiemout` is like `timeout`, `logs` is not like `login`
MOST = 3  # commands that are suggested


def _by_word(rows: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for words, meant in rows.items():
        for word in words.split():
            found[word] = (*found.get(word, ()), *meant)
    return found


_COMMANDS: Final = _by_word(
    {
        "list ls all": ("jobs list", "runs list"),
        "show get describe view": ("jobs show", "runs show"),
        "log logs tail output": ("runs logs",),
        "retry rerun requeue replay": ("runs retry", "dead requeue"),
        "status health info state": ("problems", "top"),
        "check": ("doctor", "problems"),
        "ps active running inspect": ("top", "runs list --status running"),
        "start serve server run-server runserver": ("up", "dev"),
        "start run trigger execute fire": ("jobs run", "enqueue"),
        "run": ("runs",),
        "stop abort kill terminate revoke": ("runs cancel", "jobs cancel"),
        "stop disable suspend": ("jobs pause",),
        "cancel": ("jobs cancel", "runs cancel"),
        "delete remove rm destroy": ("jobs cancel", "dead discard", "keys revoke", "context remove"),
        "purge flush clear": ("dead discard --all", "runs cancel --all"),
        "pause": ("jobs pause", "queues pause"),
        "resume unpause enable continue": ("jobs resume", "queues resume", "workers resume"),
        "submit send call delay add new create": ("enqueue", "jobs create", "keys create"),
        "edit update change modify set": ("jobs edit",),
        "schedules": ("jobs list",),
        "schedule cron crontab": ("jobs create", "preview"),
        "explain why": ("jobs explain", "runs explain"),
        "wait": ("runs wait",),
        "history": ("runs list", "jobs occurrences"),
        "failed failures dlq": ("dead list", "errors"),
        "beat clock": ("scheduler",),
        "flower monitor dashboard ui web": ("top", "up"),
        "migrations upgrade init": ("migrate",),
        "metrics": ("stats",),
        "token tokens user users apikey": ("keys create", "keys list"),
    }
)
_OPTIONS: Final = _by_word(
    {
        "--cron --crontab --every --interval --when": ("--schedule",),
        "--delay --countdown --eta": ("--in", "--at"),
        "--tz --zone": ("--timezone",),
        "--args --kwargs --params --data --body": ("--payload",),
        "--retries --attempts": ("--max-retries",),
        "--since --after --start": ("--from",),
        "--before --end": ("--until", "--to"),
        "--force --no-confirm --no-input": ("--yes",),
        "--format": ("--output",),
        "--lines -n": ("--tail", "--limit"),
        "--block --sync": ("--wait",),
        "--server --address": ("--url",),
        "--app --module -A": ("--tasks",),
        "--pool -c": ("--threads",),
        "-Q": ("--queues",),
        "--database --db --dsn --broker": ("--engine",),
        "--bind": ("--host",),
    }
)
_FIELDS: Final = _by_word(
    {
        "timezone tz": ("schedule.timezone",),
        "cron crontab every interval": ("schedule",),
        "time_limit soft_time_limit": ("timeout",),
        "retries max_attempts": ("max_retries",),
        "backoff retry_backoff default_retry_delay": ("retry.backoff",),
        "rate_limit": ("rate",),
        "expires misfire_grace_time": ("start_within",),
        "max_instances": ("concurrency",),
        "coalesce": ("catch_up",),
        "dont_autoretry_for": ("no_retry_on",),
        "args kwargs params": ("payload",),
    }
)
_IN_PYTHON: Final = {
    "schedule": 'schedule=cron("0 9 * * *")',
    "schedule.timezone": 'schedule=cron("0 9 * * *", "Europe/Berlin")',
    "retry.backoff": 'retry={"backoff": "2s"}',
}
_VERBS: Final = _by_word(
    {
        "delay apply_async send defer defer_async perform_async kiq enqueue_async submit": ("enqueue",),
        "send_with_options": ("enqueue",),
        "apply": ("run",),
        "s si signature subtask message": ("bind",),
        "delay_for perform_in": ("enqueue_in",),
        "perform_at": ("enqueue_at",),
        "options configure with_options set": ("using",),
    }
)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is spelled most like this one. None: none is much like it."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=ALIKE)), None)


def command_meant(name: str, known: Iterable[str], group: str) -> tuple[str, ...]:
    """Return commands, without `oncue`, that are probably meant by a name that the group does not have.

    `group` is empty for `oncue` itself. Commands of the group go before others."""
    meant = _COMMANDS.get(name.lower(), ())
    inside = tuple(one for one in meant if group and one.startswith(f"{group} "))
    if inside or (meant and not group):
        return (inside or meant)[:MOST]
    close = nearest(name, known)
    return (f"{group} {close}".strip(),) if close else meant[:MOST]


def option_meant(name: str, known: Iterable[str]) -> str | None:
    """Return the known option that is probably meant by one that a command does not have."""
    options = {option.lstrip("-"): option for option in known if option.startswith("--")}
    meant = next((option for option in _OPTIONS.get(name, ()) if option.lstrip("-") in options), None)
    close = nearest(name.lstrip("-"), options) if name.startswith("--") else None
    return meant or (close and options[close])


def did_you_mean(name: str, known: Iterable[str], *, in_python: bool = False) -> str:
    """Return advice for the name of a field that is not among the known ones."""
    names = list(known)
    meant = next((field for field in _FIELDS.get(name, ()) if field.partition(".")[0] in names), None)
    if in_python and meant in _IN_PYTHON:
        return f"write {_IN_PYTHON[meant]}"
    meant = meant or nearest(name, names)
    return "check the spelling" if meant is None else f"did you mean {meant!r}?"


def verb_meant(name: str) -> str | None:
    """Return the verb of a task that is called otherwise elsewhere."""
    return next(iter(_VERBS.get(name, ())), None)
