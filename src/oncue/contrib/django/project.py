"""The tasks of a Django project, for a worker: `oncue worker --tasks oncue.contrib.django`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from oncue.contrib.django.backend import OncueBackend
from oncue.contrib.django.framework import Task as DjangoTask
from oncue.contrib.django.running import died, runs
from oncue.contrib.django.task import declared_options
from oncue.domain.errors import Invalid
from oncue.tasks import Task, Tasks
from oncue.tasks.declaring import declared
from oncue.tasks.hooks import Shared


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
        found = {task.module_path: task for task in _project_tasks()}
        if not found:
            raise _wrong(
                "no_tasks",
                "no installed app has a module `tasks` with tasks of this backend: set "
                'TASKS = {"default": {"BACKEND": "oncue.contrib.django.OncueBackend"}} in the settings, '
                "and declare functions with `@task` in `tasks.py` of an app in INSTALLED_APPS",
            )
        self._loaded = True
        dead = died(found)
        for name, task in found.items():
            shared = Shared(clients=task.get_backend().clients)
            shared.hooks.dead.append(dead)
            self.add(declared(name, runs(task), declared_options(task), shared))


def _project_tasks() -> Iterator[DjangoTask]:
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, DjangoTask) and isinstance(value.get_backend(), OncueBackend):
                yield value


def _modules() -> list[Any]:
    import django
    from django.apps import apps
    from django.conf import settings
    from django.utils.module_loading import module_has_submodule

    if not settings.configured and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise _wrong("no_settings", "DJANGO_SETTINGS_MODULE is not set: set it to the settings, like shop.settings")
    try:
        django.setup()
        found = [app.name for app in apps.get_app_configs() if module_has_submodule(app.module, "tasks")]
        return [import_module(f"{name}.tasks") for name in found]
    except Invalid:
        raise
    except Exception as error:  # the edge of user code
        raise _wrong("import_failed", f"Django cannot be set up: {type(error).__name__}: {error}") from error


def _wrong(code: str, message: str) -> Invalid:
    return Invalid.of("tasks", code, message)
