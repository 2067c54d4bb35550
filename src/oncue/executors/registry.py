"""Everything a worker can run: the user's tasks and the built-in ones."""

from __future__ import annotations

from oncue.executors.command import command_task
from oncue.executors.http import http_task
from oncue.executors.loading import load_tasks
from oncue.settings import Settings
from oncue.tasks import Tasks


def load_registry(settings: Settings) -> Tasks:
    """Invalid: a source cannot be loaded, or two tasks have one name."""
    tasks = load_tasks(settings.tasks)
    tasks.add(http_task(settings))
    if settings.allow_commands:
        tasks.add(command_task(settings))
    return tasks
