"""What an attempt passes on: to whom the http task calls, to commands, to functions in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.trace import SpanKind, StatusCode
from tests.domain.test_attempt import claimed
from tests.domain.test_trace import PARENT, SPAN_ID, TRACE_ID
from tests.executors.test_http import Server
from tests.executors.working import attempt
from tests.tracing.conftest import Spans
from tests.tracing.test_attempts import parent_of

from oncue.clock import SystemClock
from oncue.domain.ids import RunId, uuid7
from oncue.domain.instants import SECOND, Instant
from oncue.domain.job import Spec
from oncue.domain.trace import Trace
from oncue.executors.command import command_task
from oncue.executors.functions import LoopExecutor
from oncue.executors.http import http_task
from oncue.executors.port import TaskFailed, Work
from oncue.executors.processes import ProcessExecutor
from oncue.settings import Settings
from oncue.tasks import Task
from oncue.tracing.port import AttemptSpan
from oncue_conformance.store import only

CARRIED = Trace(PARENT, "vendor=1", "tenant=7")
SETTINGS = Settings(http_allow=("127.0.0.1/32",))
TASKS = """
from opentelemetry import trace
from oncue import Context, Tasks

tasks = Tasks()

@tasks.task("who", isolation="process")
def who(ctx: Context) -> list[str]:
    current = trace.get_current_span().get_span_context()
    return [trace.format_trace_id(current.trace_id), trace.format_span_id(current.span_id), ctx.traceparent]

@tasks.task("who_async", isolation="process")
async def who_async(ctx: Context) -> list[str]:
    return who(ctx)
"""


def in_trace(work: Work, trace: Trace | None) -> Work:
    return msgspec.structs.replace(work, info=msgspec.structs.replace(work.info, trace=trace))


async def call(server: Server, span: AttemptSpan | None, path: str = "/a", **payload: Any) -> dict[str, str]:
    """The headers that the http task sends, in an attempt with this span."""
    payload = {"url": f"http://127.0.0.1:{server.port}{path}", **payload}
    work = attempt(http_task(SETTINGS), msgspec.json.encode(payload))
    work = in_trace(work, CARRIED if span is None else span.trace)
    if span is not None:
        span.enter()
    await LoopExecutor(10_000).run(work)
    head = server.requests[-1].partition("\r\n\r\n")[0].splitlines()[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}


def begun(spans: Spans) -> AttemptSpan:
    run_id = uuid7(Instant(SECOND), os.urandom(8))
    span = spans.tracing.attempt(msgspec.structs.replace(claimed(Spec("http")), run_id=RunId(run_id)), Spec("http"))
    assert span is not None
    return span


class TestHttp:
    async def test_without_a_span_the_stored_context_is_passed_on_unchanged(self, server: Server) -> None:
        sent = await call(server, None)

        assert (sent["traceparent"], sent["tracestate"], sent["baggage"]) == (PARENT, "vendor=1", "tenant=7")

    async def test_a_users_own_header_wins(self, server: Server) -> None:
        assert (await call(server, None, headers={"Traceparent": "mine"}))["traceparent"] == "mine"

    async def test_a_request_is_a_span_of_the_attempt(self, server: Server) -> None:
        spans = Spans(SystemClock(), 1.0)
        span = begun(spans)

        sent = await call(server, span, "/a/b?token=geheim", method="POST", headers={"x-key": "geheim"}, body="geheim")

        made = only(spans.ended)
        assert made.context is not None
        assert sent["traceparent"] == f"00-{span.trace.parent[3:35]}-{made.context.span_id:016x}-03"
        assert (made.name, made.kind, parent_of(made)) == (
            "POST",
            SpanKind.CLIENT,
            tuple(span.trace.parent.split("-")[1:3]),
        )
        assert made.attributes == {
            "http.request.method": "POST",
            "url.full": f"http://127.0.0.1:{server.port}/a/b",
            "server.address": "127.0.0.1",
            "server.port": server.port,
            "http.response.status_code": 200,
        }
        assert "geheim" not in spans.everything()

    @pytest.mark.parametrize(
        ("answer", "error"),
        [(b"HTTP/1.1 503 Gone\r\nContent-Length: 6\r\n\r\ngeheim", "503"), (b"geheim\r\n\r\n", "HttpError")],
    )
    async def test_of_a_failure_only_the_type_is_told(self, server: Server, answer: bytes, error: str) -> None:
        spans = Spans(SystemClock(), 1.0)
        server.answer = answer

        with pytest.raises(TaskFailed):
            await call(server, begun(spans))

        made = only(spans.ended)
        assert (made.status.status_code, made.status.description) == (StatusCode.ERROR, error)
        assert "geheim" not in spans.everything()


async def test_a_command_finds_it_in_its_environment() -> None:
    task = command_task(Settings(allow_commands=True))
    payload = msgspec.json.encode({"argv": ["sh", "-c", "echo $TRACEPARENT $TRACESTATE $BAGGAGE"]})

    result = await LoopExecutor(10_000).run(in_trace(attempt(task, payload), CARRIED))

    assert result is not None
    assert msgspec.json.decode(result)["output"] == f"{PARENT} vendor=1 tenant=7\n"


async def test_it_is_current_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traced_tasks.py").write_text(TASKS)
    settings = Settings(tasks=(str(tmp_path / "traced_tasks.py"),), processes=1)
    processes = ProcessExecutor(settings, 1)
    try:
        for name in ("who", "who_async"):
            task = Task(name, lambda ctx: None, isolation=None, defaults={}, roles=())  # type: ignore[arg-type]
            found = await processes.run(in_trace(attempt(task), CARRIED))
            assert msgspec.json.decode(found or b"") == [TRACE_ID, SPAN_ID, PARENT]
            found = await processes.run(attempt(task))
            assert msgspec.json.decode(found or b"") == ["0" * 32, "0" * 16, None]
    finally:
        await processes.close()
