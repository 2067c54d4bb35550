"""What of the conformance suite takes too long for every day."""

import pytest

# Any history takes as long on PostgreSQL as a hundred other tests: every day on SQLite, there with PostgreSQL's tests.
AGAIN = "test_any_history_agrees_with_the_model[postgres]"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name == AGAIN:
            item.add_marker(pytest.mark.again)
