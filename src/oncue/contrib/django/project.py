"""The tasks of a Django project, for a worker: `oncue worker --tasks oncue.contrib.django`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from oncue.contrib.django.backend import OncueBackend
from oncue.contrib.django.framework import Task as DjangoTask
from oncue.contrib.django.framework import task_backends
from oncue.contrib.django.running import died, runs
from oncue.contrib.django.task import declared_options
from oncue.domain.errors import Invalid
from oncue.tasks import Task, Tasks
from oncue.tasks.declaring import declared
from oncue.tasks.hooks import Hook, Shared


class ProjectTasks(Tasks[object]):
    """The tasks in the `tasks` modules of installed apps that use an `OncueBackend`, each under its module path.

    Django is set up, and the modules are imported, when the tasks are first asked for: a web process, which imports
    the backend, never asks. Invalid: Django cannot be set up, or no task is there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loaded = False

    def __iter__(self) -> Iterator[Task]:
        self._load()
        return super().__iter__()

    def __len__(self) -> int:
        self._load()
        return super().__len__()

    def get(self, name: str) -> Task | None:
        self._load()
        return super().get(name)

    def _load(self) -> None:
        if self._loaded:
            return
        found = {task.module_path: task for module in _modules() for task in tasks_in(module)}
        if not found:
            raise _wrong(
                "no_tasks",
                "no installed app has a module `tasks` with tasks of this backend: set "
                'TASKS = {"default": {"BACKEND": "oncue.contrib.django.OncueBackend"}} in the settings, '
                "and declare functions with `@task` in `tasks.py` of an app in INSTALLED_APPS",
            )
        self._loaded = True
        dead = died(found)
        for task in found.values():
            self.add(as_declared(task, dead))


def as_declared(task: DjangoTask, *dead: Hook) -> Task:
    """Return oncue's task for workers. Invalid: an option of it is wrong."""
    shared = Shared(clients=task.get_backend().clients)
    shared.hooks.dead.extend(dead)
    return declared(task.module_path, runs(task), declared_options(task), shared)


def backends() -> list[OncueBackend]:
    """Return those of the settings that are oncue's."""
    return [backend for backend in task_backends.all() if isinstance(backend, OncueBackend)]


def tasks_in(module: Any) -> Iterator[DjangoTask]:
    """Yield the tasks of a module that use an `OncueBackend`."""
    for value in vars(module).values():
        if isinstance(value, DjangoTask) and isinstance(value.get_backend(), OncueBackend):
            yield value


def module_names() -> list[str]:
    """Return the `tasks` modules of the installed apps."""
    from django.apps import apps
    from django.utils.module_loading import module_has_submodule

    return [f"{app.name}.tasks" for app in apps.get_app_configs() if module_has_submodule(app.module, "tasks")]


def _modules() -> list[Any]:
    import django
    from django.conf import settings

    if not settings.configured and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise _wrong("no_settings", "DJANGO_SETTINGS_MODULE is not set: set it to the settings, like shop.settings")
    try:
        django.setup()
        return [import_module(name) for name in module_names()]
    except Invalid:
        raise
    except (Exception, SystemExit) as error:  # the edge of user code
        raise _wrong("import_failed", f"Django cannot be set up: {type(error).__name__}: {error}") from error


def _wrong(code: str, message: str) -> Invalid:
    return Invalid.of("tasks", code, message)
