"""oncue: a distributed job scheduler. It runs each job on schedule, at least once, and records every outcome."""

from oncue.context import Context
from oncue.domain.errors import NoRetry, OncueError, RetryAfter
from oncue.secret import Secret
from oncue.tasks import Tasks

__version__ = "0.1.0"

__all__ = ["Context", "NoRetry", "OncueError", "RetryAfter", "Secret", "Tasks", "__version__"]
