"""Batches with an item that the database refuses: the other items are written, and that one is reported alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from oncue.domain.errors import StoreUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Refusal(msgspec.Struct, frozen=True):
    """Why one item could not be written by itself. A retry of the unchanged item fails, too."""

    why: Exception


async def apart(
    batch: Sequence[Item], write: Callable[[Sequence[Item]], Awaitable[Answer]]
) -> AsyncIterator[tuple[Sequence[Item], Answer | Refusal]]:
    """Write a batch; if it is refused, its halves, and so on. Returns each part with its answer, first to last.

    StoreUnavailable is passed on: the caller can retry the whole of what was not answered by then.
    """
    parts = [batch] if batch else []
    while parts:
        part = parts.pop()
        try:
            answer = await write(part)
        except StoreUnavailable:
            raise
        except Exception as why:
            if len(part) == 1:
                yield part, Refusal(why)
            else:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
        else:
            yield part, answer
