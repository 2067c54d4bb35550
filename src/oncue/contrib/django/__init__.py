"""Django's tasks, run by oncue: a backend for `TASKS` in Django's settings, and the tasks of a project for a worker.

    TASKS = {"default": {"BACKEND": "oncue.contrib.django.OncueBackend"}}

    oncue worker --tasks oncue.contrib.django

docs/django.md has the rest.
"""

from oncue.contrib.django.backend import OncueBackend
from oncue.contrib.django.project import ProjectTasks
from oncue.contrib.django.running import OncueContext
from oncue.contrib.django.task import OncueTask

__all__ = ["OncueBackend", "OncueContext", "OncueTask", "tasks"]

tasks = ProjectTasks()
