"""Spans of attempts: whose trace they are in, what they tell, and that an unsampled run costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from opentelemetry import trace as otel_trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from tests.domain.test_trace import NOT_SAMPLED, PARENT, SPAN_ID, TRACE_ID
from tests.services.worker_loops import Stage, StagedCrew, crew_on, final, work
from tests.tracing.conftest import Spans

from oncue.domain import change
from oncue.domain.ids import RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.placement import Resources
from oncue.domain.run import Claimed, State
from oncue.domain.trace import Trace
from oncue.executors.threads import ThreadExecutor
from oncue.services.attempts import End, Stop
from oncue.services.capacity import Capacity
from oncue.services.scheduler import Scheduler
from oncue.tasks import Isolation
from oncue.tracing import otel
from oncue.tracing.otel import OtelTracing
from oncue_conformance.store import Store, job_of, only

Recording = Callable[[float], Spans]
CREATION = Trace(PARENT, "vendor=1", "tenant=7")


async def crew_in(store: Store, stage: Stage, spans: Spans, **settings: Any) -> StagedCrew:
    crew = await crew_on(store, stage, **settings)
    crew.attempts._tracing = spans.tracing
    return crew


def parent_of(span: ReadableSpan) -> tuple[str, str] | None:
    return None if span.parent is None else (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}")


def links_of(span: ReadableSpan) -> list[tuple[str, str]]:
    return [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in span.links]


def trace_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


class TestParentOrLink:
    async def test_a_one_shot_belongs_to_the_trace_it_was_created_in_at_every_attempt(
        self, store: Store, recording: Recording
    ) -> None:
        spans, stage = recording(0.0), Stage()
        run_id = await store.one_shot(task="fail", trace=CREATION, max_retries=2)

        crew = await crew_in(store, stage, spans)
        assert (await final(store, crew, run_id)).state is State.DEAD

        assert [span.attributes["oncue.attempt"] for span in spans["run fail"] if span.attributes] == [1, 2, 3]
        assert {parent_of(span) for span in spans.ended} == {(TRACE_ID, SPAN_ID)}
        assert {span.context.trace_state.to_header() for span in spans.ended if span.context} == {"vendor=1"}
        assert [links_of(span) for span in spans.ended] == [[]] * 3

    async def test_a_late_one_shot_has_its_own_trace_and_links_to_its_creation(
        self, store: Store, recording: Recording
    ) -> None:
        spans, stage = recording(1.0), Stage()
        run_id = await store.one_shot(2 * HOUR, task="fail", trace=CREATION, max_retries=1)
        store.advance(2 * HOUR)

        await final(store, await crew_in(store, stage, spans), run_id)

        assert [trace_id(span) for span in spans.ended] == [run_id.hex] * 2
        assert {parent_of(span) for span in spans.ended} == {None}
        assert [links_of(span) for span in spans.ended] == [[(TRACE_ID, SPAN_ID)]] * 2

    async def test_runs_of_a_recurring_job_have_traces_of_their_own(self, store: Store, recording: Recording) -> None:
        """Also one that is asked for by hand: a job that runs for a year must not be one trace."""
        spans, stage = recording(1.0), Stage()
        job_id = await store.recurring(every=MINUTE, trace=CREATION)
        crew = await crew_in(store, stage, spans)
        for _ in range(2):
            store.advance(MINUTE)
            await store.plan()
            await work(crew)
        asked = RunId(store.new_id())
        assert await store.change(job_id, lambda snap: change.run_now(snap, asked, store.now))
        store.advance(SECOND)
        await work(crew)

        assert [trace_id(span) for span in spans["run noop"]] == [run_id.hex for run_id in stage.started]
        assert len({trace_id(span) for span in spans.ended}) == 3
        assert [links_of(span) for span in spans["run noop"]] == [[(TRACE_ID, SPAN_ID)]] * 3
        triggers = [span.attributes["oncue.trigger"] for span in spans.ended if span.attributes]
        assert triggers == ["schedule", "schedule", "run_now"]

    async def test_without_a_creation_it_is_a_trace_of_its_own_without_a_link(
        self, store: Store, recording: Recording
    ) -> None:
        spans, stage = recording(1.0), Stage()
        run_id = await store.one_shot()

        await work(await crew_in(store, stage, spans))

        span = only(spans.ended)
        assert (trace_id(span), parent_of(span), links_of(span)) == (run_id.hex, None, [])

    async def test_a_plan_links_to_the_creations_of_what_is_sampled(self, store: Store, recording: Recording) -> None:
        spans, unsampled = recording(1.0), recording(0.0)
        for n in range(40):
            parent = f"00-{TRACE_ID}-{n + 1:016x}-01"
            await store.recurring(every=MINUTE, trace=Trace(parent) if n % 4 else None)
        store.advance(MINUTE + 10 * SECOND)

        await Scheduler(store.engine, store.clock, tracing=unsampled.tracing).run_once()
        assert unsampled.ended == ()
        store.advance(MINUTE)
        await Scheduler(store.engine, store.clock, tracing=spans.tracing).run_once()

        span = only(spans["plan"])
        assert span.attributes == {"oncue.jobs": 40, "oncue.runs": 40, "oncue.planned_late": 40}
        assert (span.kind, parent_of(span), len(links_of(span))) == (SpanKind.INTERNAL, None, 30)


class TestWhatASpanTells:
    async def test_of_a_run_that_succeeded(self, store: Store, recording: Recording) -> None:
        spans, stage = recording(0.0), Stage()
        run_id = await store.one_shot(trace=CREATION, queue="slow", name="n", payload=b"{}")
        store.advance(1_500_000)

        await work(await crew_in(store, stage, spans))

        span = only(spans.ended)
        assert (span.name, span.kind, span.status.status_code) == ("run noop", SpanKind.CONSUMER, StatusCode.UNSET)
        assert span.attributes == {
            "messaging.system": "oncue",
            "messaging.operation.type": "process",
            "messaging.destination.name": "slow",
            "messaging.message.id": str(run_id),
            "oncue.job.id": str(run_id),
            "oncue.attempt": 1,
            "oncue.trigger": "schedule",
            "oncue.scheduled_for": "2027-01-15T08:00:00Z",
            "oncue.lag_ms": 1_500,
            "oncue.priority": "normal",
        } | {"oncue.scheduled_for": span.attributes["oncue.scheduled_for"]}
        assert span.start_time == span.end_time == store.now * 1_000  # by the store's clock, which stands still
        assert span.resource.attributes["service.name"] == "oncue"

    async def test_lag_counts_from_when_the_run_could_start(self, store: Store, recording: Recording) -> None:
        """As the start-lag histogram does: here its lane let the second in a minute after it was due."""
        spans, stage = recording(1.0), Stage()
        first, _ = await store.one_shots(2, apart=1, group="g")
        worker = await store.worker()
        run = await store.claim_one(worker, first)
        store.advance(MINUTE)
        await store.succeed(worker, run)
        store.advance(SECOND)

        await work(await crew_in(store, stage, spans))

        assert (only(spans.ended).attributes or {})["oncue.lag_ms"] == 1_000

    @pytest.mark.parametrize(
        ("task", "stop", "error"),
        [
            ("fail", None, "RuntimeError"),
            ("wait", Stop.TIMED_OUT, "Timeout"),
            ("wait", Stop.CANCELLED, None),
            ("wait", Stop.DRAINING, None),
        ],
    )
    async def test_of_one_that_did_not(
        self, store: Store, recording: Recording, task: str, stop: Stop | None, error: str | None
    ) -> None:
        """The type of an error, and not a word of what it says."""
        spans, stage = recording(1.0), Stage()
        run_id = await store.one_shot(task=task)
        crew = await crew_in(store, stage, spans)
        await work(crew)
        if stop is not None:
            assert spans.ended == ()
            crew.attempts.stop(run_id, stop)
            await crew.rest()

        span = only(spans.ended)
        wanted = (StatusCode.UNSET, None) if error is None else (StatusCode.ERROR, error)
        assert (span.status.status_code, span.status.description) == wanted
        assert (span.attributes or {}).get("error.type") == error
        assert span.events == ()
        assert "boom" not in spans.everything()

    async def test_no_secret_is_in_any_of_them(self, store: Store, recording: Recording) -> None:
        class Leaky(Stage):
            async def stubborn(self, ctx: Any, secret: str = "") -> str:
                ctx.log.info(secret)
                await ctx.save_checkpoint(secret)
                if ctx.attempt == 1:
                    raise ValueError(secret) from KeyError(secret)
                return secret

        spans, stage = recording(1.0), Leaky()
        crew = await crew_in(store, stage, spans)
        run_id = await store.one_shot(
            task="stubborn", payload=b'{"secret":"geheim"}', trace=Trace(PARENT), name="geheim", tags=("geheim",)
        )

        view = await final(store, crew, run_id)

        assert (view.state, view.result, len(spans.ended)) == (State.SUCCEEDED, b'"geheim"', 2)
        assert "geheim" not in spans.everything()


class TestCurrentContext:
    async def test_in_the_loop_and_in_a_thread_the_span_is_current(self, store: Store, recording: Recording) -> None:
        spans, stage, seen = recording(1.0), Stage(), list[tuple[str, str | None]]()

        async def noop(ctx: Any) -> None:
            seen.append(
                (otel_trace.format_trace_id(otel_trace.get_current_span().get_span_context().trace_id), ctx.traceparent)
            )

        stage.tasks.get("noop").function = noop  # type: ignore[union-attr]
        threads = ThreadExecutor(1_000)
        crew = await crew_in(store, stage, spans)

        first = await store.one_shot()
        await store.one_shot(trace=Trace(NOT_SAMPLED))
        await work(crew)
        assert seen == [
            (first.hex, f"00-{first.hex}-{spans.ended[0].context.span_id:016x}-03"),
            ("0" * 32, NOT_SAMPLED),
        ]

        def sync(ctx: Any) -> None:
            seen.append((otel_trace.format_trace_id(otel_trace.get_current_span().get_span_context().trace_id), None))

        stage.tasks.get("noop").function = sync  # type: ignore[union-attr]
        crew.attempts._execution = msgspec.structs.replace(
            crew.attempts._execution, executors=dict.fromkeys(Isolation, threads)
        )
        third = await store.one_shot()
        store.advance(SECOND)
        await work(crew)
        await threads.close()
        assert seen[2:] == [(third.hex, None)]


class Untouchable:
    """In place of a tracer: whoever asks it for anything is noted."""

    def __init__(self) -> None:
        self.touched: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.touched.append(name)
        raise AssertionError(name)


class Counted:
    def __init__(self) -> None:
        self.ends = 0

    def begun(self) -> None: ...

    def started(self, runs: object, now: object) -> None: ...

    def ended(self, end: End) -> None:
        self.ends += 1

    def not_understood(self, run: Claimed) -> None: ...


async def test_25_000_unsampled_runs_never_meet_the_sdk(
    store: Store, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    """A span takes as long as a small run, and so does one that is not recorded."""
    crew = await crew_on(store, Stage())
    tracer, observer = Untouchable(), Counted()
    tracing = OtelTracing(tracer, store.clock, 0.0, lambda: None)  # type: ignore[arg-type]
    monkeypatch.setattr(otel, "otel_context", tracer)
    attempts = crew.attempts
    attempts._tracing, attempts._observer = tracing, observer
    attempts.capacity = Capacity(dict.fromkeys(Isolation, 1_000), Resources(1_000, 1_000, 1_000), 0.0, 8)
    run_id = await store.one_shot(trace=Trace(NOT_SAMPLED))
    [run] = await store.claim(crew.worker_id, run_id)
    plain = msgspec.structs.replace(run, spec=b'{"task":"noop"}')

    for first in range(0, 25_000, 500):
        ids = [RunId(store.new_id()) for _ in range(250)]
        attempts.start([msgspec.structs.replace(plain, run_id=one, job_id=job_of(one)) for one in ids])
        ids = [RunId(store.new_id()) for _ in range(250)]
        attempts.start([msgspec.structs.replace(run, run_id=one, job_id=job_of(one)) for one in ids])
        while observer.ends < first + 500:
            await asyncio.sleep(0)
        assert tracer.touched == []

    assert observer.ends == 25_000
    sampled = b'{"task":"noop","trace":{"parent":"%s"}}' % PARENT.encode()
    attempts.start([msgspec.structs.replace(run, spec=sampled)])
    # So it would have been noticed, and no run would have failed. An exporter of an earlier test may still log.
    assert len(tracer.touched) == len([line for line in logged if line["kind"] == "span_failed"]) == 1
    while observer.ends < 25_001:
        await asyncio.sleep(0)
