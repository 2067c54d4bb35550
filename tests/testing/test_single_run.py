"""One task, run to its end without a server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from oncue import Context, NoRetry, RetryAfter, Tasks
from oncue.domain.errors import Invalid
from oncue.tasks import Call, Failure
from oncue.testing import FakeContext, arun, fake_state, run


@dataclass
class Receipt:
    order: int


class CardRefused(Exception):
    pass


tasks = Tasks()


@tasks.task(max_retries=2)
def charge(ctx: Context, order: int, fail: int = 0) -> Receipt:
    ctx.log.info("attempt %d", ctx.attempt)
    if ctx.attempt <= fail:
        raise CardRefused(f"attempt {ctx.attempt}")
    return Receipt(order)


class TestRun:
    def test_the_result_is_of_the_type_that_the_task_returns(self) -> None:
        done = run(charge, order=7)

        assert (done.result, done.status) == (Receipt(7), "succeeded")
        assert [one.outcome for one in done.attempts] == ["succeeded"]

    def test_retries_are_obeyed(self) -> None:
        done = run(charge, order=7, fail=1)

        assert done.result == Receipt(7)
        assert [one.outcome for one in done.attempts] == ["failed", "succeeded"]
        assert done.logs == ["attempt 1", "attempt 2"]

    def test_the_result_of_a_dead_run_raises_what_the_task_raised(self) -> None:
        done = run(charge, order=7, fail=5)

        assert (done.status, len(done.attempts)) == ("dead", 3)
        with pytest.raises(CardRefused, match="attempt 3"):
            _ = done.result

    def test_options_of_the_call_count(self) -> None:
        assert len(run(charge.using(max_retries=0), order=7, fail=5).attempts) == 1

    def test_long_delays_are_not_slept(self) -> None:
        tasks = Tasks()

        @tasks.task(max_retries=1)
        def later(ctx: Context) -> int:
            if ctx.attempt == 1:
                raise RetryAfter("365d")
            return ctx.attempt

        assert run(later).result == 2

    def test_no_retry_and_no_retry_on_end_it(self) -> None:
        tasks = Tasks()

        @tasks.task(max_retries=5, no_retry_on=(CardRefused,))
        def refuse(kind: str) -> None:
            raise NoRetry("no") if kind == "no" else CardRefused("no")

        assert [len(run(refuse, kind=kind).attempts) for kind in ("no", "card")] == [1, 1]

    @pytest.mark.parametrize(("wrong", "error"), [({"order": "x"}, Invalid), ({"other": 1}, TypeError)])
    def test_arguments_are_checked_against_the_signature(self, wrong: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            run(charge, **wrong)

    def test_arguments_go_through_json(self) -> None:
        tasks = Tasks()

        @tasks.task
        def keep(when: datetime, numbers: tuple[int, ...], anything: Any) -> bool:
            return isinstance(when, datetime) and numbers == (1, 2) and anything == [3]

        assert run(keep, when=datetime(2027, 1, 1, tzinfo=UTC), numbers=(1, 2), anything=(3,)).result

    def test_a_result_that_is_no_json_is_a_failure(self) -> None:
        tasks = Tasks()

        @tasks.task(max_retries=3)
        def odd() -> Any:
            return object()

        done = run(odd)

        assert (done.status, len(done.attempts)) == ("dead", 1)
        assert "result" in str(done.error)

    def test_a_plain_function_may_run_an_event_loop(self) -> None:
        tasks = Tasks()

        async def inside() -> int:
            return 5

        @tasks.task
        def outside() -> int:
            return asyncio.run(inside())

        assert run(outside).result == 5

    def test_what_is_printed_and_logged_is_noted_and_goes_where_it_always_went(
        self, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        tasks = Tasks()

        @tasks.task
        async def talk(ctx: Context) -> None:
            print("printed")
            logging.getLogger("shop").warning("logged")
            ctx.log.warning("said")

        assert run(talk).logs == ["printed", "logged", "said"]
        assert capsys.readouterr().out == "printed\n"
        assert caplog.messages == ["logged", "said"]

    def test_progress_and_checkpoints(self) -> None:
        tasks = Tasks()

        @tasks.task(max_retries=3)
        def step(ctx: Context) -> int:
            done = ctx.checkpoint() or 0
            ctx.save_checkpoint(done + 1)
            ctx.progress(done + 1, 3)
            if done < 2:
                raise RuntimeError
            return done

        done = run(step)

        assert (done.result, done.checkpoint) == (2, 3)
        assert done.progress == [(1, 3), (2, 3), (3, 3)]


class TestAround:
    async def test_lifespan_middleware_and_hooks_apply(self) -> None:
        seen: list[Any] = []

        @asynccontextmanager
        async def resources() -> AsyncIterator[str]:
            yield "pool"
            seen.append("closed")

        tasks = Tasks(lifespan=resources)

        @tasks.task(max_retries=1)
        async def use(ctx: Context[str], fail: bool = False) -> str:
            if fail:
                raise CardRefused
            return ctx.state

        @tasks.middleware
        async def around(ctx: Context[str], call: Call) -> Any:
            seen.append(f"before {ctx.attempt}")
            return await call()

        @tasks.on_failure
        async def failed(ctx: Context[str], failure: Failure) -> None:
            seen.append(type(failure.error))

        @use.on_dead
        async def dead(ctx: Context[str], failure: Failure) -> None:
            seen.append(failure.retry_at)

        assert (await arun(use)).result == "pool"
        assert seen == ["before 1", "closed"]
        seen.clear()
        assert (await arun(use, fail=True)).status == "dead"
        assert seen == ["before 1", CardRefused, "before 2", CardRefused, None, "closed"]

    def test_a_test_gives_another_state(self) -> None:
        @asynccontextmanager
        async def resources() -> AsyncIterator[str]:
            raise RuntimeError("not in tests")
            yield ""

        tasks = Tasks(lifespan=resources)

        @tasks.task
        def use(ctx: Context[str]) -> str:
            return ctx.state

        with fake_state(tasks, "fake"):
            assert run(use).result == "fake"
        with pytest.raises(Exception, match="not in tests"):
            run(use)


class TestFakeContext:
    async def test_it_has_what_it_is_given(self) -> None:
        ctx = FakeContext(
            task="a", attempt=2, checkpoint={"n": 1}, state=5, scheduled_for="2027-01-04T00:00Z", job_name="b"
        )

        assert (ctx.task, ctx.attempt, ctx.checkpoint(), ctx.state, ctx.job_name) == ("a", 2, {"n": 1}, 5, "b")
        assert ctx.scheduled_for == datetime(2027, 1, 4, tzinfo=UTC)

    async def test_it_records(self) -> None:
        ctx = FakeContext()

        ctx.log.debug("%s is %d", "one", 1)
        ctx.log.info("100%")
        ctx.progress(1, 2)
        ctx.progress(2)
        await ctx.save_checkpoint([1])

        assert (ctx.logs, ctx.reported, ctx.saved) == (["one is 1", "100%"], [(1, 2), (2, None)], [[1]])

    def test_a_task_is_called_with_it_and_may_be_told_to_stop(self) -> None:
        tasks = Tasks()

        @tasks.task
        def count(ctx: Context) -> int:
            return 0 if ctx.cancelled else 1

        ctx = FakeContext()
        assert count(ctx) == 1
        ctx.cancelled = True
        assert count(ctx) == 0
        assert count(FakeContext(cancelled=True)) == 0
