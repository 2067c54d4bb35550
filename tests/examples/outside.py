"""Stand-ins for the world outside: a mail server that keeps what it gets, and a website that answers as told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from socket import socket


class MailServer:
    """Speaks as much SMTP as smtplib needs. `answers` are given to the next recipients; then all are welcome."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.mails: list[EmailMessage] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 at your service\r\n")
        while words := (await reader.readline()).split():
            match words[0].upper():
                case b"RCPT":
                    answer = self.answers.pop(0) if self.answers else b"250 welcome"
                case b"DATA":
                    writer.write(b"354 go on\r\n")
                    text = await reader.readuntil(b"\r\n.\r\n")
                    self.mails.append(message_from_bytes(text[:-5], policy=policy.default))
                    answer = b"250 taken"
                case b"QUIT":
                    answer = b"221 bye"
                case _:
                    answer = b"250 fine"
            writer.write(answer + b"\r\n")
        writer.close()


@asynccontextmanager
async def mail_server(door: socket) -> AsyncIterator[MailServer]:
    """On a socket that listens, which stays open for the next one."""
    server = MailServer()
    async with await asyncio.start_server(server.serve, sock=door.dup()):
        yield server


class Website:
    """Each answer is a status, in this order; then it is well."""

    def __init__(self, statuses: list[int]) -> None:
        self.address = ""
        self.requests: list[dict[str, str]] = []  # their headers
        self._statuses = statuses

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.requests.append(dict(line.lower().split(": ", 1) for line in head[1:] if line))
        status = self._statuses.pop(0) if self._statuses else 200
        writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi".encode())
        writer.close()


@asynccontextmanager
async def website(*statuses: int) -> AsyncIterator[Website]:
    site = Website(list(statuses))
    async with await asyncio.start_server(site.serve, "127.0.0.1", 0) as server:
        site.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield site
