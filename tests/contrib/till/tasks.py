"""Tasks of a Django app, each with something that a backend must get right."""

from typing import Any

from oncue.contrib.django import framework

if framework.django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task

calls: list[Any] = []


@task
def everything(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> Any:
    return [a, b, rest, c, more]


@task
def named(ctx: str, text: str = "hi", when: "NoSuchType" = None) -> Any:  # type: ignore[name-defined]  # noqa: F821
    return [ctx, text, when]


@task(takes_context=True)
def fails_once(context: Any, order: int) -> str:
    context.run.progress(context.attempt, 2)
    if context.attempt == 1:
        raise ValueError(f"order {order} is not there yet")
    return f"{context.task_result.id} {context.task_result.attempts}"


@task
def fails(order: int) -> None:
    raise LookupError(f"order {order} is missing")


@task(queue_name="mail", priority=-50, timeout="30s", concurrency=4, no_retry_on=(KeyError,))
def with_options() -> None: ...


@task
def enqueues(order: int) -> str:
    return str(fails.enqueue(order).id)


@task
async def enqueues_async(order: int) -> str:
    return str((await fails.aenqueue(order)).id)


@task
def returns_no_json() -> object:
    calls.append("returns_no_json")
    return object()


@task(takes_context=True)
async def counts(context: Any, n: int) -> int:
    return n + int(context.attempt)


@task
def connects() -> bool:
    from django.db import connection

    connection.ensure_connection()
    return connection.connection is not None


@task
async def connects_async() -> int:
    from asgiref.sync import sync_to_async
    from django.db import connection

    @sync_to_async
    def connected() -> int:
        connection.ensure_connection()
        return int(connection.connection.info.backend_pid)

    return await connected()
