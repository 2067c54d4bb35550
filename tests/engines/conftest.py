"""What of the conformance suite takes too long for every day."""

import pytest

# Any history takes as long on PostgreSQL as a hundred other tests.
ANY_HISTORY = "test_any_history_agrees_with_the_model"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every day each test runs on both engines; further examples of it on PostgreSQL only with its own tests."""
    seen = set()
    for item in items:
        if item.path.name != "test_conformance.py" or "[postgres" not in item.name:
            continue
        name = item.name.partition("[")[0]
        if name in seen or name == ANY_HISTORY:
            item.add_marker(pytest.mark.again)
        seen.add(name)
