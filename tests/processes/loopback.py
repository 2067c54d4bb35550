"""A loopback on which every port is free, so that servers and commands can use those that pages name.

It is a network namespace of its own, or where the system allows none the loopback of this machine, which one test at a
time then has. Sockets made by `listen` are on it, whichever process serves them.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Self
from urllib.parse import urlsplit

import pytest

NEW = ("unshare", "--map-root-user", "--net")
OURS = ("nsenter", "--preserve-credentials", "--user", "--net", "--target")
USUAL_PORT = 8470
HOLDER = """
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up and running
with socket.socket(fileno=int(sys.argv[1])) as asked:
    asked.send(b"it is up")
    while port := asked.recv(16):
        with socket.create_server(("127.0.0.1", int(port))) as listening:
            socket.send_fds(asked, [b"listening"], [listening.fileno()])
"""


class Loopback:
    def __init__(self) -> None:
        self.enter: tuple[str, ...] = ()  # what to write before a command, so that it is on this loopback
        self._asking, self._asked = socket.socketpair()
        self._lock = -1
        self._holder: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if shutil.which(NEW[0]) and shutil.which(OURS[0]):
            asked = self._asked.fileno()
            argv = [*NEW, sys.executable, "-c", HOLDER, str(asked)]
            self._holder = subprocess.Popen(argv, pass_fds=[asked], stderr=subprocess.DEVNULL)
        self._asked.close()
        if self._holder is not None and self._asking.recv(16):
            self.enter = (*OURS, str(self._holder.pid))
            return self
        self._lock = os.open(Path(tempfile.gettempdir(), f"oncue_tests_{USUAL_PORT}.lock"), os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        with socket.socket() as probe, suppress(ConnectionRefusedError):
            probe.connect(("127.0.0.1", USUAL_PORT))
            self.__exit__()
            pytest.skip(f"something listens on port {USUAL_PORT}, and the system allows no network namespace")
        return self

    def __exit__(self, *_: object) -> None:
        self._asking.close()
        if self._lock >= 0:
            os.close(self._lock)
        if self._holder is not None:
            self._holder.wait()

    def listen(self, port: int) -> socket.socket:
        if not self.enter:
            return socket.create_server(("127.0.0.1", port))
        self._asking.send(str(port).encode())
        _, [listening], _, _ = socket.recv_fds(self._asking, 16, 1)
        return socket.socket(fileno=listening)


class Counting(ThreadingTCPServer):
    """Stands before a server, and counts who comes. Leaving the block waits until all have gone."""

    def __init__(self, server: str, listening: socket.socket | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Relayed, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = listening
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.behind = urlsplit(server)
        self.visits = 0

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Relayed(BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Counting)
        self.server.visits += 1
        visitor = self.request
        with socket.create_connection((self.server.behind.hostname, self.server.behind.port)) as server:
            to = {visitor: server, server: visitor}
            while True:
                for one in select.select(list(to), [], [])[0]:
                    if not (data := one.recv(65536)):
                        return
                    to[one].sendall(data)
