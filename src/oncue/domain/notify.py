"""Whom to tell of what: the entries of `notify`, as users write them and as they are stored."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from oncue.domain import fields
from oncue.domain.addresses import Networks, check_url
from oncue.domain.errors import Invalid, Problem
from oncue.domain.fields import Reader, Schema, object_schema, schema_of, takes
from oncue.domain.instants import MINUTE, Duration, Instant, show_duration
from oncue.domain.secret_refs import NAME, problems_of

MOST_ENTRIES = 10
MOST_RECIPIENTS = 10
LONGEST_URL = 2_000
LONGEST_ADDRESS = 254
LONGEST_TEXT = 500

# The services' own hosts: a URL on any other host is a webhook.
CHAT_HOSTS: dict[str, tuple[str, ...]] = {
    "slack": ("hooks.slack.com", "hooks.slack-gov.com"),
    "teams": (".logic.azure.com", ".webhook.office.com", ".api.powerplatform.com"),
    "discord": ("discord.com", "discordapp.com"),
}
PLACEHOLDERS = ("job_name", "task", "status", "error_type", "scheduled_for", "url")  # in a text of the user
_BRACED = re.compile(r"\{([a-z_]+)\}")
CHANNELS = ("webhook", "email", *CHAT_HOSTS)
_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


class Event(StrEnum):
    """What can be told of a run. The last two are no part of an entry: a call asks for TEST, and MUTED tells the user's
    other targets that one gets no more.
    """

    FAILING = "failing"
    FAILED = "failed"
    DEAD = "dead"
    SUCCEEDED = "succeeded"
    RECOVERED = "recovered"
    LATE = "late"
    TEST = "test"
    MUTED = "muted"


STREAK_EVENTS = frozenset({Event.FAILING, Event.FAILED, Event.RECOVERED})  # these depend on what was before


class SecretName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret by name: the worker that sends resolves it."""

    secret: str


class Webhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where to post, and the secret that signs. None: the derived one."""

    url: str
    secret: SecretName | None = None


Place = str | SecretName


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which events to tell over which channel; exactly one channel is set."""

    on: tuple[Event, ...]
    webhook: Webhook | None = None
    email: tuple[str, ...] = ()
    slack: Place | None = None
    teams: Place | None = None
    discord: Place | None = None
    late_after: Duration = MINUTE
    text: str | None = None

    @property
    def channel(self) -> str:
        return next(name for name in CHANNELS if getattr(self, name))

    @property
    def place(self) -> str:
        """Return where it goes, as text; for a secret its name."""
        if self.webhook is not None:
            return self.webhook.url
        if self.email:
            return ", ".join(self.email)
        found: Place = getattr(self, self.channel)
        return found if isinstance(found, str) else f"secret:{found.secret}"

    @property
    def target(self) -> str:
        """Return a short name of channel and place: what is metered, and muted, together."""
        return hashlib.blake2b(f"{self.channel}\x1f{self.place}".encode(), digest_size=12).hexdigest()


class NotifyDefault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user's own: entries for jobs without `notify`, and until when nothing is told at all."""

    entries: tuple[Entry, ...] = ()
    muted_until: Instant | None = None


NO_DEFAULT = NotifyDefault()


# ------------------------------------------------------------------------------------------------------------- reading


def _secret_schema() -> Schema:
    return {
        "type": "object",
        "properties": {"secret": {"type": "string", "pattern": NAME}},
        "required": ["secret"],
        "additionalProperties": False,
    }


@takes(**_secret_schema())
def _secret(raw: Any, path: str) -> SecretName:
    if problems := tuple(problems_of(raw, path)):
        raise Invalid(*problems)
    return SecretName(raw["secret"])


_url = fields.text(LONGEST_URL)
_WEBHOOK: dict[str, Reader] = {"url": _url, "secret": _secret}


@takes(anyOf=[schema_of(_url), object_schema(_WEBHOOK, required=("url",))])
def _webhook(raw: Any, path: str) -> Webhook:
    """Read a URL, or an object with the URL and the name of its secret."""
    if isinstance(raw, str):
        return Webhook(_url(raw, path))
    if not isinstance(raw, dict):
        raise Invalid.of(path, "wrong_type", 'must be a URL, or {"url": …, "secret": {"secret": name}}')
    found = fields.object_of(raw, path, _WEBHOOK, required=("url",), nothing=frozenset({"secret"}))
    return Webhook(found["url"], found.get("secret"))


_addresses = fields.texts(MOST_RECIPIENTS, LONGEST_ADDRESS)


@takes(anyOf=[{"type": "string", "maxLength": LONGEST_ADDRESS}, schema_of(_addresses)])
def _email(raw: Any, path: str) -> tuple[str, ...]:
    if not isinstance(raw, str | list):
        raise Invalid.of(path, "wrong_type", "must be an e-mail address, or a list of them")
    found: tuple[str, ...] = _addresses([raw] if isinstance(raw, str) else raw, path)
    if not found:
        raise Invalid.of(path, "too_short", "has no address; write one, or leave the field out")
    for address in found:
        if not _EMAIL.fullmatch(address):
            raise Invalid.of(path, "bad_address", f"{address[:100]!r} is not an e-mail address like a@example.org")
    return found


def _chat(service: str) -> Reader:
    hosts = CHAT_HOSTS[service]

    @takes(anyOf=[schema_of(_url), _secret_schema()])
    def read(raw: Any, path: str) -> Place:
        if not isinstance(raw, str):
            return _secret(raw, path)
        url: str = _url(raw, path)
        found = re.match(r"https://([\w.-]+)(:\d+)?/", url, re.IGNORECASE)
        named = "" if found is None else found[1].lower()
        if not any(named == host or (host[0] == "." and named.endswith(host)) for host in hosts):
            where = " or ".join(f"https://{'…' * (host[0] == '.')}{host}/" for host in hosts)
            raise Invalid.of(path, "bad_url", f"must be a URL on {where}; for any other, use webhook")
        check_url(url, (), path)
        return url

    return read


_EVENTS = {one.value: one for one in Event if one not in (Event.TEST, Event.MUTED)}
_event = fields.choice(_EVENTS)


@takes(type="array", items=schema_of(_event), minItems=1, maxItems=len(_EVENTS), uniqueItems=True)
def _on(raw: Any, path: str) -> tuple[Event, ...]:
    if not isinstance(raw, list) or not raw or len(raw) > len(_EVENTS):
        raise Invalid.of(path, "wrong_type", 'must be a list of events, like ["failed", "recovered"]')
    return tuple(dict.fromkeys(fields.each(raw, path, _event)))


@takes(type="string", minLength=1, maxLength=LONGEST_TEXT)
def _text(raw: Any, path: str) -> str:
    """Read text of several lines: each is read like a name."""
    if not isinstance(raw, str) or not 1 <= len(raw) <= LONGEST_TEXT:
        raise Invalid.of(path, "too_long", f"must be a string of 1 to {LONGEST_TEXT} characters")
    for line in raw.split("\n"):
        if line.strip():
            fields.text(LONGEST_TEXT)(line, path)
    for name in _BRACED.findall(raw):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
            raise Invalid.of(path, "unknown_placeholder", f"has {{{name}}}; there are {known}")
    return raw


_ENTRY: dict[str, Reader] = {
    "on": _on,
    "webhook": _webhook,
    "email": _email,
    **{service: _chat(service) for service in CHAT_HOSTS},
    "late_after": fields.duration(),
    "text": _text,
}


def read_entry(raw: Any, path: str, *, test: bool = False) -> Entry:
    """Read one entry. For a test, `on` may be left out."""
    if not isinstance(raw, dict):  # whose value may be a secret: the URL of a chat
        raise Invalid.of(path, "wrong_type", 'must be an object like {"on": ["failed"], "email": "a@example.org"}')
    required = () if test else ("on",)
    found = fields.object_of(raw, path, _ENTRY, required=required, nothing=frozenset({"text"}))
    channels = [name for name in CHANNELS if name in found]
    if len(channels) != 1:
        raise Invalid.of(path, "one_channel", f"must have exactly one of {', '.join(CHANNELS)}")
    return Entry(**{"on": ()} | found)


@takes(type="array", maxItems=MOST_ENTRIES, items={"title": "Notify", **object_schema(_ENTRY, required=("on",))})
def read_notify(raw: Any, path: str) -> tuple[Entry, ...]:
    if not isinstance(raw, list):
        raise Invalid.of(
            path, "wrong_type", 'must be a list of entries, like [{"on": ["failed"], "email": "a@example.org"}]'
        )
    if len(raw) > MOST_ENTRIES:
        raise Invalid.of(path, "too_many", f"has {len(raw)} entries; at most {MOST_ENTRIES} are allowed")
    return fields.each(raw, path, read_entry)


class Policy(msgspec.Struct, frozen=True):
    """What this installation allows: private networks, plain http, and mail to these domains or addresses."""

    allow: Networks = ()
    plain: bool = False
    mail: bool = False
    mail_to: tuple[str, ...] = ()


def refused(entries: Sequence[Entry], policy: Policy, path: str, *, anybody: bool) -> list[Problem]:
    """Return why entries may not be used here. `anybody`: an administrator, who may mail to any address."""
    problems: list[Problem] = []
    for place, entry in enumerate(entries):
        try:
            _check(entry, policy, f"{path}.{place}", anybody=anybody)
        except Invalid as wrong:
            problems += wrong.problems
    return problems


def _check(entry: Entry, policy: Policy, path: str, *, anybody: bool) -> None:
    if entry.webhook is not None:
        checked = check_url(entry.webhook.url, policy.allow, f"{path}.webhook")
        if checked.scheme != "https" and not policy.plain:
            raise Invalid.of(f"{path}.webhook", "bad_url", "must start with https:// (or set webhook_plain)")
    if entry.email and not policy.mail:
        raise Invalid.of(f"{path}.email", "no_mail", "this server sends no e-mail; set smtp and smtp_from")
    for address in entry.email:
        if not anybody and not _may_mail(address, policy.mail_to):
            raise Invalid.of(f"{path}.email", "refused_address", "your role may not mail there; ask for smtp_allow_to")


def _may_mail(address: str, allowed: Sequence[str]) -> bool:
    """Return whether an address is listed, or its domain is, like @example.org."""
    lower = address.lower()
    return any(lower == one.lower() or (one[:1] == "@" and lower.endswith(one.lower())) for one in allowed)


def show_entries(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return entries as users write them."""
    shown = msgspec.to_builtins(entries)
    for entry, one in zip(entries, shown, strict=True):
        if "late_after" in one:
            one["late_after"] = show_duration(entry.late_after)
        if "email" in one:
            one["email"] = list(entry.email)
    return list(shown)
