"""The tasks of all examples, for `make run` or `oncue up --tasks examples/tasks.py`."""

from __future__ import annotations

import email_digest
import sales_report

from oncue import Context, Tasks

tasks = Tasks()
tasks.include(email_digest.tasks)
tasks.include(sales_report.tasks)


@tasks.task
async def hello(ctx: Context, name: str = "world") -> str:
    """The smallest task there is: a name, a function, its arguments."""
    ctx.log.info("greeting %s", name)
    return f"Hello, {name}!"
