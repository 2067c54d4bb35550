"""Shipped to users: ways to test tasks, a clock that stands still until told, a private PostgreSQL, and the suite that
every engine must pass.
"""

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would take longer than all else here
if TYPE_CHECKING:
    from oncue.testing.app import OncueApp
    from oncue.testing.clock import FakeClock
    from oncue.testing.fake import OncueFake, OncueInline
    from oncue.testing.fake_context import FakeContext
    from oncue.testing.single_run import FinishedRun, arun, fake_state, run

__all__ = [
    "FakeClock",
    "FakeContext",
    "FinishedRun",
    "OncueApp",
    "OncueFake",
    "OncueInline",
    "arun",
    "fake_state",
    "run",
]

_WHERE = {
    "FakeClock": "oncue.testing.clock",
    "FakeContext": "oncue.testing.fake_context",
    "FinishedRun": "oncue.testing.single_run",
    "OncueApp": "oncue.testing.app",
    "OncueFake": "oncue.testing.fake",
    "OncueInline": "oncue.testing.fake",
    "arun": "oncue.testing.single_run",
    "fake_state": "oncue.testing.single_run",
    "run": "oncue.testing.single_run",
}

if not TYPE_CHECKING:  # type checkers know the names, and that there are no others

    def __getattr__(name: str) -> object:
        """Import what is asked for on first use: every start of pytest imports this package."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_WHERE[name]), name)
        return found
