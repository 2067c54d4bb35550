"""How a worker executes its tasks: which executor runs an attempt, with which secrets and middleware."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oncue.domain.instants import Duration
from oncue.domain.placement import NOTIFY
from oncue.domain.policy import must_run_alone
from oncue.domain.secret_refs import SecretAccess
from oncue.executors.around import WithMiddleware
from oncue.executors.port import Executor
from oncue.executors.secrets import NO_SECRETS, SecretSource, WithSecrets
from oncue.tasks import Isolation, Task, Tasks


class Execution(msgspec.Struct, frozen=True):
    """How a worker executes: its tasks, an executor for each isolation, one for runs that must run alone, and how long
    an attempt that was told to stop may take.
    """

    tasks: Tasks
    executors: Mapping[Isolation, Executor]
    alone: Executor
    kill_grace: Duration
    secrets: SecretSource = NO_SECRETS
    max_result_bytes: int = 64 * 1024 * 1024

    def task(self, name: str) -> Task:
        task = self.tasks.get(name)
        if task is None:
            raise LookupError(f"this worker has no task {name!r}")
        return task

    def executor(self, task: Task, losses: int) -> Executor:
        """Notices never run alone: the process of such a run has neither the store nor the worker's secrets."""
        alone = must_run_alone(losses) and task.name != NOTIFY
        return self.alone if alone else self.executors[task.isolation]

    def can_stop(self, executor: Executor) -> bool:
        """False: a thread, which can only be asked to stop."""
        return executor is not self.executors[Isolation.THREAD]

    def complete(self, executor: Executor, task: Task, secrets: SecretAccess | None) -> Executor:
        """Return the executor with the secrets that the run may use, and the middleware of the task around both."""
        if secrets is not None:
            executor = WithSecrets(executor, self.secrets, secrets)
        if task.shared.middleware:
            executor = WithMiddleware(executor, task.shared.middleware, self.max_result_bytes)
        return executor
