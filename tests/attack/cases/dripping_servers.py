"""Servers of the attacker's answer without end, in chunks of one byte, to sixty calls of `http` at once: to read them
took the worker's loop for more than ten seconds at a time, its lease ended, and others' runs were lost.
"""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.attack.stage import Stage

BUSY = True
OPTIONS = ("--http-allow", "127.0.0.1/32")
CALLS = 60
SECONDS = 8.0

DRIP = """
import asyncio, socket, sys

async def serve(reader, writer):
    head = b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
    path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1]
    piece = b"1\\r\\na\\r\\n" * 2_000 if path == b"/chunks" else b"HTTP/1.1 100 C\\r\\n\\r\\n" * 500
    try:
        writer.write(head if path == b"/chunks" else b"")
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
    except OSError:
        writer.close()

async def main():
    await (await asyncio.start_server(serve, sock=socket.socket(fileno=int(sys.argv[1])))).serve_forever()

asyncio.run(main())
"""


def attack(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as door:
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        server = subprocess.Popen([sys.executable, "-c", DRIP, str(door.fileno())], pass_fds=[door.fileno()])
        try:
            runs = [
                run
                for path in ("chunks", "heads")
                for run in stage.many(
                    CALLS // 2, "http", {"url": f"{url}/{path}"}, timeout=f"{SECONDS:.0f}s", max_retries=0
                )
            ]
            ended = stage.settled(runs)
        finally:
            server.kill()
            server.wait()
    assert {run["error_type"] for run in ended.values()} == {"Timeout"}
