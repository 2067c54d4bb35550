"""A job as `oncue apply` and `client.jobs.apply` take it."""

from __future__ import annotations

from typing import Any

from oncue.client import fleet, jobs
from oncue.client.asking import Asker, Exchange, ask
from oncue.client.call import Id


def export(asker: Asker, job: Id, /) -> Exchange[dict[str, Any]]:
    """Return the definition of a job as `apply` takes it, with a key and without what equals a default."""
    from oncue.domain.exported import exported  # only here, because it takes a while to import

    found = yield from ask(jobs.show(job).plain(), asker.retry_policy)
    tasks = yield from ask(fleet.tasks(), asker.retry_policy)
    defaults = {task.name: task.defaults for task in tasks}
    return exported(found, defaults.get(found["task"], {}))
