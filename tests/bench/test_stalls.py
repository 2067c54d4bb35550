"""A machine that stands still is noticed."""

import asyncio
import os

import pytest

from oncue.domain.instants import SECOND, Duration, Instant
from oncue_bench.parts import CHECK_INTERVAL, STALL, Stalls


class JumpingClock:
    """Each sleep takes longer by the next of these, and the last one never ends."""

    def __init__(self, *late: int) -> None:
        self._late = list(late)
        self._at = 0

    def now(self) -> Instant:
        return self.monotonic()

    def monotonic(self) -> Instant:
        return Instant(self._at)

    async def sleep(self, length: Duration) -> None:
        if not self._late:
            raise asyncio.CancelledError
        self._at += length + self._late.pop(0)


async def found(*late: int) -> Stalls:
    stalls = Stalls()
    await asyncio.gather(stalls.watch(JumpingClock(*late)), return_exceptions=True)
    return stalls


async def test_a_stall_is_told_with_its_length() -> None:
    stalls = await found(0, 5 * SECOND, 0, 3 * SECOND)

    assert stalls.lost == pytest.approx(8 * SECOND, rel=0.01)
    assert stalls.note == "the machine stood still for 8.0 s"


async def test_what_is_a_little_late_is_none() -> None:
    assert (await found(STALL // 2, CHECK_INTERVAL, 0)).note == ""


async def test_nor_is_what_we_compute_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter([0.0, 9.0, 9.0, 9.0])
    monkeypatch.setattr(os, "times", lambda: os.times_result((next(spent), 0, 0, 0, 0)))

    assert (await found(9 * SECOND)).note == ""
