"""How many requests a bare server answers here: what the figures of bench/api.py are to be read beside.

    python -m bench.bare

uvicorn, Starlette and msgspec: a request like one that makes a job is read, checked and sent back, and nothing is
stored. The same load as there: 64 connections, one request at a time on each.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oncue_bench.http_load import CONNECTIONS, Load, load, request

COUNT = 20_000
BODY = b'{"task":"mark","schedule":"2030-01-01T00:00:00Z","payload":{"n":1}}'


class Asked(msgspec.Struct):
    task: str
    schedule: str
    payload: dict[str, Any]


async def answer(asked: Request) -> Response:
    job = msgspec.json.decode(await asked.body(), type=Asked)
    return Response(msgspec.json.encode(job), 201, media_type="application/json")


def serve(port: int) -> None:
    app = Starlette(routes=[Route("/v1/jobs", answer, methods=["POST"])])
    uvicorn.run(app, port=port, http="httptools", log_level="error", access_log=False)


@contextmanager
def serving() -> Iterator[str]:
    """The address of one in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(port,))
    server.start()
    try:
        while not _listens(port):
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.join()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


async def measure(address: str, count: int = COUNT, connections: int = CONNECTIONS) -> float:
    """Requests a second."""
    return (await asked(address, count, connections)).rate


async def asked(address: str, count: int = COUNT, connections: int = CONNECTIONS) -> Load:
    one = request(address, "key", "POST", "/v1/jobs", BODY, "00000000-0000-4000-8000-000000000000")
    return await load(address, connections, lambda: iter([one] * count))


async def warm_and_measure(address: str) -> float:
    await measure(address)
    return await measure(address)


def main() -> None:
    with serving() as address:
        print(f"a bare server: {uvloop.run(warm_and_measure(address)):,.0f} requests a second")


if __name__ == "__main__":
    main()
