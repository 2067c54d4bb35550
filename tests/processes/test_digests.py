"""A message is one thing: the worker that sends a digest is killed before the answer, again and again."""

from __future__ import annotations

import asyncio
import email
import os
import re
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email import policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from aiosmtpd.controller import Controller
from tests.processes.fleet import FINAL, LONG, Fleet, Member, free_port, only_in_the_long_version, until

pytestmark = pytest.mark.kills

KILLS = 20 if LONG else 2
EVERY = 0.4  # seconds between two failures
GUARDED = ("--http-allow", "127.0.0.1/32", "--webhook-plain")
SMTP = ("--smtp-from", "oncue@example.org", "--smtp")
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Receiver:
    """Takes messages, by HTTP or mail. Armed, it takes the next digest that it has not seen, and does not answer."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []  # ids of messages, with what they say
        self.armed = False
        self.in_hand: str | None = None  # the digest that is not answered
        self._given_up = threading.Event()
        self._lock = threading.Lock()

    def take(self, message_id: str, text: str, *, digest: bool) -> None:
        """Return when it may be answered."""
        with self._lock:
            silent = self.armed and digest and message_id not in self.counts
            self.taken.append((message_id, text))
            if silent:
                self.armed, self.in_hand = False, message_id
        if silent:
            self._given_up.wait(60)

    def arm(self) -> None:
        self._given_up.clear()
        self.in_hand, self.armed = None, True

    def let_go(self) -> None:
        self._given_up.set()

    @property
    def counts(self) -> dict[str, int]:
        ids = [message_id for message_id, _ in self.taken]
        return {message_id: ids.count(message_id) for message_id in ids}


class Http(ThreadingHTTPServer):
    """A webhook, or a chat; a chat's message has no id but the first that it lists."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.receiver = receiver

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Http

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        message_id = self.headers["webhook-id"] or notices_of(text)[0]
        self.server.receiver.take(message_id, text, digest="notices in one" in text or '"type":"digest"' in text)
        with suppress(OSError):  # whoever sent it was killed
            self.send_response(204)
            self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Mail:
    """An SMTP server's handler."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:  # noqa: N802 (aiosmtpd's name)
        mail = email.message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        text = f"{mail['subject']}\n{mail['date']}\n{mail['references']}\n{mail.get_content()}"
        digest = "notices in one" in text
        await asyncio.to_thread(self._receiver.take, mail["message-id"], text, digest=digest)
        return "250 OK"


class Place(NamedTuple):
    """Where messages go: an entry of `notify`, and what a worker that sends them needs for it."""

    receiver: Receiver
    entry: dict[str, Any]
    options: tuple[str, ...]
    env: dict[str, str]


@pytest.fixture(
    params=[
        "webhook",
        pytest.param("email", marks=only_in_the_long_version),
        pytest.param("slack", marks=only_in_the_long_version),
    ]
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    receiver = Receiver()
    with Http(receiver) as server, mail_server(receiver) as mail:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        entry: dict[str, Any] = {
            "webhook": {"webhook": server.url},
            "email": {"email": "ops@example.org"},
            "slack": {"slack": {"secret": "chat"}},
        }[request.param]
        yield Place(receiver, entry, (*GUARDED, *SMTP, mail), {"ONCUE_SECRET_CHAT": server.url})
        receiver.let_go()
        server.shutdown()
        thread.join()


@contextmanager
def mail_server(receiver: Receiver) -> Iterator[str]:
    """Its URL, without TLS."""
    controller = Controller(Mail(receiver), hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        yield f"smtp://127.0.0.1:{controller.port}?tls=off"
    finally:
        controller.stop()


@pytest.fixture
def failing(any_fleet: Fleet, place: Place) -> Iterator[Callable[[], None]]:
    """Runs die every 0.4 s from now on; called: no more."""
    fleet, over = any_fleet, threading.Event()
    fleet.start("up", "--no-notify", "--notify-rate", "60", "--concurrency", "20", *place.options)
    fleet.ready(workers=1)
    job = {"task": "fail", "name": "backup", "max_retries": 0, "notify": [{"on": ["dead"], **place.entry}]}

    def fail_on() -> None:
        while not over.wait(EVERY):
            fleet.call("POST", "/jobs", job)

    thread = threading.Thread(target=fail_on, daemon=True)
    thread.start()

    def stop() -> None:
        over.set()
        thread.join()

    yield stop
    stop()


def test_a_message_stays_what_it_is_although_its_senders_are_killed(
    any_fleet: Fleet, place: Place, failing: Callable[[], None]
) -> None:
    """No notice under two ids, no id with two contents, and every notice is told."""
    fleet, receiver = any_fleet, place.receiver
    worker, killed = teller(fleet, place), list[str]()
    for number in range(KILLS):
        receiver.arm()
        until(lambda: receiver.in_hand, "a digest is sent", fleet.tell)
        killed.append(receiver.in_hand or "")
        other = teller(fleet, place)
        kill(worker, whole=number % 2 == 0)
        worker = other
        sent_again(fleet, receiver, killed[-1])
    failing()
    until(lambda: not waiting(fleet), "every notice is done", fleet.tell)

    contents: dict[str, set[str]] = defaultdict(set)
    messages_of: dict[str, set[str]] = defaultdict(set)
    for message_id, text in receiver.taken:
        contents[message_id].add(text)
        for notice in notices_of(text):
            messages_of[notice].add(message_id)
    told = {run["run_id"] for run in notices_in(fleet)}
    print(f"{KILLS} kills, {len(told)} notices, {len(contents)} messages, {len(receiver.taken)} deliveries")
    assert [message_id for message_id in killed if receiver.counts[message_id] < 2] == []
    assert [message_id for message_id, texts in contents.items() if len(texts) > 1] == []
    assert [notice for notice, messages in messages_of.items() if len(messages) > 1] == []
    assert messages_of.keys() == told
    assert {run["status"] for run in notices_in(fleet)} == {"succeeded"}


def sent_again(fleet: Fleet, receiver: Receiver, message_id: str) -> None:
    """Wait for it; not any more once six others have come."""
    receiver.let_go()
    enough = len(receiver.taken) + 6
    until(lambda: receiver.counts[message_id] > 1 or len(receiver.taken) >= enough, "it is sent again", fleet.tell)


def teller(fleet: Fleet, place: Place) -> Member:
    known = len(fleet.workers())
    member = fleet.start("worker", "--only-notify", "--lease", "3s", *place.options, env=place.env)
    until(lambda: len(fleet.workers()) > known, "it is registered", fleet.tell)
    return member


def kill(worker: Member, *, whole: bool) -> None:
    """Kill the process that sends, or the one that watches it, too."""
    if not whole and worker.inner is not None:
        os.kill(worker.inner, signal.SIGKILL)
    worker.kill()


def notices_in(fleet: Fleet) -> list[dict[str, Any]]:
    found = fleet.call("GET", "/runs?system=true&limit=1000")
    assert not found["next_page_token"]
    return [run for run in found["runs"] if run["task"] == "notify"]


def waiting(fleet: Fleet) -> bool:
    return any(run["status"] not in FINAL for run in notices_in(fleet))


def notices_of(text: str) -> list[str]:
    """Return the ids of all notices that a message says it tells of."""
    if '"data":' in text:
        return re.findall(rf'"notice_id":"({ID.pattern})"', text.partition('"notices":')[2] or text)
    return ID.findall(text[max(text.rfind("Notice:"), text.rfind("Notices:")) :])
