"""What a notice says, in words and as JSON: one template for each event, for every channel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from oncue.domain.instants import Instant, rfc3339
from oncue.domain.notices import MOST_WAITING, Told
from oncue.domain.notify import PLACEHOLDERS, Event
from oncue.domain.plain_text import printable

MOST_NAMED = 10  # notices of a digest
LONGEST = 1_500  # characters of a message in a chat
LARGEST_BODY = 20_000  # bytes of a webhook's body

_HAPPENED = {
    Event.FAILING: "is failing; the attempt will be retried",
    Event.FAILED: "failed",
    Event.DEAD: "failed",
    Event.SUCCEEDED: "succeeded",
    Event.RECOVERED: "succeeded again",
    Event.LATE: "has not started in time",
    Event.TEST: "this is a test",
    Event.MUTED: "gets no more notices: too many could not be delivered",
}
_NO_RUN = (Event.TEST, Event.MUTED)


class Message(msgspec.Struct, frozen=True):
    """A notice, or a digest of several, as it is sent. `lines` is the text below the subject."""

    subject: str
    lines: tuple[str, ...]
    body: bytes  # of a webhook
    kind: str  # of the event, like run.failed
    at: Instant  # when it was put together
    notices: tuple[str, ...]  # the ids of all that it tells of

    @property
    def text(self) -> str:
        return "\n".join((self.subject, "", *self.lines))

    @property
    def heading(self) -> str:
        """Return what stands before the ids of its notices."""
        return "Notice:" if len(self.notices) == 1 else "Notices:"


def message_of(told: Sequence[Told], public_url: str, now: Instant, dropped: int = 0) -> Message:
    """Put together what one or several notices for the same target say. `dropped`: how many are not among them."""
    if len(told) == 1:
        return _single(told[0], public_url, now)
    return _digest(told, public_url, now, dropped)


def _single(told: Told, public_url: str, now: Instant) -> Message:
    kind = _kind(told)
    body = _encode({"type": kind, "timestamp": rfc3339(now), "data": _data(told, public_url)})
    return Message(_subject(told), tuple(_lines(told, public_url)), body, kind, now, (str(told.notice_id),))


def _digest(told: Sequence[Told], public_url: str, now: Instant, dropped: int) -> Message:
    counted = Counter((_name(one), one.event.value, one.error_type or "") for one in told)
    by_job = [
        {"job": name, "event": event, "error_type": error or None, "count": n}
        for (name, event, error), n in counted.most_common(MOST_NAMED)
    ]
    lines = [f"{one['count']} × {one['job']}: {one['event']} {one['error_type'] or ''}".rstrip() for one in by_job]
    if (more := len(counted) - len(by_job)) > 0:
        lines.append(f"and {more} more")
    if dropped:
        lines.append(f"{dropped} more of your notices were dropped, because {MOST_WAITING:,} waited already")
    lines += ["", *(f"{_subject(one)} ({one.run_id})" for one in told[:MOST_NAMED])]
    first = [_data(one, public_url) for one in told[:MOST_NAMED]]
    all_of_them = [{"notice_id": one.notice_id, "type": _kind(one), "run_id": one.run_id} for one in told]
    while True:
        data = {"count": len(told), "dropped": dropped, "by_job": by_job, "first": first, "notices": all_of_them}
        body = _encode({"type": "digest", "timestamp": rfc3339(now), "data": data})
        if len(body) <= LARGEST_BODY or not (first or by_job):
            break
        first, by_job = first[:-1], by_job if first else by_job[:-1]
    listed = tuple(str(one.notice_id) for one in told)
    return Message(f"{len(told)} notices in one", tuple(lines), body, "digest", now, listed)


_encode = msgspec.json.Encoder().encode


def _kind(told: Told) -> str:
    return f"run.{told.event}" if told.event not in _NO_RUN else told.event.value


def _data(told: Told, public_url: str) -> dict[str, Any]:
    streak = told.streak
    return {
        "notice_id": told.notice_id,
        "job_id": told.job_id,
        "name": told.name,
        "run_id": told.run_id,
        "task": told.task,
        "status": told.status,
        "scheduled_for": _time(told.scheduled_for),
        "start_time": _time(told.start_time),
        "end_time": _time(told.end_time),
        "attempt_number": told.attempt_number,
        "lag_ms": told.lag_ms,
        "error_type": told.error_type,
        "error_message": told.error_message,
        "streak": None if streak is None else {"since": _time(streak.since), "runs": streak.runs},
        "missed": told.missed,
        "text": said_by(told, public_url) or None,
        "url": url_of(told, public_url) or None,
    }


def _time(at: Instant | None) -> str | None:
    return None if at is None else rfc3339(at)


def url_of(told: Told, public_url: str) -> str:
    """Return the link to the run; empty without `public_url`."""
    if not public_url or told.event in _NO_RUN:
        return ""
    where = f"jobs/{told.job_id}" if told.missed else f"runs/{told.run_id}"
    return f"{public_url.rstrip('/')}/v1/{where}"


def _name(told: Told) -> str:
    return printable(told.name or told.task)


def _subject(told: Told) -> str:
    if told.missed:
        return f"{_name(told)}: {told.missed} occurrence{'s' * (told.missed > 1)} missed"
    if told.status == "expired":
        return f"{_name(told)} expired: it could not start in time"
    return (
        f"{_name(told)}: {_HAPPENED[told.event]}"
        if told.event is Event.TEST
        else f"{_name(told)} {_HAPPENED[told.event]}"
    )


def _lines(told: Told, public_url: str) -> list[str]:
    streak = told.streak
    since = (
        ""
        if streak is None
        else f"{_time(streak.since)} ({streak.runs} run{'s' * (streak.runs != 1)} ended without success)"
    )
    error = f"{told.error_type or ''}: {told.error_message or ''}".strip(": ")
    found = {
        "Task": told.task,
        "Scheduled for": _time(told.scheduled_for),
        "Started": _time(told.start_time),
        "Ended": _time(told.end_time),
        "Attempt": str(told.attempt_number) if told.attempt_number else None,
        "Error": error,
        "Failing since" if told.event is not Event.RECOVERED else "Failed since": since,
        "Job": str(told.job_id),
        "Run": None if told.missed else str(told.run_id),
        "Look": url_of(told, public_url),
    }
    lines = [f"{name}: {value}" for name, value in found.items() if value]
    return [said_by(told, public_url), "", *lines] if told.entry.text else lines


_PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")


def said_by(told: Told, public_url: str) -> str:
    """Return the user's own words with the placeholders replaced, once: what is put in is not looked at again."""
    values: dict[str, Callable[[], str]] = {
        "job_name": lambda: _name(told),
        "task": lambda: printable(told.task),
        "status": lambda: told.status,
        "error_type": lambda: printable(told.error_type or ""),
        "scheduled_for": lambda: _time(told.scheduled_for) or "",
        "url": lambda: url_of(told, public_url),
    }
    return _PLACEHOLDER.sub(lambda found: values[found[1]](), told.entry.text or "")


# ------------------------------------------------------------------------------------------------------------ chats


def chat_body(service: str, message: Message) -> bytes:
    """Return the JSON of a message for a chat: nothing in it is markup or mentions anybody."""
    text, ids = message.text[:LONGEST], " ".join((message.heading, *message.notices))
    match service:
        case "slack":
            plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return _encode({"text": f"{plain}\n{ids}", "mrkdwn": False})
        case "discord":
            plain, last = (re.sub(r"([\\*_~`|>\[\]()#<@:-])", r"\\\1", one) for one in (text, ids))
            return _encode({"content": f"{plain[: 1_990 - len(last)]}\n{last}", "allowed_mentions": {"parse": []}})
        case _:
            return _encode({"type": "message", "attachments": [_card(text, ids)]})


def _card(text: str, ids: str) -> dict[str, Any]:
    """Build a card for Teams: each line a block, since its text knows a little markup."""
    plain, last = (re.sub(r"([\\*_\[\]()#<>`~|-])", r"\\\1", one) for one in (text, ids))
    lines = [line for line in plain.split("\n") if line.strip()][:19]
    blocks = [{"type": "TextBlock", "text": line, "wrap": True} for line in (*lines, last)]
    card = {"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4"}
    return {"contentType": "application/vnd.microsoft.card.adaptive", "content": {**card, "body": blocks}}
