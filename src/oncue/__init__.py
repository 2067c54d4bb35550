"""oncue: a distributed job scheduler. It runs each job on schedule, at least once, and records every outcome."""

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would take longer than all else here
if TYPE_CHECKING:
    from oncue.context import Context
    from oncue.domain.errors import NoRetry, OncueError, RetryAfter
    from oncue.embedding import embedded
    from oncue.enqueuing import Outbox, enqueue
    from oncue.secret import Secret
    from oncue.shapes.schedules import at, cron, every
    from oncue.tasks import Tasks

__version__ = "0.1.0"

__all__ = [
    "Context",
    "NoRetry",
    "OncueError",
    "Outbox",
    "RetryAfter",
    "Secret",
    "Tasks",
    "__version__",
    "at",
    "cron",
    "embedded",
    "enqueue",
    "every",
]

_WHERE = {
    "Context": "oncue.context",
    "NoRetry": "oncue.domain.errors",
    "OncueError": "oncue.domain.errors",
    "Outbox": "oncue.enqueuing",
    "RetryAfter": "oncue.domain.errors",
    "Secret": "oncue.secret",
    "Tasks": "oncue.tasks",
    "at": "oncue.shapes.schedules",
    "cron": "oncue.shapes.schedules",
    "embedded": "oncue.embedding",
    "enqueue": "oncue.enqueuing",
    "every": "oncue.shapes.schedules",
}

if not TYPE_CHECKING:  # type checkers know the names, and that there are no others

    def __getattr__(name: str) -> object:
        """Import what is asked for on first use: before that much is imported, the command handles Ctrl-C."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_WHERE[name]), name)
        return found
