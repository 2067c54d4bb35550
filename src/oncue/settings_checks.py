"""What is wrong with settings, beyond their types and ranges: found before anything is opened or started."""

from __future__ import annotations

import re
from collections.abc import Callable

from oncue.domain.errors import Invalid, Problem
from oncue.settings import Settings

ROLES = ("admin", "member", "viewer")
ENGINES = ("sqlite:///", "postgresql://", "postgres://")
_MAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")


def check_settings(settings: Settings) -> Settings:
    """Return the settings. Invalid: all that is wrong with them."""
    problems = [Problem(name, "bad_setting", message) for name, is_right, message in _RULES if not is_right(settings)]
    problems += _of_mail_server(settings.smtp)
    if problems:
        raise Invalid(*problems)
    return settings


def _of_mail_server(url: str) -> tuple[Problem, ...]:
    if not url:
        return ()
    from oncue.executors.mailing import mail_server  # here: few processes send mail

    try:
        mail_server(url)
    except Invalid as wrong:
        return wrong.problems
    return ()


def _roles(name: str) -> Callable[[Settings], bool]:
    return lambda settings: set(getattr(settings, name)) <= set(ROLES)


def _mails_from(settings: Settings) -> bool:
    """An address, alone or in brackets after a name."""
    sender = settings.smtp_from
    return not sender or _MAIL.fullmatch(sender.rpartition("<")[2].rstrip(">").strip()) is not None


_RULES: tuple[tuple[str, Callable[[Settings], bool], str], ...] = (
    (
        "engine",
        lambda settings: settings.engine.startswith(ENGINES),
        "is not a supported engine: write sqlite:///file.db or postgresql://user@host/database",
    ),
    ("data_dir", lambda settings: bool(settings.data_dir.strip()), "is empty; name a folder"),
    ("secret_roles", _roles("secret_roles"), f"may have {', '.join(ROLES)}"),
    ("command_roles", _roles("command_roles"), f"may have {', '.join(ROLES)}"),
    (
        "public_url",
        lambda settings: not settings.public_url or settings.public_url.lower().startswith(("https://", "http://")),
        "must start with https:// or http://",
    ),
    ("smtp_from", _mails_from, "must be an address, like oncue@example.org or oncue <oncue@example.org>"),
    (
        "smtp_allow_to",
        lambda settings: all("@" in one for one in settings.smtp_allow_to),
        "must be addresses, like a@example.org, or domains, like @example.org",
    ),
)
