"""An e-mail digest: what a journal noted in the day before the mail is due.

The journal is a file with one JSON object on each line: {"at": "2027-01-04T08:15:00Z", "text": "Order 17 was paid"}.
Mail goes out through the server that SMTP_HOST and SMTP_PORT name in the worker's environment.
"""

from __future__ import annotations

import os
import smtplib
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import msgspec

from oncue import Context, NoRetry, Tasks

PATIENCE = 20  # seconds that the mail server may be silent

tasks = Tasks()


class Entry(msgspec.Struct):
    at: datetime
    text: str


# A plain function, since smtplib waits: it runs in a thread. What it raises is tried again, up to five times.
@tasks.task("email_digest", timeout="2m", max_retries=5, retry={"backoff": "10s", "max_backoff": "10m"})
def email_digest(ctx: Context, to: str, sender: str, journal: str) -> dict[str, int]:
    entries = noted_before(ctx.scheduled_for, Path(journal))
    if entries:
        send(digest(entries, to, sender, key=ctx.idempotency_key))
    ctx.log.info("%d entries for %s", len(entries), to)
    return {"entries": len(entries)}


def noted_before(due: datetime, journal: Path) -> list[Entry]:
    """Counted from the nominal time, which is the same however late this attempt is."""
    entries = msgspec.json.Decoder(Entry).decode_lines(journal.read_bytes())
    return [entry for entry in entries if due - timedelta(days=1) <= entry.at < due]


def digest(entries: list[Entry], to: str, sender: str, key: str) -> EmailMessage:
    """A run may be tried twice though its mail went out. With one Message-ID for all tries, it is seen as one mail."""
    mail = EmailMessage()
    mail["From"], mail["To"] = sender, to
    mail["Subject"] = f"{len(entries)} new entries"
    mail["Message-ID"] = f"<{key}@{sender.rpartition('@')[2]}>"
    mail.set_content("".join(f"{entry.at:%H:%M} {entry.text}\n" for entry in entries))
    return mail


def send(mail: EmailMessage) -> None:
    host, port = os.environ.get("SMTP_HOST", "localhost"), int(os.environ.get("SMTP_PORT", "25"))
    with smtplib.SMTP(host, port, timeout=PATIENCE) as server:
        try:
            server.send_message(mail)
        except smtplib.SMTPRecipientsRefused as refused:
            [(code, answer)] = refused.recipients.values()
            if code >= 500:  # for good: asking again only annoys
                raise NoRetry(f"{mail['To']} was refused: {answer.decode(errors='replace')}") from None
            raise
