"""oncue: people and programs hand it jobs; it runs each one right on cue, at least once, and shows what happened."""

from oncue.context import Context
from oncue.domain.errors import NoRetry, OncueError, RetryAfter
from oncue.tasks import Tasks

__version__ = "0.1.0"

__all__ = ["Context", "NoRetry", "OncueError", "RetryAfter", "Tasks", "__version__"]
