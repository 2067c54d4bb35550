"""What one user may take of a process at a time: requests, bytes of bodies, previews, and room in memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.api.conftest import Desk

from oncue.api.http import limits
from oncue.api.http.answers import Refused
from oncue.api.http.auth import Caller, FailedKeys
from oncue.api.http.limits import Share, Shares
from oncue.api.http.store_watchdog import StoreWatchdog, WatchedCall
from oncue.api.shared import previews
from oncue.api.shared.event_channel import AT_ONCE, KEPT_BYTES, Channel, Subject
from oncue.api.shared.idempotency import BodyHash, _encode, _hash
from oncue.api.shared.previews import Previews
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.preview import CUT_OFF
from oncue.domain.schedule import Schedule, parse_schedule, read_schedule
from oncue.engines.port import Role
from oncue.testing.clock import FakeClock
from oncue.testing.logs import capture_logs

NOW = Instant(1_800_000_000 * SECOND)


def caller(uid: int) -> Caller:
    return Caller(UserNumber(uid), f"user {uid}", Role.MEMBER, KeyId(UUID(int=uid)))


def minutely() -> Schedule:
    return parse_schedule(read_schedule("* * * * *", "schedule"), NOW)


# -------------------------------------------------------------------------------------------------- requests and bodies


def test_one_user_has_a_share_of_the_requests_and_gives_it_back() -> None:
    ours = Shares()
    for _ in range(2):
        held = [Share(ours, UserNumber(1)) for _ in range(limits.MOST_REQUESTS)]
        for one in held:
            one.__enter__()
        with pytest.raises(Refused) as refused, Share(ours, UserNumber(1)):
            pass
        assert refused.value.status == 429
        with Share(ours, UserNumber(2)):
            pass
        for one in held:
            one.__exit__(None, None, None)
    assert not ours.requests


def test_large_bodies_are_bounded_for_one_and_for_all() -> None:
    ours = Shares()
    with Share(ours, UserNumber(1)), Share(ours, UserNumber(2)):
        first, second = Share(ours, UserNumber(1)), Share(ours, UserNumber(2))
        with first, second:
            first.hold(1_000)
            first.hold(limits.BYTES_OF_ONE)
            with pytest.raises(Refused) as own, (third := Share(ours, UserNumber(1))):
                third.hold(1)
            second.hold(limits.MOST_BYTES - limits.BYTES_OF_ONE)
            with pytest.raises(Refused) as all_of_them:
                second.hold(limits.MOST_BYTES - limits.BYTES_OF_ONE + 1)
    assert (own.value.status, all_of_them.value.status) == (429, 503)
    assert (ours.all_bytes, ours.bytes, ours.requests) == (0, {}, {})


async def test_a_large_body_that_there_is_no_room_for_is_refused_before_it_is_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BYTES_OF_ONE", 100_000)

    async def sent(size: int) -> int:
        return (await desk.call("POST", "/v1/jobs", b'{"task": "mark"' + b" " * (size - 16) + b"}")).status_code

    assert [await sent(size) for size in (200_000, 90_000, 90_000)] == [429, 201, 201]


async def test_a_batch_takes_a_few_times_the_room_of_its_body(desk: Desk) -> None:
    job = b'{"task":"mark","payload":{"x":[' + b",".join([b"{}"] * 400) + b"]}}"
    body = b'{"jobs":[' + b",".join([job] * 100) + b"]}"

    tracemalloc.start()
    try:
        answer = await desk.call("POST", "/v1/jobs/batch", body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert answer.status_code == 201
    assert peak < 10 * len(body)  # read at once, it was thirty times as much


@pytest.mark.parametrize(
    "body",
    [
        b'{"jobs": [{"task": "mark"}], "jobs": [{"task": "mark"}]}',
        b'{"jobs": [{"task": "mark"}], "x": [{"task": "mark"}]}',
        b'{"x": "[", "jobs": [{"task": "mark"}]}',
        b'{"jobs": [{"task": "mark", "task": "mark"}]}',
        b'{"jobs": [{"task": "mark"},]}',
        b'{"jobs": [{"task": "mark"}]} {}',
        b'{"jobs": [{"task": "mark", "name": "\xff"}]}',
        b'{"jobs": [NaN]}',
        b'{"jobs": null, "x": "\\ud800"}',
        b'{"jobs": "\\ud800"}',
        b'[{"task": "mark"}]',
        b'{"jobs": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    ],
)
async def test_a_batch_is_read_as_strictly_as_any_body(desk: Desk, body: bytes) -> None:
    assert (await desk.call("POST", "/v1/jobs/batch", body)).status_code in (400, 422)
    assert await desk.nothing_stored()


def test_a_body_has_one_hash_whole_or_in_parts() -> None:
    jobs = [{"b": 1, "a": "ü"}, [], {"task": "mark"}]
    hashing = BodyHash("jobs")
    for job in jobs:
        hashing.add(job)

    assert hashing.digest() == _hash(_encode({"jobs": jobs}))


# ------------------------------------------------------------------------------------------------------------- previews


async def test_one_user_waits_for_some_previews_at_a_time(desk: Desk) -> None:
    body = {"schedule": {"cron": "* * * * *", "timezone": "Europe/Berlin"}, "count": 1_000}
    async with desk.app.api.previews._turn, asyncio.timeout(60):  # none ends while the others are asked for
        asked = [asyncio.create_task(desk.call("POST", "/v1/schedules/preview", body)) for _ in range(20)]
        while sum(one.done() for one in asked) < 20 - previews.MAX_PER_USER:
            await asyncio.sleep(0.001)
        assert {one.result().status_code for one in asked if one.done()} == {429}

    statuses = [answer.status_code for answer in await asyncio.gather(*asked)]

    assert statuses.count(200) == previews.MAX_PER_USER
    assert (await desk.call("POST", "/v1/schedules/preview", body)).status_code == 200


class Ticking(FakeClock):
    """Every look at it takes a millisecond."""

    def monotonic(self) -> Instant:
        self.looks = getattr(self, "looks", 0) + 1
        return Instant(self.looks * MILLISECOND)


async def test_a_preview_lets_others_have_their_turns_and_is_cut_off_when_it_takes_too_long() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    shown = await Previews(Ticking(NOW)).show(caller(1), minutely(), 1_000, None, NOW)
    beside.cancel()

    assert 10 < len(shown.occurrences) < 1_000
    assert (shown.occurrences[-1].note, shown.occurrences[-2].note) == (CUT_OFF, None)
    assert turns > 100


async def test_who_waits_for_something_else_is_not_told_that_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncue.api.http.store_watchdog.PERIOD", 0.01)
    asked = asyncio.Event()

    async def ping(within: Duration) -> None:
        asked.set()
        raise StoreUnavailable("away")

    watchdog = StoreWatchdog(ping, FakeClock(NOW))

    async def waits(aside: bool, what: asyncio.Event) -> None:
        with WatchedCall(watchdog):
            if aside:
                with watchdog.aside():
                    await what.wait()
            else:
                await what.wait()

    done = asyncio.Event()
    previewing, storing = asyncio.create_task(waits(True, done)), asyncio.create_task(waits(False, done))
    with pytest.raises(StoreUnavailable):
        await storing
    assert asked.is_set()
    done.set()
    await previewing


# ------------------------------------------------------------------------------------------------------------- streams


def test_what_a_slow_reader_is_handed_at_once_and_what_is_kept_for_it_have_bounds() -> None:
    channel = Channel(Subject(None))
    for number in range(1_900):
        channel.tell("run", {"n": number, "error_message": "x" * 4_000})

    events, place = channel.after(channel.last - 500)
    assert 0 < len(events) <= AT_ONCE
    assert place == channel.last - 500 + events.count(b"\n\n")
    read, seen = place, 0
    while read < channel.last:
        events, read = channel.after(read)
        seen += events.count(b"\n\n")
    assert seen == channel.last - place
    assert sum(len(event) for _, event in channel._events) <= KEPT_BYTES
    assert channel.after(0)[0].startswith(b"event: resync")


def test_an_event_that_is_too_large_is_a_call_to_read_anew() -> None:
    channel = Channel(Subject(None))
    channel.tell("run", {"progress": "x" * AT_ONCE})

    assert channel.after(0) == (channel.written("resync", 1, {}), 1)


async def test_a_stream_is_asked_for_without_a_body(desk: Desk) -> None:
    assert (await desk.call("GET", "/v1/events", b"{}")).status_code == 400


# ------------------------------------------------------------------------------------------------------ ready, and keys


async def test_ready_means_that_a_write_is_kept_found_out_once_a_second(desk: Desk, monkeypatch: Any) -> None:
    probes, problem = 0, ""

    async def probe() -> None:
        nonlocal probes
        probes += 1
        if problem:
            raise StoreUnavailable(problem)

    monkeypatch.setattr(desk.store.engine, "probe", probe)

    async def ready() -> int:
        return (await desk.client.get("/readyz")).status_code

    assert await asyncio.gather(*(ready() for _ in range(50))) == [200] * 50
    problem = "the disk is full"
    assert (await ready(), probes) == (200, 1)
    await desk.store.clock.advance(SECOND)
    assert await asyncio.gather(*(ready() for _ in range(50))) == [503] * 50
    assert probes == 2
    problem = ""
    assert (await ready(), probes) == (200, 3)


async def test_a_store_that_is_gone_is_not_ready_though_it_has_just_kept_something(
    desk: Desk, monkeypatch: Any
) -> None:
    assert (await desk.client.get("/readyz")).status_code == 200

    async def away(_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(desk.store.engine, "ping", away)

    assert (await desk.client.get("/readyz")).status_code == 503


async def test_a_store_that_does_not_answer_is_not_ready(desk: Desk, monkeypatch: Any) -> None:
    monkeypatch.setattr("oncue.api.shared.readiness.PROBE_TIMEOUT", 50 * MILLISECOND)
    monkeypatch.setattr(desk.store.engine, "probe", asyncio.Event().wait)

    assert (await desk.client.get("/readyz")).status_code == 503


async def test_failed_authentications_are_counted_and_told_without_the_key(desk: Desk) -> None:
    key = desk.keys["ada"][:-1] + ("a" if desk.keys["ada"][-1] != "a" else "b")
    with capture_logs() as lines:
        for _ in range(30):
            assert (await desk.call("GET", "/v1/me", key=key)).status_code == 401
        failed: FailedKeys = desk.app.api.failed_keys
        assert failed.count == 30
    assert lines[0]["key_begins"] == key[:7]
    assert "peer" in lines[0]
    assert key[:10] not in msgspec.json.encode(lines).decode()


@pytest.mark.parametrize(
    "path", ["/v1/jobs/by-key/%ff", "/v1/jobs/by-key/%ed%a0%80", "/v1/jobs?name=%ff", "/v1/jobs?%ff=1"]
)
async def test_what_is_no_text_in_an_address_is_refused_and_not_taken_for_something_else(desk: Desk, path: str) -> None:
    answer = await desk.call("GET", path)

    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "bad_text")
    if "by-key" in path:
        assert (await desk.call("PUT", path, {"task": "mark"})).status_code == 422
    assert await desk.nothing_stored()
