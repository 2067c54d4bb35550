"""Every connection there is: none is waited for without end, and there are never too many of them.

Whoever we wait for is in one of four queues. All in a queue have the same time, so its first is the first to be
overdue, and one look every tenth of a second is enough for all. In none of them is who waits for *us*: a request that
is worked on, which has bounds of its own, or a stream that is read.
"""

from __future__ import annotations

import resource
from typing import Protocol

from uvicorn.server import ServerState

HEAD_WITHIN = (
    10.0  # seconds from the first we hear of a caller to the end of the head; more bytes do not give more time
)
IDLE_FOR = 60.0  # seconds between two requests of somebody who has shown a good key
READ_WITHIN = 30.0  # seconds in which some of what was sent has to be read
LINGER = 2.0  # seconds in which an answer to a request that was cut short can be read

TICK = 0.1  # seconds between two looks, as uvicorn makes them
MOST = 5_000  # connections at a time, if we may have so many descriptors
KEPT_FREE = 256  # descriptors for ourselves: the store, workers, files


class Guest(Protocol):
    """A connection, as the queues know it."""

    def overdue(self) -> None:
        """It had its time: it leaves its queue, or has shown that it goes on."""
        ...

    def drop(self) -> None:
        """Gone at once, whatever was on its way."""
        ...


class Queue:
    """Those who are waited for, the longest waiting first."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.until: dict[Guest, float] = {}


class Connections(ServerState):
    """What all connections of a server share."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.head = Queue(HEAD_WITHIN)  # a stranger, or somebody within a head
        self.leaving = Queue(LINGER)  # told no, and about to be cut off
        self.stalled = Queue(READ_WITHIN)  # does not read what we send
        self.idle = Queue(IDLE_FOR)  # somebody we know, between two requests
        self._now = 0.0

    def enter(self, queue: Queue, guest: Guest) -> None:
        queue.until[guest] = self._now + queue.seconds

    def look(self) -> None:
        """Whoever is overdue by now is told so. Time is counted in looks: a process that had none for its connections
        does not hold it against them.
        """
        self._now = now = self._now + TICK
        for queue in (self.head, self.leaving, self.stalled, self.idle):
            while queue.until:
                first = next(iter(queue.until))
                if queue.until[first] > now:
                    break
                first.overdue()

    def make_room(self) -> bool:
        """Whether there is a place for the latest of our connections. Who means least to us gives way: strangers."""
        while len(self.connections) > self.most:
            for queue in (self.head, self.leaving, self.stalled, self.idle):
                if queue.until:
                    next(iter(queue.until)).drop()
                    break
            else:
                return False
        return True


def most_connections() -> int:
    """As many as we may have descriptors for, but for those that we need ourselves."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MOST
    return min(MOST, descriptors - min(KEPT_FREE, descriptors // 2))
