"""Stand-ins for a server, and the pytest plugin that hands them out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from oncue import Context, Tasks, every
from oncue.client import OncueApiError, RunFailed
from oncue.testing.app import OncueApp
from oncue.testing.fake import OncueFake, OncueInline

tasks = Tasks()
seen: list[Any] = []


@tasks.task(queue="mail")
async def welcome(user: int, tags: dict[str, int] | None = None) -> str:
    seen.append(user)
    return f"Welcome, {user}!"


@tasks.task
def outer(ctx: Context, user: int) -> str:
    return welcome.sync.run(user=user)


@tasks.task
async def endless() -> None:
    await endless.enqueue()


@tasks.task(max_retries=1)
def fail(ctx: Context) -> None:
    raise RuntimeError("boom")


@pytest.fixture
def oncue_tasks() -> Iterator[list[Tasks]]:
    seen.clear()
    yield [tasks]
    assert tasks.clients.override is None


class TestFake:
    async def test_calls_are_recorded_and_nothing_runs(self, oncue_fake: OncueFake) -> None:
        run = await welcome.enqueue(user=7, tags={"a": 1, "b": 2})
        await welcome.using(priority="high").enqueue_in("10m", user=8)
        await tasks.enqueue_many([welcome.bind(user=9)])
        await welcome.using(key="k").schedule(every("1h"), user=10)

        assert (seen, run.status) == ([], "queued")
        assert [call.payload["user"] for call in oncue_fake.enqueued(welcome)] == [7, 8, 9, 10]
        oncue_fake.assert_enqueued(welcome, {"user": 7, "tags": {"a": 1}}, queue="mail", times=1)
        oncue_fake.assert_enqueued(welcome, priority="high", schedule="in 10m", times=1)
        oncue_fake.assert_enqueued("welcome", {"user": 10}, key="k")
        oncue_fake.assert_not_enqueued(outer)
        oncue_fake.assert_not_enqueued(welcome, {"user": 11})

    async def test_whoever_waits_for_a_run_is_told_that_it_never_ends(self, oncue_fake: OncueFake) -> None:
        with pytest.raises(OncueApiError, match=r"'welcome': it never ends.*oncue_inline"):
            await welcome.run(user=7)

    def test_messages_show_what_was_enqueued_instead(self, oncue_fake: OncueFake) -> None:
        with pytest.raises(AssertionError, match="Nothing was enqueued"):
            oncue_fake.assert_enqueued(welcome)
        welcome.sync.enqueue(user=7)

        with pytest.raises(AssertionError, match=r"(?s)'user': 8.*found 0.*Enqueued:\n  welcome\(\{'user': 7\}"):
            oncue_fake.assert_enqueued(welcome, {"user": 8})
        with pytest.raises(AssertionError, match="2 times, found 1"):
            oncue_fake.assert_enqueued(welcome, times=2)
        with pytest.raises(AssertionError, match="'user': 7"):
            oncue_fake.assert_not_enqueued(welcome)


class TestInline:
    async def test_runs_happen_in_the_caller(self, oncue_inline: OncueInline) -> None:
        assert await welcome.run(user=7) == "Welcome, 7!"
        assert await outer.run(user=8) == "Welcome, 8!"
        await welcome.enqueue_in("1h", user=9)

        assert seen == [7, 8]
        oncue_inline.assert_enqueued(welcome, times=3)

    def test_without_a_loop(self, oncue_inline: OncueInline) -> None:
        assert outer.sync.run(user=8) == "Welcome, 8!"
        with pytest.raises(RunFailed, match="boom"):
            fail.sync.run()
        assert [len(run.attempts) for run in oncue_inline.runs] == [1, 1, 2]


@pytest.mark.oncue(now="2027-03-26T00:00Z")
async def test_the_app_starts_at_the_time_of_the_marker(oncue_app: OncueApp) -> None:
    await welcome.enqueue(user=7)

    assert [run.result for run in await oncue_app.drain()] == ["Welcome, 7!"]
    assert f"{oncue_app.now:%FT%RZ}" == "2027-03-26T00:00Z"


def test_the_plugin_imports_next_to_nothing() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import oncue.testing.plugin; "
        "print(sorted({name for name in set(sys.modules) - before}))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert found.stdout.strip() == "['oncue', 'oncue.testing', 'oncue.testing.plugin']"


def test_a_task_that_enqueues_itself_for_ever_fails_at_some_depth(oncue_inline: OncueInline) -> None:
    endless.using(max_retries=0).sync.enqueue()

    assert "'endless' was enqueued 100 runs deep" in str(oncue_inline.runs[0].error)
    assert len(oncue_inline.runs) == 100


def test_after_a_block_within_another_calls_go_to_the_outer_one_again(oncue_fake: OncueFake) -> None:
    with OncueFake([tasks]) as inner:
        welcome.sync.enqueue(user=1)
    welcome.sync.enqueue(user=2)

    assert [[call.payload for call in fake.enqueued()] for fake in (inner, oncue_fake)] == [
        [{"user": 1}],
        [{"user": 2}],
    ]


def test_one_set_of_tasks_needs_no_list() -> None:
    with OncueFake(tasks) as fake:
        welcome.sync.enqueue(user=8)

    fake.assert_enqueued(welcome, payload={"user": 8})
