"""The e-mail digest, against a mail server that keeps what it gets."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import socket
from typing import Any

import httpx2
import msgspec
from tests.examples.outside import mail_server
from tests.examples.server import definition, run_now, run_when

LATER = b"451 not now"
NEVER = b"550 nobody of that name"


def digest_of(folder: Path, *ages: timedelta) -> dict[str, Any]:
    """The example, of a journal with entries of these ages; what is tried again is tried soon."""
    journal, now = folder / "journal.jsonl", datetime.now(UTC)
    entries = [{"at": now - age, "text": f"Order {number} was paid"} for number, age in enumerate(ages, 1)]
    journal.write_bytes(msgspec.json.Encoder().encode_lines(entries))
    job = definition("email_digest")
    return job | {"payload": job["payload"] | {"journal": str(journal)}, "retry": {"backoff": "50ms"}}


async def test_the_mail_arrives_once_with_what_the_last_day_brought(
    client: httpx2.AsyncClient, mail_door: socket, tmp_path: Path
) -> None:
    async with mail_server(mail_door) as server:
        run_id = await run_now(client, digest_of(tmp_path, timedelta(hours=1), timedelta(hours=25), timedelta(hours=2)))
        run = await run_when(client, run_id, "succeeded")

    [mail] = server.mails
    assert (mail["To"], mail["Subject"]) == ("team@example.org", "2 new entries")
    assert "Order 1 was paid" in mail.get_content()
    assert "Order 2 was paid" not in mail.get_content()
    assert run["result"] == {"entries": 2}
    assert "2 entries for team@example.org" in (await client.get(f"/runs/{run_id}/logs")).text


async def test_a_mail_server_that_says_later_is_asked_again(
    client: httpx2.AsyncClient, mail_door: socket, tmp_path: Path
) -> None:
    async with mail_server(mail_door) as server:
        server.answers = [LATER, LATER]
        run_id = await run_now(client, digest_of(tmp_path, timedelta(hours=1)))
        run = await run_when(client, run_id, "succeeded")

    assert [mail["Message-ID"] for mail in server.mails] == [f"<{run_id}@example.org>"]
    assert [one["outcome"] for one in run["attempts"]] == ["failed", "failed", "succeeded"]


async def test_an_address_that_is_refused_for_good_is_not_tried_again(
    client: httpx2.AsyncClient, mail_door: socket, tmp_path: Path
) -> None:
    async with mail_server(mail_door) as server:
        server.answers = [NEVER]
        run_id = await run_now(client, digest_of(tmp_path, timedelta(hours=1)))
        run = await run_when(client, run_id, "dead")

    assert (server.mails, len(run["attempts"])) == ([], 1)
    assert run["error_type"] == "NoRetry"
    assert "team@example.org was refused: nobody of that name" in run["error_message"]
    letters = (await client.get("/dead-letters")).json()["dead_letters"]
    assert [letter["payload"]["to"] for letter in letters if letter["run_id"] == run_id] == ["team@example.org"]
