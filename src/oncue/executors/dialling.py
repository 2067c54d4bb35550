"""The connection of one call that is made on a user's behalf: to an address that was judged, and read in turns.

Little is read at a time, and only what can be looked at: what a server sends beyond that waits on its side. Whatever is
made of what came, TLS included, happens in a turn, between one reading and the next.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv6Address, ip_address
from typing import Any, TypeAlias, TypeVar

import httpcore2

from oncue.domain.addresses import NOT_CALLED, Address, Networks, refusal
from oncue.domain.instants import MILLISECOND, Duration
from oncue.executors.port import TaskFailed
from oncue.executors.share import Turns

CONNECT_WITHIN = 10.0  # seconds
MOST_ADDRESSES = 4  # of one name; each gets its share of the time to connect
PIECE = 4 * 1024  # bytes; a head cut up as badly as can be takes some 10 ms for so many, and nobody can interrupt that
LARGE_PIECE = 64 * 1024
DIALLING = Duration(MILLISECOND)  # of the loop's time that making a connection takes

T = TypeVar("T")
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


async def resolve(host: str, port: int) -> Sequence[Address]:
    """What a name stands for, best first. An address stands for itself."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        raise httpcore2.ConnectError(f"the name {host} is not known: {unknown.strerror}") from None
    return list(dict.fromkeys(ip_address(place[0]) for *_, place in found))


class Dial:
    """Makes connections to addresses that were judged and not to names: whatever a name stands for a moment later,
    nobody asks again. TLS and the Host header still go by the name.
    """

    def __init__(self, allow: Networks, resolve: Resolve) -> None:
        self._allow = allow
        self._resolve = resolve

    @asynccontextmanager
    async def connected(self, host: str, port: int, turns: Turns) -> AsyncIterator[Line]:
        """In a turn. The connection is gone after this, also one that was cancelled half way into TLS."""
        turns.end(DIALLING)
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                addresses = self._judged(host, await self._resolve(host, port))
                found = await _first_to_answer(addresses[:MOST_ADDRESSES], port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        with found:
            yield Line(found, turns)

    def _judged(self, host: str, addresses: Sequence[Address]) -> Sequence[Address]:
        """Those that may be dialled. A name that stands for no such is refused, and nobody learns what it stands for:
        names and addresses of our own networks are not for everybody who may call the world's.
        """
        if good := [address for address in addresses if refusal(address, self._allow) is None]:
            return good
        raise TaskFailed("AddressRefused", f"{host} {NOT_CALLED}", retry=False)


async def _first_to_answer(addresses: Sequence[Address], port: int) -> socket.socket:
    share = CONNECT_WITHIN / len(addresses)
    for address in addresses[:-1]:
        try:
            return await _dialled(address, port, share)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
            continue
    return await _dialled(addresses[-1], port, share)


async def _dialled(address: Address, port: int, within: float) -> socket.socket:
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    with _told_as(httpcore2.ConnectTimeout, httpcore2.ConnectError):
        one = socket.socket(family, socket.SOCK_STREAM)
        try:
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(within):
                await asyncio.get_running_loop().sock_connect(one, (str(address), port))
        except BaseException:
            one.close()
            raise
        return one


class Line(httpcore2.AsyncNetworkStream):
    """A connection that was made."""

    def __init__(self, to: socket.socket, turns: Turns) -> None:
        self._socket = to
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._tls: ssl.SSLObject | None = None
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._piece = PIECE

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _told_as(httpcore2.ReadTimeout, httpcore2.ReadError):
            async with asyncio.timeout(timeout):
                if self._tls is None:
                    return await self._receive()
                try:
                    return await self._through(self._tls.read, max_bytes)
                except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                    return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _told_as(httpcore2.WriteTimeout, httpcore2.WriteError):
            async with asyncio.timeout(timeout):
                if self._tls is None:
                    await self._loop.sock_sendall(self._socket, buffer)
                elif buffer:
                    await self._through(self._tls.write, buffer)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        name = None if server_hostname is None else server_hostname.encode("ascii")
        self._tls = ssl_context.wrap_bio(self._received, self._to_send, server_hostname=name)
        with _told_as(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            async with asyncio.timeout(timeout):
                await self._through(self._tls.do_handshake)
        return self

    def read_more(self) -> None:
        """From now on whoever reads sees to it that no turn is long."""
        self._piece = LARGE_PIECE

    async def aclose(self) -> None:
        self._turns.end()
        self._socket.close()

    async def _receive(self) -> bytes:
        self._turns.end()
        received = await self._loop.sock_recv(self._socket, self._piece)
        await self._turns.begin()
        return received

    async def _through(self, step: Callable[..., T], *given: Any) -> T:
        """A step of TLS, which may have to hear and to say something first."""
        while True:
            try:
                result = step(*given)
            except ssl.SSLWantReadError:
                await self._flush()
                if received := await self._receive():
                    self._received.write(received)
                else:
                    self._received.write_eof()
                continue
            await self._flush()
            return result

    async def _flush(self) -> None:
        if self._to_send.pending:
            await self._loop.sock_sendall(self._socket, self._to_send.read())


@contextmanager
def _told_as(late: type[Exception], broken: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise late(error) from error
    except OSError as error:
        raise broken(error) from error
