"""Tasks: the signature is the schema, defaults are checked where they are written, and payloads become arguments."""

import functools
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from oncue import Context, Tasks
from oncue.domain.errors import Invalid
from oncue.tasks import Isolation, Task


class Point(msgspec.Struct):
    x: int
    y: int = 0


def made(function: Callable[..., Any], **given: Any) -> Task:
    tasks = Tasks()
    tasks.task("task", **given)(function)
    [task] = tasks
    return task


def refusal(function: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(Invalid) as refused:
        made(function, **given)
    return refused.value.problems[0].path


def plain(ctx: Context) -> None: ...


async def asynchronous(ctx: Context) -> None: ...


class TestRegistering:
    def test_the_decorated_function_is_the_task_itself(self) -> None:
        tasks = Tasks()
        task = tasks.task("task")(plain)

        assert tasks.get("task") is task
        assert task.function is plain

    def test_where_it_runs_follows_from_what_it_is(self) -> None:
        assert made(plain).isolation is Isolation.THREAD
        assert made(asynchronous).isolation is Isolation.LOOP
        assert made(functools.partial(asynchronous).func).is_async
        assert made(plain, isolation="process").isolation is Isolation.PROCESS
        assert made(asynchronous, isolation="process").isolation is Isolation.PROCESS

    def test_it_takes_a_place_of_its_own_kind_unless_it_says_otherwise(self) -> None:
        assert made(plain).takes is Isolation.THREAD

    def test_defaults_are_only_what_was_given(self) -> None:
        assert made(plain).defaults == {}
        given = {"timeout": "30s", "max_retries": 0, "retry": {"backoff": "1s"}}
        assert made(plain, **given).defaults == given

    def test_two_tasks_of_one_name_are_refused(self) -> None:
        tasks = Tasks()
        tasks.task("same")(plain)

        with pytest.raises(Invalid, match=r"test_tasks.py:\d+: task 'same' is already defined at .*test_tasks.py:\d+"):
            tasks.task("same")(asynchronous)

    def test_sets_are_joined_and_searched(self) -> None:
        tasks, others = Tasks(), Tasks()
        others.task("other")(plain)
        tasks.include(others)

        assert len(tasks) == 1
        assert tasks.get("other") is others.get("other")
        assert tasks.get("none") is None

    @pytest.mark.parametrize(
        ("given", "path"),
        [
            ({"timeout": "soon"}, "timeout"),
            ({"timeout": 5}, "timeout"),
            ({"max_retries": -1}, "max_retries"),
            ({"max_retries": True}, "max_retries"),
            ({"max_retries": "3"}, "max_retries"),
            ({"isolation": "thread"}, "isolation"),
            ({"roles": "admin"}, "roles"),
        ],
    )
    def test_a_wrong_default_is_told_where_it_is_written(self, given: dict[str, Any], path: str) -> None:
        assert refusal(plain, **given) == path

    @pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
    def test_a_wrong_name_is_refused(self, name: str) -> None:
        with pytest.raises(Invalid):
            Tasks().task(name)(plain)


class TestSignatures:
    def test_the_schema_says_what_the_function_takes(self) -> None:
        def function(ctx: Context, to: str, *, at: Point, times: int = 1) -> None: ...

        valid = jsonschema_rs.validator_for(made(function).schema().decode()).is_valid
        assert valid({"to": "you", "at": {"x": 1}})
        assert valid({"to": "you", "at": {"x": 1, "y": 2}, "times": 3})
        assert not valid({"to": "you"})
        assert not valid({"to": "you", "at": {"x": "1"}})
        assert not valid({"to": "you", "at": {"x": 1}, "more": 1})

    def test_what_cannot_be_filled_from_a_payload_is_refused(self) -> None:
        def no_context(**everything: Any) -> None: ...
        def only_named(*, ctx: Context) -> None: ...
        def many(ctx: Context, *more: int) -> None: ...
        def named(ctx: Context, **more: int) -> None: ...
        def by_position(ctx: Context, x: int, /) -> None: ...

        for function in (no_context, only_named, many, named, by_position):
            assert refusal(function) == "task", function.__name__

    def test_types_without_a_schema_are_refused_where_they_are_written(self) -> None:
        class Custom: ...

        def custom(ctx: Context, x: Custom) -> None: ...
        def odd_default(ctx: Context, x: Any = object()) -> None: ...  # noqa: B008
        def union(ctx: Context, x: Point | dict[str, int]) -> None: ...
        def unknown(ctx: Context, x: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

        for function in (custom, odd_default, union, unknown, functools.partial(plain)):
            assert refusal(function) == "task"


class TestArguments:
    def test_values_have_the_types_of_the_signature(self) -> None:
        def function(ctx: Context, at: Point, note: str = "none") -> None: ...

        assert made(function).arguments(b'{"at":{"x":1}}') == {"at": Point(1), "note": "none"}

    def test_a_function_without_parameters_needs_no_payload(self) -> None:
        assert made(plain).arguments(None) == made(plain).arguments(b"{}") == {}

    def test_a_mutable_default_is_fresh_for_every_run(self) -> None:
        def function(ctx: Context, found: list[list[int]] = [[]]) -> None: ...  # noqa: B006

        task = made(function)
        task.arguments(None)["found"][0].append(1)
        assert task.arguments(None) == {"found": [[]]}

    @pytest.mark.parametrize(
        "payload", [None, b"{}", b"null", b"[]", b'{"x":"1"}', b'{"x":1,"y":2}', b"\xff", b'{"x":' + b"[" * 100_000]
    )
    def test_what_does_not_fit_is_invalid(self, payload: bytes | None) -> None:
        def function(ctx: Context, x: int) -> None: ...

        with pytest.raises(Invalid, match="does not fit the signature of task 'task'"):
            made(function).arguments(payload)

    def test_nesting_without_end_is_invalid_too(self) -> None:
        def function(ctx: Context, x: Any) -> None: ...

        with pytest.raises(Invalid):
            made(function).arguments(b'{"x":' + b"[" * 100_000)
