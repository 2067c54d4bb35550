"""The generator of load against a server that counts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from oncue.clock import SystemClock
from oncue.domain.instants import MILLISECOND, SECOND, Instant
from oncue_bench.http_load import load, paced, request

Answer = Callable[[int], bytes]
OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    def __init__(self, answer: Answer) -> None:
        self.url = ""
        self.asked: list[bytes] = []
        self.talks: list[asyncio.Task[None] | None] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.talks.append(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.partition(b"Content-Length: ")[2].split()[0])
                self.asked.append(await reader.readexactly(length))
                answer = self._answer(len(self.asked))
                if not answer:
                    break
                for byte in (answer[:20], answer[20:]):  # an answer may come in pieces
                    writer.write(byte)
                    await asyncio.sleep(0)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    server = Server(answer)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server
        await asyncio.gather(*(talk for talk in server.talks if talk))


def requests(server: Server, count: int) -> list[bytes]:
    return [request(server.url, "key", "POST", "/v1/jobs", b"%d" % n) for n in range(count)]


async def test_every_request_is_sent_once_and_every_answer_counted() -> None:
    async with serving(lambda _: OK) as server:
        written = requests(server, 100)
        found = await load(server.url, 8, lambda: iter(written))

    assert sorted(server.asked, key=int) == [b"%d" % n for n in range(100)]
    assert (len(server.talks), found.statuses, len(found.took)) == (8, {201: 100}, 100)


async def test_requests_go_out_at_their_instants_and_not_before() -> None:
    clock, seen = SystemClock(), list[int]()

    def answer(_: int) -> bytes:
        seen.append(clock.now())
        return OK

    async with serving(answer) as server:
        begin = clock.now() + 50 * MILLISECOND
        at = [Instant(begin + n * 10 * MILLISECOND) for n in range(20)]
        found = await paced(server.url, 2, zip(at, requests(server, 20), strict=True), clock)

    assert found.statuses == {201: 20}
    assert [n for n, (due, came) in enumerate(zip(at, seen, strict=True)) if came < due] == []


async def test_a_refusal_is_counted_and_its_words_are_kept() -> None:
    refused = b'HTTP/1.1 422 No\r\nContent-Length: 13\r\n\r\n{"no": "way"}'
    async with serving(lambda n: refused if n == 3 else OK) as server:
        written = requests(server, 5)
        found = await load(server.url, 1, lambda: iter(written))

    assert (found.statuses, found.refusal) == ({201: 4, 422: 1}, '{"no": "way"}')


async def test_whoever_is_stopped_while_waiting_hangs_up() -> None:
    clock = SystemClock()
    async with asyncio.timeout(60), serving(lambda _: OK) as server:  # which waits for the end of every connection
        later = [(Instant(clock.now() + 3_600 * SECOND), one) for one in requests(server, 1)]
        sending = asyncio.create_task(paced(server.url, 2, later, clock))
        while len(server.talks) < 2:
            await asyncio.sleep(0)
        sending.cancel()
        await asyncio.wait([sending])

    assert sending.cancelled()


async def test_nothing_is_sent_on_time_after_a_refusal() -> None:
    clock, refused = SystemClock(), b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n{}"
    async with asyncio.timeout(60), serving(lambda n: refused if n == 3 else OK) as server:
        found = await paced(server.url, 1, ((clock.now(), one) for one in requests(server, 99)), clock)

    assert found.refused == {503: 1}
    assert len(server.asked) == 4  # the next was on its way when the answer came


async def test_a_connection_that_is_lost_ends_it() -> None:
    clock = SystemClock()
    async with asyncio.timeout(60), serving(lambda n: b"" if n % 3 == 0 else OK) as server:
        written = requests(server, 9)
        with pytest.raises(ConnectionError):
            await paced(server.url, 1, [(clock.now(), one) for one in written], clock)
        with pytest.raises(ConnectionError):
            await load(server.url, 1, lambda: iter(written))
