"""oncue: people and programs hand it jobs; it runs each one right on cue, at least once, and shows what happened."""

from oncue.domain.errors import NoRetry, OncueError, RetryAfter

__version__ = "0.1.0"

__all__ = ["NoRetry", "OncueError", "RetryAfter", "__version__"]
