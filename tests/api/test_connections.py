"""Connections that say nothing, little, too much, or do not listen: none shuts the door to others."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection

import pytest
from tests.api.listening import House, listening
from tests.api.test_wire import BODY, length, request, serves

from oncue.api.http import connection, server
from oncue_conformance.store import EmptyStore

SOON = 60.0  # seconds: a deadline far beyond what a healthy machine needs
MOST = 20
ENDLESS = 4 * 1024**3  # bytes that somebody says they send
BUFFERED = 40 * 1024 * 1024  # bytes that the system takes for a receiver that reads nothing: tcp_rmem, tcp_wmem
TOO_LARGE = b" " * (9 * 1024 * 1024 + 1)
SMALL = 65_536
SLOW = 10 * 1024 * 1024  # bytes in a second


@pytest.fixture
def house(empty_sqlite: EmptyStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(connection, "HEAD_WITHIN", 0.5)
    monkeypatch.setattr(connection, "READ_WITHIN", 0.5)
    monkeypatch.setattr(connection, "LINGER", 0.5)
    with listening(empty_sqlite) as house:
        yield house


@pytest.fixture
def small_house(empty_sqlite: EmptyStore) -> Iterator[House]:
    with listening(empty_sqlite, MOST) as house:
        yield house


def connect(house: House) -> socket.socket:
    return socket.create_connection(("127.0.0.1", house.port), timeout=SOON)


def answer_on(wire: socket.socket) -> bytes:
    """One answer, read whole."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += wire.recv(65_536)
    head, _, body = said.partition(b"\r\n\r\n")
    [size] = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < size:
        body += wire.recv(65_536)
    return head


def is_cut_off(wire: socket.socket, drip: bytes = b"") -> bool:
    until = time.monotonic() + SOON
    wire.settimeout(0.1)
    while time.monotonic() < until:
        try:
            wire.sendall(drip)
            if wire.recv(65_536) == b"":
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def get(house: House, path: bytes = b"/v1/me", *headers: bytes) -> bytes:
    return request(house, *headers, line=b"GET " + path + b" HTTP/1.1", body=b"")


# -------------------------------------------------------------------------------------------------------- saying little


def test_who_says_nothing_or_half_a_head_is_cut_off_also_when_it_drips(house: House) -> None:
    with connect(house) as silent, connect(house) as half, connect(house) as dripping:
        half.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: on")
        dripping.sendall(b"GET /v1/jobs HTTP/1.1\r\nX-Long: ")

        assert is_cut_off(dripping, b"x")
        assert is_cut_off(silent)
        assert is_cut_off(half)


def test_who_has_no_good_key_is_not_kept_and_who_has_one_is(house: House) -> None:
    with connect(house) as stranger, connect(house) as known:
        stranger.sendall(b"GET /healthz HTTP/1.1\r\nHost: oncue\r\n\r\n")
        known.sendall(get(house))
        assert [answer_on(one)[:12] for one in (stranger, known)] == [b"HTTP/1.1 200"] * 2

        assert is_cut_off(stranger)
        known.sendall(get(house))
        assert answer_on(known).startswith(b"HTTP/1.1 200")

        known.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: on")
        assert is_cut_off(known)


@pytest.mark.parametrize("small", [0, connection.SMALL])
def test_answers_without_a_body_small_and_large_come_whole(
    house: House, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """Catches a head that waits for a body which never comes, and bytes that are lost between the two."""
    monkeypatch.setattr(connection, "SMALL", small)
    caller = HTTPConnection("127.0.0.1", house.port, timeout=SOON)
    for method, path in (("HEAD", "/openapi.json"), ("GET", "/openapi.json"), ("GET", "/v1/me"), ("HEAD", "/v1/me")):
        caller.request(method, path)
        answer = caller.getresponse()
        size = int(answer.headers["content-length"])
        assert len(answer.read()) == (size if method == "GET" else 0)
    caller.close()


def test_a_crowd_that_says_nothing_takes_nobodys_place(small_house: House) -> None:
    with ExitStack() as crowd:
        known = crowd.enter_context(connect(small_house))
        for _ in range(3):
            known.sendall(get(small_house))
            assert answer_on(known).startswith(b"HTTP/1.1 200")
            silent = [crowd.enter_context(connect(small_house)) for _ in range(2 * MOST)]
            assert serves(small_house)
            assert is_cut_off(silent[0])


def test_when_everybody_is_being_served_the_next_is_told_to_come_back(small_house: House) -> None:
    with ExitStack() as crowd:
        for _ in range(MOST):
            uploading = crowd.enter_context(connect(small_house))
            uploading.sendall(request(small_house, length(100), b"Expect: 100-continue", body=b"{"))
            assert uploading.recv(65_536).startswith(b"HTTP/1.1 100")  # its body is being read
        one_more = crowd.enter_context(connect(small_house))
        assert answer_on(one_more).startswith(b"HTTP/1.1 503")


# ------------------------------------------------------------------------------------------------------ saying too much


def swallowed(house: House, head: bytes) -> tuple[int, bytes]:
    """How much of a body without end is taken until it is cut off, and what is said to it."""
    taken, said, part = 0, b"", b" " * 65_536
    with connect(house) as wire, suppress(ConnectionError):
        wire.sendall(head)
        talks = True
        while taken < ENDLESS // 16:
            readable, writable, _ = select.select([wire] if talks else [], [wire], [], SOON)
            assert readable or writable, "neither taken nor cut off"
            if readable:
                more = wire.recv(65_536)
                said, talks = said + more, bool(more)
            if writable:
                taken += wire.send(part)
    return taken, said


HEADS = {
    "without a key": lambda house: b"POST /v1/jobs HTTP/1.1\r\nHost: oncue\r\n",
    "too large": lambda house: request(house, body=b"")[:-2],
    "where none is read": lambda house: b"GET /healthz HTTP/1.1\r\nHost: oncue\r\n",
    "for nothing": lambda house: b"POST /nothing HTTP/1.1\r\nHost: oncue\r\n",
}
EXPECTED = {"without a key": b"401", "too large": b"413", "where none is read": b"200", "for nothing": b"404"}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("declared", [length(ENDLESS), b"Transfer-Encoding: chunked"])
def test_a_body_that_nobody_wants_is_not_swallowed(house: House, kind: str, declared: bytes) -> None:
    head = HEADS[kind](house) + declared + b"\r\n\r\n" + (b"" if b"Length" in declared else b"100000000\r\n")

    taken, said = swallowed(house, head)

    before = len(TOO_LARGE) if kind == "too large" else 0  # of a body without a length, until it is refused
    assert taken < before + connection.MOST_IGNORED + BUFFERED
    assert said.startswith(b"HTTP/1.1 " + EXPECTED[kind])
    assert b"connection: close" in said.lower()
    assert serves(house)


OF_ADA = {"Authorization": "ada", "Content-Type": "application/json"}
# What is sent, with whose key, and the answer. Callers send everything before they read, as most libraries do.
REFUSED: dict[str, tuple[str, bytes, dict[str, str], int]] = {
    "too large": ("/v1/jobs", TOO_LARGE, OF_ADA, 413),
    "too large, in chunks": ("/v1/jobs", TOO_LARGE, OF_ADA | {"Transfer-Encoding": "chunked"}, 413),
    "without a key": ("/v1/jobs", TOO_LARGE, {}, 401),
    "for nothing": ("/nothing", TOO_LARGE, {}, 404),
    "its head is too large": ("/v1/jobs", b"", {"X-Long": "x" * (4 * 1024 * 1024)}, 400),
}


def status_of(house: House, port: int, kind: str) -> int | str:
    """What a plain client gets that sends the whole request first."""
    path, body, headers, _ = REFUSED[kind]
    if name := headers.get("Authorization"):
        headers = headers | {"Authorization": f"Bearer {house.keys[name]}"}
    caller = HTTPConnection("127.0.0.1", port, timeout=SOON)
    try:
        if "Transfer-Encoding" in headers:
            parts = (body[place : place + 65_536] for place in range(0, len(body), 65_536))
            caller.request("POST", path, parts, headers, encode_chunked=True)
        else:
            caller.request("POST", path, body, headers)
        return caller.getresponse().status
    except OSError as broken:
        return repr(broken)
    finally:
        caller.close()


@pytest.mark.parametrize("kind", REFUSED)
def test_who_sends_everything_first_gets_the_answer_that_refuses_it(empty_sqlite: EmptyStore, kind: str) -> None:
    with listening(empty_sqlite) as house:
        assert [status_of(house, house.port, kind) for _ in range(20)] == [REFUSED[kind][3]] * 20


@pytest.mark.parametrize("kind", ["too large", "without a key"])
def test_so_does_who_sends_over_a_slow_link(empty_sqlite: EmptyStore, kind: str) -> None:
    with listening(empty_sqlite) as house, slow_link(house.port) as port, ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda _: status_of(house, port, kind), range(20)))
    assert found == [REFUSED[kind][3]] * 20


@contextmanager
def slow_link(target: int) -> Iterator[int]:
    """A port that leads to another one, slowly, and takes little in advance."""
    with socket.socket() as door, ThreadPoolExecutor(32) as links:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        door.bind(("127.0.0.1", 0))
        door.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    ours, _ = door.accept()
                    links.submit(_link, ours, target, links)

        links.submit(accept)
        yield door.getsockname()[1]
        door.shutdown(socket.SHUT_RDWR)


def _link(ours: socket.socket, target: int, links: ThreadPoolExecutor) -> None:
    with ours, socket.create_connection(("127.0.0.1", target)) as theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        back = links.submit(_pump, theirs, ours, 0)
        _pump(ours, theirs, SLOW)
        back.result()


def _pump(source: socket.socket, to: socket.socket, rate: int) -> None:
    begun, passed = time.monotonic(), 0
    with suppress(OSError):
        while part := source.recv(65_536):
            to.sendall(part)
            passed += len(part)
            if rate:
                time.sleep(max(0.0, begun + passed / rate - time.monotonic()))
    with suppress(OSError):
        to.shutdown(socket.SHUT_WR)


def test_who_never_stops_sending_or_sends_drop_by_drop_is_cut_off_all_the_same(house: House) -> None:
    for head in (HEADS["too large"](house), HEADS["without a key"](house)):
        with connect(house) as wire:
            wire.sendall(head + length(ENDLESS) + b"\r\n\r\n")
            begun = time.monotonic()
            while time.monotonic() - begun < SOON:
                try:
                    wire.sendall(b" ")
                except ConnectionError:
                    break
                time.sleep(0.01)
            assert time.monotonic() - begun < SOON / 2
    assert serves(house)


def test_a_body_that_comes_after_its_head_leaves_the_connection_as_it_was(house: House) -> None:
    with connect(house) as wire:
        for _ in range(3):
            whole = request(house, length(len(BODY)))
            wire.sendall(whole[:-5])
            time.sleep(0.05)
            wire.sendall(whole[-5:])
            head = answer_on(wire)
            assert head.startswith(b"HTTP/1.1 201")
            assert b"connection: close" not in head.lower()


# -------------------------------------------------------------------------------------------------------- not listening


def test_who_does_not_read_the_answers_is_cut_off(house: House) -> None:
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        wire.connect(("127.0.0.1", house.port))
        wire.settimeout(0.2)
        assert is_refused(wire, get(house, b"/openapi.json"))
    assert serves(house)


def test_who_asks_without_waiting_is_read_no_faster_than_it_is_answered(house: House) -> None:
    ask = get(house, b"/v1/me", b"X-Padding: " + b"x" * 8_000)
    sent = answered = ahead = 0
    with connect(house) as wire:
        wire.setblocking(False)
        while answered < 2_000:
            with suppress(BlockingIOError):
                sent += wire.send(ask * 8 if sent % len(ask) == 0 else ask[sent % len(ask) :])
            with suppress(BlockingIOError):
                answered += wire.recv(65_536).count(b"HTTP/1.1 200")
            ahead = max(ahead, sent - answered * len(ask))
    assert ahead < 24 * 1024**2  # what both sockets hold, and no more in the server


def test_who_asks_before_the_answer_is_answered_in_order(house: House) -> None:
    asks = [get(house), get(house, b"/v1/nothing"), request(house, length(len(BODY)))]
    said, sent = b"", 0
    with connect(house) as wire:
        while (answered := said.count(b"HTTP/1.1 ")) < 300:
            wire.sendall(b"".join(asks * ((answered + 90 - sent) // 3)))
            sent += (answered + 90 - sent) // 3 * 3
            said += wire.recv(65_536)
    assert [answer[:3] for answer in said.split(b"HTTP/1.1 ")[1:301]] == [b"200", b"404", b"201"] * 100


def test_who_asks_nonsense_behind_other_requests_is_cut_off(house: House, caplog: pytest.LogCaptureFixture) -> None:
    with connect(house) as wire:
        wire.sendall(get(house) * 3 + b"nonsense\r\n\r\n")
        assert is_cut_off(wire)
    assert serves(house)
    assert not [record for record in caplog.records if record.exc_info]


def test_who_asks_too_much_at_once_is_cut_off(house: House) -> None:
    with connect(house) as wire:
        with suppress(ConnectionError):
            wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: oncue\r\n\r\n" * 1_000)
        answered = b""
        with suppress(ConnectionError):
            while more := wire.recv(65_536):
                answered += more
        assert answered.count(b"HTTP/1.1 200") < 1_000
    assert serves(house)


@pytest.mark.parametrize("pieces", [connection.MOST_CRUMBS, connection.MOST_CRUMBS + 1])
def test_a_body_may_come_in_many_small_pieces_but_not_in_any_number(house: House, pieces: int) -> None:
    head = request(house, b"Transfer-Encoding: chunked", body=b"")
    with connect(house) as wire:
        with suppress(ConnectionError):
            wire.sendall(head + b"1\r\n \r\n" * (pieces - 1) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
        status = answer_on(wire).split()[1]
    assert status == (b"201" if pieces == connection.MOST_CRUMBS else b"400")
    assert serves(house)


@pytest.mark.parametrize(("count", "status"), [(100, b"200"), (connection.MOST_HEADERS, b"400")])
def test_a_request_has_a_bounded_number_of_headers(house: House, count: int, status: bytes) -> None:
    with connect(house) as wire:
        wire.sendall(get(house, b"/v1/me", *[b"X-%d: y" % n for n in range(count)]))
        assert answer_on(wire).split()[1] == status


def is_refused(wire: socket.socket, sent: bytes) -> bool:
    """Whether it cannot be sent any more."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        try:
            wire.sendall(sent)
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


# ------------------------------------------------------------------------------------------------------ when it stops


def test_a_request_that_is_on_its_way_when_the_server_stops_is_answered(
    empty_sqlite: EmptyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LAST_REQUEST", SOON)
    monkeypatch.setattr(server, "LAST_ANSWERS", SOON)
    with listening(empty_sqlite) as house, connect(house) as wire:
        wire.sendall(get(house))
        assert b"connection: close" not in answer_on(wire).lower()
        house.stop()
        assert refuses(house)

        wire.sendall(request(house, length(len(BODY))))

        head = answer_on(wire)
        assert head.startswith(b"HTTP/1.1 201")
        assert b"connection: close" in head.lower()
        assert wire.recv(1) == b""


def test_who_asks_nothing_when_the_server_stops_does_not_delay_it(
    empty_sqlite: EmptyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LAST_ANSWERS", 2 * SOON)
    with listening(empty_sqlite) as house, connect(house) as silent, connect(house) as idle:
        idle.sendall(get(house))
        answer_on(idle)
        house.stop()

        assert (silent.recv(1), idle.recv(1)) == (b"", b"")


def refuses(house: House) -> bool:
    """Nobody is let in any more."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        try:
            connect(house).close()
        except ConnectionError:
            return True
    return False
