"""A real `oncue up` with the example tasks, whose worker is there."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.examples.server import PATIENCE, Up, up

from oncue.client import Client


@contextmanager
def running(data_dir: Path) -> Iterator[Up]:
    with up(data_dir, "--allow-commands") as server, client_of(server) as client:
        until = time.monotonic() + PATIENCE
        while not client.tasks.list():
            assert time.monotonic() < until, "no worker came"
            time.sleep(0.02)
        yield server


def client_of(server: Up) -> Client:
    return Client(server.address, key_of(server), timeout=PATIENCE)


def key_of(server: Up) -> str:
    return server.key_file.read_text().strip()
