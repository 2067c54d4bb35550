"""Define tasks: functions that jobs run by name. A task is registered explicitly on a `Tasks` object, never globally.

    tasks = Tasks()

    @tasks.task(timeout="30s", max_retries=5)
    async def send_email(ctx: Context, to: str, subject: str) -> dict[str, str]: ...

The parameters other than the context are the schema of the payload.
"""

from oncue.tasks.hooks import Call, Failure
from oncue.tasks.task import AsyncFunctionTask, FunctionTask, Isolation, Task
from oncue.tasks.tasks import Tasks

__all__ = ["AsyncFunctionTask", "Call", "Failure", "FunctionTask", "Isolation", "Task", "Tasks"]
