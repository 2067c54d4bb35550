"""The tasks that docs/testing-your-tasks.md tests."""

from collections.abc import Sequence

from oncue import Context, Tasks

tasks = Tasks()


@tasks.task(max_retries=2)
def charge(ctx: Context, order: int) -> str:
    if order == 13 and ctx.attempt == 1:
        print("the bank does not answer")
        raise ConnectionError
    return f"order {order}: 12.50 EUR"


@tasks.task
def import_rows(ctx: Context, rows: Sequence[str]) -> None:
    for number in range(ctx.checkpoint() or 0, len(rows)):
        ctx.save_checkpoint(number + 1)
        ctx.progress(number + 1, len(rows))


@tasks.task(queue="mail")
async def welcome(user: int) -> str:
    return f"Welcome, {user}!"


@tasks.task
async def digest(to: str) -> None:
    print(f"digest for {to}")


async def sign_up(user: int) -> None:
    await welcome.enqueue(user=user)
