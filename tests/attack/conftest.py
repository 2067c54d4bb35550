"""The fleets of the process tests."""

from tests.processes.conftest import fleet, postgres_fleet

__all__ = ["fleet", "postgres_fleet"]
