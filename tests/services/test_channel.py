"""The line between a supervisor and its worker process."""

import asyncio
import socket

from oncue.services.channel import Alive, Channel, FromWorker


async def test_messages_of_a_newer_version_are_passed_over() -> None:
    """During an upgrade an older supervisor starts worker processes of the newer version."""
    ours, theirs = socket.socketpair()
    with theirs:
        channel = await Channel.on(ours, FromWorker)
        theirs.sendall(b'{"type":"of a later version","n":1}\n{"type":"alive","active":"three"}\n')
        theirs.sendall(b'{"type":"alive","active":3,"news":true}\n')

        async with asyncio.timeout(60):
            assert await channel.receive() == Alive(3)
            theirs.close()
            assert await channel.receive() is None
    await channel.close()
