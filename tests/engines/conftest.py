"""What of the tests of engines runs every day, and what only with all that uses PostgreSQL."""

import pytest

from oncue.testing.conformance import TOPICS

# Where processes contend for the same rows, PostgreSQL decides otherwise than SQLite's single writer. All other topics
# of the conformance suite follow from one statement at a time: `make test-postgres` has them.
CONTENDED = {
    "cancelling",
    "claiming",
    "gates",
    "handing_back",
    "lanes",
    "lanes_racing",
    "planning",
    "planning_racing",
    "quotas",
    "rates_racing",
    "repeats",
    "settling",
}
assert set(TOPICS) >= CONTENDED, "a topic that has another name by now"

# Each takes as long as a hundred other tests, and is about what an operator does to a server.
LONG_FILES = {
    "test_postgres_limits.py",
    "test_postgres_lists.py",
    "test_postgres_opening.py",
    "test_postgres_outages.py",
    "test_postgres_partitions.py",
    "test_postgres_ping.py",
    "test_postgres_settings.py",
    "test_postgres_signals.py",
}
# One process at a time does what these are about, and does it on SQLite every day.
UNCONTENDED_FILES = {"test_maintenance.py", "test_purging.py", "test_upgrading.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen = set()
    for item in items:
        if item.path.name in LONG_FILES or (item.path.name in UNCONTENDED_FILES and "[postgres" in item.name):
            item.add_marker(pytest.mark.again)
        if item.path.name != "test_conformance.py" or "[postgres" not in item.name:
            continue
        name = item.name.partition("[")[0]
        if name in seen or topic(item) not in CONTENDED:
            item.add_marker(pytest.mark.again)
        seen.add(name)


def topic(item: pytest.Item) -> str:
    return str(getattr(item, "function").__module__).rpartition(".")[2]  # noqa: B009  an item may have none
