"""The check of webhooks: an independent library signs, ours checks; and whatever was changed is refused."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook as Independent

from oncue.client.webhooks import WebhookRefused, verify

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = b'{"type":"run.failed","timestamp":"2026-11-17T00:00:00.000Z","data":{"name":"backup"}}'


def signed(at: float, body: bytes = BODY, secret: str = SECRET, message_id: str = "m-1") -> dict[str, str]:
    signature = Independent(secret).sign(message_id, datetime.fromtimestamp(at, UTC), body.decode())
    return {"webhook-id": message_id, "webhook-timestamp": str(int(at)), "webhook-signature": signature}


def test_what_the_independent_library_signs_is_taken() -> None:
    event = verify(BODY, signed(time.time()), SECRET)

    assert (event.webhook_id, event.type, event.data) == ("m-1", "run.failed", {"name": "backup"})


def test_every_notice_that_a_message_tells_of_has_an_id() -> None:
    alone = b'{"type":"run.failed","timestamp":"2026-11-17T00:00:00.000Z","data":{"notice_id":"n-1"}}'
    digest = b'{"type":"digest","timestamp":"","data":{"notices":[{"notice_id":"n-1"},{"notice_id":"n-2"}]}}'

    found = [verify(body, signed(1_000, body), SECRET, now=1_000).notice_ids for body in (BODY, alone, digest)]
    assert found == [["m-1"], ["n-1"], ["n-1", "n-2"]]


def test_names_of_headers_are_taken_in_any_case_and_one_of_two_signatures_suffices() -> None:
    headers = {name.title(): value for name, value in signed(1_000).items()}
    other = signed(1_000, secret="whsec_" + base64.b64encode(b"x" * 32).decode())["webhook-signature"]
    headers["Webhook-Signature"] = f"v2,abc {other} {headers['Webhook-Signature']}"

    assert verify(BODY, headers, SECRET, now=1_000).webhook_id == "m-1"


@pytest.mark.parametrize("late", [-301, 301])
def test_a_replay_is_refused(late: int) -> None:
    headers = signed(10_000)

    assert verify(BODY, headers, SECRET, now=10_000 + late // 2)
    with pytest.raises(WebhookRefused, match="too long ago"):
        verify(BODY, headers, SECRET, now=10_000 + late)
    assert verify(BODY, headers, SECRET, tolerance=1_000, now=10_000 + late)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-id", "m-2"),
        ("webhook-timestamp", "10001"),
        ("webhook-timestamp", "soon"),
        ("webhook-signature", "v1,AAAA"),
        ("webhook-signature", "v1,not base64"),
        ("webhook-signature", ""),
        ("webhook-id", None),
        ("webhook-signature", None),
    ],
)
def test_a_forgery_is_refused(name: str, value: str | None) -> None:
    headers = signed(10_000)
    del headers[name]
    if value is not None:
        headers[name] = value
    with pytest.raises(WebhookRefused):
        verify(BODY, headers, SECRET, now=10_000)


def test_another_body_or_secret_is_refused() -> None:
    headers = signed(10_000)
    with pytest.raises(WebhookRefused):
        verify(BODY + b" ", headers, SECRET, now=10_000)
    with pytest.raises(WebhookRefused):
        verify(BODY, headers, "whsec_" + base64.b64encode(b"y" * 32).decode(), now=10_000)
    with pytest.raises(ValueError, match="base64"):
        verify(BODY, headers, "whsec_?", now=10_000)
    for none in ("", "whsec_", None):
        with pytest.raises(ValueError, match="the secret"):  # with an empty key anyone could sign
            verify(BODY, headers, none, now=10_000)  # type: ignore[arg-type]  # what a missing variable gives
