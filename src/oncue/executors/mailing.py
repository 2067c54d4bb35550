"""Send a notice by e-mail, through the server that the setting `smtp` names."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, parseaddr

from oncue.domain.instants import moment
from oncue.domain.messages import Message
from oncue.domain.plain_text import printable
from oncue.executors.port import TaskFailed
from oncue.settings.checks import MailServer


def mail_of(message: Message, to: Sequence[str], sender: str, message_id: str, thread: str) -> EmailMessage:
    """Build the mail: plain text. No value can add a header, because each is on one line."""
    mail = EmailMessage(policy=SMTP_POLICY)
    domain = parseaddr(sender)[1].rpartition("@")[2] or "oncue.invalid"
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Subject"] = f"[oncue] {printable(message.subject)}"[:200]
    mail["Date"] = format_datetime(moment(message.at))
    mail["Message-ID"] = f"<{message_id}@{domain}>"
    mail["References"] = f"<{thread}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join((*message.lines, "", message.heading, *message.notices)) + "\n")
    return mail


async def send_mail(
    server: MailServer, mail: EmailMessage, password: str | None, trust: ssl.SSLContext | None = None
) -> None:
    """Hand in a mail. TaskFailed: the server refused it, for now or for good, or could not be reached."""
    import aiosmtplib  # here: few workers send mail

    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=server.tls == "on",
        start_tls=server.tls == "starttls",
        tls_context=trust,
        username=server.user,
        password=password or server.password,
        timeout=20,
    )
    try:
        async with client:
            await client.send_message(mail)
    except aiosmtplib.SMTPRecipientsRefused as refused:
        codes = [one.code for one in refused.recipients]
        raise TaskFailed("MailRefused", f"no recipient was accepted: {codes}", retry=min(codes) < 500) from None
    except aiosmtplib.SMTPAuthenticationError as refused:
        raise TaskFailed("MailError", f"{server.host} refused the user or password: {refused.code}") from None
    except aiosmtplib.SMTPResponseException as refused:
        said = printable(refused.message)[:200]
        raise TaskFailed("MailRefused", f"{server.host}: {refused.code} {said}", retry=refused.code < 500) from None
    except (aiosmtplib.SMTPException, OSError, ssl.SSLError) as failed:
        raise TaskFailed("MailError", f"{server.host}:{server.port}: {printable(str(failed))[:200]}") from None
