"""The stream of events: read as it comes, made anew where it broke off."""

from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import httpx2
import pytest
from tests.client.both import J1, R1, Pauses, Wire, problem
from tests.client.conftest import Connect

from oncue.client import NotFound, NotOncue, ServerUnreachable

RAN = f'{{"run_id": "{R1}", "job_id": "{J1}", "status": "running", "task": "hello"}}'
FIRST = f"id: 1\nevent: run\ndata: {RAN}\n\n"
CHANGED = f'"{J1}", "status": "paused", "task": "hello"}}'
SECOND = f': still here\n\nid: 2\nevent: job\ndata: {{"job_id":\ndata: {CHANGED}\n\n'
WITHOUT_AN_ID = "event: run\ndata: {}\n\n"


def stream(*texts: str, breaks: bool = False) -> httpx2.Response:
    """A stream of these events, which ends, or breaks."""
    return httpx2.Response(
        200, headers={"Content-Type": "text/event-stream"}, stream=Stream([text.encode() for text in texts], breaks)
    )


class Stream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, parts: list[bytes], breaks: bool) -> None:
        self._parts = parts
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts
        if self._breaks:
            raise httpx2.ReadError("broken pipe")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


def test_events_are_read_as_they_are_told(connect: Connect) -> None:
    either = connect(wire := Wire(lambda _: stream(FIRST + SECOND[:20], SECOND[20:])))

    events = either.first(2, either.client.events())

    assert [(one.kind, one.id, one.data) for one in events] == [
        ("run", "1", {"run_id": R1, "job_id": J1, "status": "running", "task": "hello"}),
        ("job", "2", {"job_id": J1, "status": "paused", "task": "hello"}),
    ]
    assert wire.lines == ["GET /v1/events"]
    assert "Last-Event-ID" not in wire.requests[0].headers


def test_an_event_has_its_run_or_its_job(connect: Connect) -> None:
    dead = f'event: dead\nid: 3\ndata: {{"run_id": "{R1}", "job_id": "{J1}", "error_type": "ValueError"}}\n\n'
    later = "event: run\nid: 4\ndata: 7\n\nevent: worker\nid: 5\ndata: {}\n\n"
    either = connect(Wire(lambda _: stream(FIRST + SECOND + dead + later)))

    ran, changed, died, newer, worker = either.first(5, either.client.events())

    assert (ran.run.run_id, ran.run.status, ran.job) == (UUID(R1), "running", None)
    assert (changed.job.job_id, changed.job.status, changed.run) == (UUID(J1), "paused", None)
    assert (died.run.status, died.run.error_type) == ("dead", "ValueError")
    assert [(one.run, one.job) for one in (newer, worker)] == [(None, None)] * 2


def test_a_stream_is_narrowed_also_when_it_is_made_anew_and_unknown_events_are_passed_on(connect: Connect) -> None:
    """What a later server tells of is an event like others, and a pulse leaves the position where it was."""
    news = "event: pulse\ndata: {}\n\nevent: marvel\nid: 7\ndata: {}\n\nevent: pulse\ndata: {}\n\n"
    either = connect(wire := Wire(lambda _: stream(FIRST + news), lambda _: stream(SECOND)))

    events = either.first(5, either.client.events(job=J1, types=["run", "dead"], pulse=True))

    assert [one.kind for one in events] == ["run", "pulse", "marvel", "pulse", "job"]
    assert [one.url.query for one in wire.requests] == [f"job_id={J1}&types=run%2Cdead&pulse=true".encode()] * 2
    assert wire.requests[1].headers["Last-Event-ID"] == "7"


@pytest.mark.parametrize("breaks", [False, True])
def test_a_stream_that_ends_or_breaks_goes_on_after_the_last_event(connect: Connect, breaks: bool) -> None:
    either = connect(wire := Wire(lambda _: stream(FIRST, breaks=breaks), lambda _: stream(SECOND)))

    events = either.first(2, either.client.events(last_event_id="0"))

    assert [one.id for one in events] == ["1", "2"]
    assert [one.headers["Last-Event-ID"] for one in wire.requests] == ["0", "1"]


def test_a_gap_that_nobody_can_name_is_told_as_a_resync(connect: Connect) -> None:
    either = connect(Wire(lambda _: stream(WITHOUT_AN_ID), lambda _: stream(FIRST)))

    events = either.first(3, either.client.events())

    assert [(one.kind, one.resync) for one in events] == [("run", False), ("resync", True), ("run", False)]


def test_a_resync_of_the_servers_is_told(connect: Connect) -> None:
    either = connect(Wire(lambda _: stream("id: 9\nevent: resync\ndata: {}\n\n")))

    [event] = either.first(1, either.client.events(last_event_id="3"))

    assert (event.resync, event.id) == (True, "9")


def test_a_server_that_is_away_is_tried_again_and_not_for_ever(connect: Connect, pauses: Pauses) -> None:
    away = [httpx2.ConnectError("refused"), problem(503, headers={"Retry-After": "2"})]
    either = connect(Wire(*away, lambda _: stream(FIRST), *[httpx2.ConnectError("refused")] * 4), retries=3)

    with pytest.raises(ServerUnreachable):
        either.all(either.client.events())

    # twice before the first event; then the end of the stream, and two more failures in a row before it gives up
    assert pauses.all == [0.1, 2.2, 0.1, 0.2, 0.4]


def test_streams_that_end_at_once_are_asked_for_less_and_less_often(connect: Connect, pauses: Pauses) -> None:
    either = connect(Wire(*[lambda _: stream("")] * 8, lambda _: stream(FIRST)))

    assert [one.kind for one in either.first(1, either.client.events("0"))][-1] == "run"
    assert pauses.all == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_refusal_is_not_tried_again(connect: Connect) -> None:
    either = connect(wire := Wire(problem(404)))

    with pytest.raises(NotFound):
        either.all(either.client.events())
    assert len(wire.requests) == 1


def test_an_id_alone_is_no_event_but_the_place_to_go_on_from(connect: Connect, pauses: Pauses) -> None:
    either = connect(wire := Wire(*[lambda _: stream("id: 7\n\n")] * 2, lambda _: stream(FIRST)))

    events = either.first(1, either.client.events())

    assert [(one.kind, one.id) for one in events] == [("run", "1")]
    assert [one.headers.get("Last-Event-ID") for one in wire.requests] == [None, "7", "7"]
    assert pauses.all == [0.1, 0.2]  # which told nothing either


@pytest.mark.parametrize("headers", [{"Content-Type": "text/html"}, {}])
def test_a_page_in_the_place_of_a_stream_is_not_asked_for_again(connect: Connect, headers: dict[str, str]) -> None:
    either = connect(wire := Wire(httpx2.Response(200, headers=headers, content=b"<html>log in</html>")))

    with pytest.raises(NotOncue, match=r"GET /v1/events returned .* instead of events"):
        either.first(1, either.client.events())
    assert len(wire.requests) == 1


def test_a_stream_that_cannot_be_unpacked_is_one_that_broke(connect: Connect) -> None:
    headers = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    garbled = httpx2.Response(200, headers=headers, stream=Stream([b"nonsense"], False))
    either = connect(Wire(lambda _: garbled, lambda _: stream(FIRST)))

    assert [one.id for one in either.first(1, either.client.events("0"))] == ["1"]
