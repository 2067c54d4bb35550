"""Declaring a task: three forms of the decorator, who gets the context, defaults of jobs, and errors with a line."""

import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from oncue import Context, Tasks
from oncue.domain.definition import DEFAULTED, define
from oncue.domain.errors import Invalid
from oncue.domain.instants import Instant
from oncue.executors.loading import load_tasks
from oncue.tasks import AsyncFunctionTask, FunctionTask, Task

WHOLE: dict[str, Any] = {
    "queue": "mail",
    "priority": "high",
    "tags": ["a"],
    "timeout": "30s",
    "max_retries": 5,
    "retry": {"backoff": "1s"},
    "overlap": "skip",
    "catch_up": "all",
    "catch_up_window": "2h",
    "start_within": "5m",
    "on_lost": "dead",
    "on_left_behind": "release",
    "group": "g",
    "concurrency": {"key": "k", "limit": 2},
    "rate": {"limit": 1, "per": "1s"},
    "resources": {"slots": 2},
    "labels": ["gpu"],
    "preemptible": True,
}


def refusal(function: Callable[..., Any], *name: str, **options: Any) -> str:
    with pytest.raises(Invalid) as refused:
        Tasks().task(*name, **options)(function)
    return str(refused.value)


class TestTheDecorator:
    def test_without_parentheses_the_task_has_the_functions_name(self) -> None:
        tasks = Tasks()

        @tasks.task
        async def hello(name: str) -> str:
            return name

        @tasks.task
        def plain() -> int:
            return 1

        assert [task.name for task in tasks] == ["hello", "plain"]
        assert isinstance(hello, AsyncFunctionTask)
        assert isinstance(plain, FunctionTask)

    def test_with_options_alone_the_name_is_the_functions_too(self) -> None:
        tasks = Tasks()

        @tasks.task(queue="mail")
        def hello() -> None: ...

        assert (hello.name, hello.defaults) == ("hello", {"queue": "mail"})

    def test_a_name_may_be_given(self) -> None:
        tasks = Tasks()

        @tasks.task("mail.hello", queue="mail")
        def hello() -> None: ...

        assert (hello.name, hello.defaults) == ("mail.hello", {"queue": "mail"})

    def test_a_task_may_be_declared_again_under_another_name(self) -> None:
        tasks = Tasks()

        @tasks.task("first")
        @tasks.task("second")
        def hello() -> int:
            return 1

        assert [(task.name, task.function()) for task in tasks] == [("second", 1), ("first", 1)]

    def test_it_looks_like_its_function(self) -> None:
        @Tasks().task("other")
        def hello() -> None:
            """Say hello."""

        shown = vars(hello)
        assert (shown["__name__"], shown["__doc__"], shown["__module__"]) == ("hello", "Say hello.", __name__)
        assert shown["__wrapped__"] is hello.function


class TestTheContext:
    def test_it_is_passed_to_a_first_parameter_that_is_annotated_with_it(self) -> None:
        def annotated(anything: Context, x: int) -> None: ...
        def with_state(c: Context[int], x: int) -> None: ...
        def by_name(ctx, x: int) -> None: ...  # type: ignore[no-untyped-def]
        def of_any_type(ctx: Any, x: int) -> None: ...

        for function in (annotated, with_state, by_name, of_any_type):
            task = _task(function)
            assert task.takes_context
            assert task.arguments(b'{"x":1}') == {"x": 1}

    def test_otherwise_every_parameter_is_payload(self) -> None:
        def none() -> None: ...
        def other(context, x: int) -> None: ...  # type: ignore[no-untyped-def]
        def named(ctx: int) -> None: ...

        assert _task(none).arguments(None) == {}
        assert _task(other).arguments(b'{"context":2,"x":1}') == {"context": 2, "x": 1}
        assert _task(named).arguments(b'{"ctx":2}') == {"ctx": 2}
        assert not any(_task(one).takes_context for one in (none, other, named))

    def test_in_another_position_it_is_an_error(self) -> None:
        def second(x: int, ctx: Context) -> None: ...
        def by_name(x: int, ctx) -> None: ...  # type: ignore[no-untyped-def]
        def twice(ctx: Context, other: Context[int]) -> None: ...

        for function in (second, by_name, twice):
            assert "must be the first parameter" in refusal(function)

    def test_as_a_keyword_it_is_an_error(self) -> None:
        def annotated(*, ctx: Context) -> None: ...
        def by_name(*, ctx) -> None: ...  # type: ignore[no-untyped-def]

        for function in (annotated, by_name):
            assert "no keyword-only one" in refusal(function)


class TestDefaults:
    def test_every_policy_of_a_job_can_be_one(self) -> None:
        task = _task(nothing, **WHOLE)
        spec, _ = define({"task": "nothing"}, task.defaults, Instant(0))

        assert set(WHOLE) == set(DEFAULTED)
        assert define({"task": "nothing", **WHOLE}, {}, Instant(0))[0] == spec

    def test_a_job_has_the_last_word(self) -> None:
        defaults = _task(nothing, **WHOLE).defaults
        spec, _ = define({"task": "t", "queue": "other", "group": None, "labels": []}, defaults, Instant(0))

        assert (spec.queue, spec.group, spec.labels) == ("other", None, ())
        assert spec.tags == ("a",)

    def test_parts_of_retry_and_resources_are_merged(self) -> None:
        defaults = {"retry": {"backoff": "1s", "factor": 3}, "resources": {"cpu": 2, "slots": 3}}
        job = {"task": "t", "retry": {"factor": 4}, "resources": {"cpu": 1}}
        spec, _ = define(job, defaults, Instant(0))

        assert (spec.retry.backoff, spec.retry.factor) == (1_000_000, 4)
        assert (spec.resources.cpu_milli, spec.resources.slots) == (1_000, 3)

    def test_short_forms(self) -> None:
        found = _task(
            nothing, rate="10/1m", concurrency=4, timeout=timedelta(minutes=1.5), retry={"backoff": timedelta(0, 2)}
        )

        assert found.defaults == {
            "rate": {"limit": 10, "per": "1m"},
            "concurrency": {"key": "nothing", "limit": 4},
            "timeout": "90s",
            "retry": {"backoff": "2s"},
        }

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"rate": "ten a minute"}, "rate 'ten a minute' is not a rate"),
            ({"rate": "10/soon"}, "rate.per 'soon' is not a duration"),
            ({"concurrency": True}, "concurrency must be an object"),
            ({"concurrency": 0}, "concurrency.limit"),
            ({"timeout": timedelta(-1)}, "timeout"),
            ({"priority": object()}, "priority cannot be written as JSON"),
            (
                {"timezone": "x"},
                'timezone is not an option of tasks; write schedule=cron("0 9 * * *", "Europe/Berlin")',
            ),
            ({"retry_backoff": 2}, 'retry_backoff is not an option of tasks; write retry={"backoff": "2s"}'),
            ({"time_limit": 3}, "time_limit is not an option of tasks; did you mean 'timeout'?"),
            ({"tiemoot": "3s"}, "tiemoot is not an option of tasks; did you mean 'timeout'?"),
            ({"sausage": 1}, "sausage is not an option of tasks; check the spelling"),
            ({"tiemout": "3s"}, "tiemout is not an option of tasks; did you mean 'timeout'?"),
            ({"schedul": "now", "key": "k"}, "schedul is not an option of tasks; did you mean 'schedule'?; key is not"),
            ({"no_retry_on": ValueError}, "no_retry_on must be a tuple of exception classes"),
            ({"no_retry_on": ("ValueError",)}, "no_retry_on must be a tuple of exception classes"),
            ({"roles": "admin"}, "roles must be a list, like ['admin']"),
            ({"roles": 1}, "roles must be a list, like ['admin']"),
            ({"roles": ["operator"]}, "roles 'operator' is no role; there are admin, member, viewer"),
        ],
    )
    def test_what_is_wrong_is_said(self, options: dict[str, Any], words: str) -> None:
        assert f"task 'nothing': {words}" in refusal(nothing, **options)


class TestErrors:
    def test_they_begin_with_the_line_of_the_declaration(self, monkeypatch: pytest.MonkeyPatch) -> None:
        line = nothing.__code__.co_firstlineno
        monkeypatch.chdir(Path(__file__).parent.parent)
        assert refusal(nothing, "charge", timeout="soon").startswith(
            f"tasks/test_declaring.py:{line}: task 'charge': timeout"
        )

        monkeypatch.chdir(Path(__file__).parent.parent / "domain")
        assert refusal(nothing, timeout="soon").startswith(f"{__file__}:{line}: task 'nothing': timeout")

    def test_a_generator_is_refused_since_nothing_would_run(self) -> None:
        def rows() -> Any:
            yield 1

        async def async_rows() -> Any:
            yield 1

        assert "task 'rows': is a generator" in refusal(rows)
        assert "task 'async_rows': is a generator" in refusal(async_rows)

    def test_a_type_and_a_default_that_are_not_json_are_named_with_their_parameter(self) -> None:
        def of_type(first: int, given: type) -> None: ...

        def half(given: str = "\ud800") -> None: ...

        assert "parameter 'given': type is no type of JSON" in refusal(of_type)
        assert "parameter 'given': its default is not JSON" in refusal(half)

    def test_two_of_one_name_show_both_lines(self) -> None:
        tasks = Tasks()
        tasks.task("same")(nothing)

        with pytest.raises(
            Invalid, match=r"test_declaring.py:\d+: task 'same' is already defined at .*test_declaring.py:\d+"
        ):
            tasks.task("same")(other)

    @pytest.mark.parametrize("bare", [True, False])
    def test_their_traceback_ends_where_the_user_called(self, bare: bool) -> None:
        def late(x: int, ctx: Context) -> None: ...

        with pytest.raises(Invalid) as refused:
            Tasks().task(late) if bare else Tasks().task("late")(late)

        frames = traceback.extract_tb(refused.value.__traceback__)
        assert refused.value.__suppress_context__
        assert [Path(frame.filename).name for frame in frames] == ["test_declaring.py", "tasks.py"]

    def test_a_worker_says_them_without_more_words(self, tmp_path: Path) -> None:
        file = tmp_path / "badly_declared.py"
        file.write_text("from oncue import Tasks\ntasks = Tasks()\n\n@tasks.task(timeout='soon')\ndef charge(): ...\n")

        with pytest.raises(
            Invalid, match=rf"cannot be imported: {file}:4: task 'charge': timeout 'soon' is not"
        ) as refused:
            load_tasks([str(file)])
        assert "line" not in str(refused.value).rpartition("PT1H")[2]


def nothing() -> None: ...
def other() -> None: ...


def _task(function: Callable[..., Any], **options: Any) -> Task:
    tasks = Tasks()
    tasks.task(**options)(function)
    [task] = tasks
    return task
