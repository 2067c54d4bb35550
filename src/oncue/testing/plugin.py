"""The pytest plugin: `oncue_fake`, `oncue_inline` and `oncue_app`. Only a fixture that is used imports anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncue.testing.app import OncueApp
    from oncue.testing.fake import OncueFake, OncueInline


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("oncue_tasks", "modules with the tasks under test, like shop.tasks", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "oncue(now): the time at which oncue_app starts, like 2027-03-26T00:00Z")


@pytest.fixture
def oncue_tasks(pytestconfig: pytest.Config) -> Any:
    """The sets of tasks that the fixtures of oncue are for: those of the ini option of this name. Override it to
    return `Tasks` objects."""
    from oncue.executors.loading import load_tasks

    named = pytestconfig.getini("oncue_tasks")
    if not named:
        pytest.fail(
            'no tasks are named: set oncue_tasks = ["shop.tasks"] in pytest\'s settings, or define a fixture '
            "oncue_tasks that returns your Tasks, or a list of several",
            pytrace=False,
        )
    return [load_tasks(named)]


@pytest.fixture
def oncue_fake(oncue_tasks: Any) -> Iterator[OncueFake]:
    """Records what is enqueued; nothing runs."""
    from oncue.testing.fake import OncueFake

    with OncueFake(oncue_tasks) as fake:
        yield fake


@pytest.fixture
def oncue_inline(oncue_tasks: Any) -> Iterator[OncueInline]:
    """Runs what is enqueued at once, in the caller."""
    from oncue.testing.fake import OncueInline

    with OncueInline(oncue_tasks) as inline:
        yield inline


@pytest.fixture
def oncue_app(oncue_tasks: Any, request: pytest.FixtureRequest) -> Iterator[OncueApp]:
    """The whole system in fake time; nothing runs until `drain` or `travel`."""
    from oncue.testing.app import OncueApp

    marker = request.node.get_closest_marker("oncue")
    with OncueApp(oncue_tasks, **({} if marker is None else marker.kwargs)) as app:
        yield app
