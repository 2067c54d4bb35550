"""The connection of one call on a user's behalf: to a checked address, and read in turns.

It reads little at a time, and only what can be processed: anything more that a server sends waits on its side. All
processing of what was read, TLS included, happens in a turn, between two reads.
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
MOST_ADDRESSES = 4  # of one name; each gets an equal part of the time to connect
PIECE = 4 * 1024  # bytes; the worst possible head takes some 10 ms for this many, and nothing can interrupt that
LARGE_PIECE = 64 * 1024  # bytes
DIALLING = Duration(MILLISECOND)  # of the loop's time that a connection takes

T = TypeVar("T")
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


async def resolve(host: str, port: int) -> Sequence[Address]:
    """Resolve a name to addresses, best first. An address resolves to itself."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        raise httpcore2.ConnectError(f"the host name {host} cannot be resolved: {unknown.strerror}") from None
    return list(dict.fromkeys(ip_address(place[0]) for *_, place in found))


class Dial:
    """Connects to checked addresses and not to names: a name that changes a moment later is not resolved again. TLS and
    the Host header still use the name.
    """

    def __init__(self, allow: Networks, resolve: Resolve) -> None:
        self._allow = allow
        self._resolve = resolve

    @asynccontextmanager
    async def connected(self, host: str, port: int, turns: Turns) -> AsyncIterator[Line]:
        """Connect, in a turn. The connection is closed after the block, also if cancelled in the TLS handshake."""
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
        """Return the addresses that may be called. A name without any is refused, and the caller does not learn its
        addresses: names and addresses of our own networks are not for every user who may call public ones.
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
    """An open connection."""

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
        """Read larger pieces: from now on the caller makes sure that no turn is long."""
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
        """Do a step of TLS, which may have to receive and send data first."""
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
