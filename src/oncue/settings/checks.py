"""What is wrong with settings, beyond their types and ranges: found before anything is opened or started."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from oncue.domain.errors import Invalid, Problem
from oncue.settings import Settings

ROLES = ("admin", "member", "viewer")
ENGINES = ("sqlite:///", "postgresql://", "postgres://")
_MAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_PORTS = {"smtp": 587, "smtps": 465}


def check_settings(settings: Settings) -> Settings:
    """Return the settings. Invalid: all that is wrong with them."""
    problems = [Problem(name, "bad_setting", message) for name, is_right, message in _RULES if not is_right(settings)]
    problems += _of_mail_server(settings.smtp)
    if problems:
        raise Invalid(*problems)
    return settings


def _of_mail_server(url: str) -> tuple[Problem, ...]:
    try:
        mail_server(url)
    except Invalid as wrong:
        return wrong.problems
    return ()


class MailServer(msgspec.Struct, frozen=True):
    """Where and how to hand in mail. `password_secret` names the secret with the password, if the URL has none."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    password_secret: str | None = None
    tls: str = "starttls"  # or "on", from the first byte, or "off"


def mail_server(url: str) -> MailServer | None:
    """Read the setting. None: no mail is sent. Invalid: it is no URL of a mail server."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
        asked = {name: values[-1] for name, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()}
        port = parts.port or _PORTS[parts.scheme]
    except (KeyError, ValueError):
        raise _wrong() from None
    if not parts.hostname or asked.keys() - {"tls", "secret"} or asked.get("tls", "on") not in ("on", "off"):
        raise _wrong()
    if parts.path not in ("", "/") or parts.fragment:  # of a password that has these characters
        raise _wrong()
    how = "on" if parts.scheme == "smtps" else "off" if asked.get("tls") == "off" else "starttls"
    user, password = (None if one is None else unquote(one) for one in (parts.username, parts.password))
    return MailServer(parts.hostname, port, user, password, asked.get("secret"), how)


def _wrong() -> Invalid:
    example = "smtp://user:password@host:587, smtps://host:465, or with ?tls=off or ?secret=NAME"
    advice = f"write {example}, and special characters of the password as %XX"
    return Invalid.of("smtp", "bad_url", f"is not the URL of a mail server; {advice}")


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
