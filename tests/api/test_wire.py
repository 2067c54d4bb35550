"""What is no HTTP, or hardly: answered with a refusal or cut off, and the next caller is served as ever."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import pytest
from tests.api.listening import House, listening

from oncue.api.http import reading
from oncue_conformance.store import EmptyStore

SOON = 30.0  # seconds; nothing here is waited for on purpose but an upload without end
UPLOAD = 60.0  # seconds until we give up


@pytest.fixture
def house(empty_sqlite: EmptyStore) -> Iterator[House]:
    with listening(empty_sqlite) as house:
        yield house


def said(house: House, sent: bytes, *, watchdog: float = SOON, endless: bytes = b"") -> bytes:
    """All that the server says to this, until it hangs up or nothing more comes."""
    answer = b""
    until = time.monotonic() + watchdog
    with socket.create_connection(("127.0.0.1", house.port), timeout=watchdog) as wire:
        with suppress(ConnectionError):  # it may hang up half-way
            wire.sendall(sent)
            pour(wire, endless)
        wire.settimeout(0.2)
        while time.monotonic() < until:
            try:
                part = wire.recv(65_536)
            except TimeoutError:
                if answer:
                    break
                continue
            except ConnectionError:
                break
            if not part:
                break
            answer += part
        else:
            pytest.fail("neither answered nor cut off in time")
    return answer


def pour(wire: socket.socket, endless: bytes) -> None:
    """Send this again and again, each time whole, until there is an answer."""
    left = memoryview(endless)
    while endless:
        answered, _, _ = select.select([wire], [wire], [], SOON)
        if answered:
            return
        left = left[wire.send(left) :] or memoryview(endless)


def serves(house: House) -> bool:
    headers = {"Authorization": f"Bearer {house.keys['ada']}"}
    with httpx2.Client(base_url=house.address, headers=headers, timeout=SOON, verify=False) as client:
        made = client.post("/v1/jobs", json={"task": "mark"})
        return (made.status_code, client.get(f"/v1/jobs/{made.json()['job_id']}").status_code) == (201, 200)


def jobs(house: House) -> int:
    headers = {"Authorization": f"Bearer {house.keys['ada']}"}
    return len(httpx2.get(f"{house.address}/v1/jobs", headers=headers, verify=False).json()["jobs"])


BODY = b'{"task": "mark"}'


def request(house: House, *headers: bytes, line: bytes = b"POST /v1/jobs HTTP/1.1", body: bytes = BODY) -> bytes:
    key = house.keys["ada"].encode()
    usual = (b"Host: oncue", b"Authorization: Bearer " + key, b"Content-Type: application/json", *headers)
    return line + b"\r\n" + b"".join(one + b"\r\n" for one in usual) + b"\r\n" + body


def length(n: int) -> bytes:
    return b"Content-Length: " + str(n).encode()


MALFORMED = {
    "garbage": lambda house: b"\x16\x03\x01\x02\x00\x01\x00\xff\xff\r\n\r\n",
    "no request line": lambda house: b"\r\n\r\nhello\r\n\r\n",
    "a line that is none": lambda house: request(house, length(16), line=b"POST"),
    "another protocol": lambda house: request(house, length(16), line=b"POST /v1/jobs SMTP/1.0"),
    "a space in the path": lambda house: request(house, length(16), line=b"POST /v1/ jobs HTTP/1.1"),
    "a length that is no number": lambda house: request(house, b"Content-Length: many"),
    "a length below zero": lambda house: request(house, b"Content-Length: -1"),
    "two lengths": lambda house: request(house, length(16), length(2)),
    "a length and chunks": lambda house: request(house, length(16), b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "a chunk with no length": lambda house: request(
        house, b"Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n"
    ),
    "a NUL in a header": lambda house: request(house, length(16), b"X-Odd: a\x00b"),
    "a header without a name": lambda house: request(house, length(16), b": odd"),
    "a length too short": lambda house: request(house, length(5)),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_malformed_is_refused_or_cut_off_and_makes_nothing(house: House, kind: str) -> None:
    before = jobs(house)

    answer = said(house, MALFORMED[kind](house))

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert jobs(house) == before
    assert serves(house)


@pytest.mark.parametrize("kind", ["one", "many"])
def test_a_hundred_kilobytes_of_headers_are_refused_or_cut_off(house: House, kind: str) -> None:
    large = [b"X-Large: " + b"x" * 100_000] if kind == "one" else [b"X-%d: " % i + b"x" * 90 for i in range(1_000)]

    answer = said(house, request(house, length(len(BODY)), *large))

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert serves(house)


def test_headers_without_end_are_cut_off(house: House) -> None:
    answer = said(house, b"GET /v1/jobs HTTP/1.1\r\nX-Long: ", endless=b"x" * 65_536)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert serves(house)


def test_chunks_without_end_are_413_once_they_are_too_many(house: House) -> None:
    sent = request(house, b"Transfer-Encoding: chunked", body=b"")

    answer = said(house, sent, endless=b"100000\r\n" + b" " * 1_048_576 + b"\r\n")

    assert answer == b"" or answer.startswith(b"HTTP/1.1 413"), answer[:200]
    assert serves(house)


def test_a_body_that_never_comes_to_its_end_is_408_and_nobody_else_waits_for_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST_UPLOAD", 1)
    chunk = b"7\r\n" + BODY[:7] + b"\r\n"
    halves = [request(house, b"Transfer-Encoding: chunked", body=chunk), request(house, length(100))]

    with ThreadPoolExecutor() as threads:
        answers = [threads.submit(said, house, half, watchdog=UPLOAD) for half in halves]
        assert serves(house)

    assert [answer.result()[:12] for answer in answers] == [b"HTTP/1.1 408"] * 2


def test_trace_and_the_like_are_405_and_echo_nothing(house: House) -> None:
    for method in (b"TRACE", b"OPTIONS", b"PROPFIND"):
        answer = said(house, request(house, line=method + b" /v1/jobs HTTP/1.1", body=b""))
        assert answer.startswith(b"HTTP/1.1 405"), answer[:200]
        assert house.keys["ada"].encode() not in answer
    assert serves(house)


def test_whoever_hangs_up_half_way_makes_nothing(house: House) -> None:
    before = jobs(house)
    for cut in (5, 40, 150, -1):
        with socket.create_connection(("127.0.0.1", house.port), timeout=SOON) as wire:
            wire.sendall(request(house, length(len(BODY)))[:cut])

    assert jobs(house) == before
    assert serves(house)
