"""One server and one browser for each test process; each test has a user and browser contexts of its own."""

import os
import secrets
import shutil
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.browser.dashboard import Api, Dashboard
from tests.conftest import IN_CI
from tests.examples.server import PATIENCE, Up, up

# The first is Chromium without windows: it takes a third less of the processor.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TASKS = Path(__file__).with_name("tasks.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if program is None:
        (pytest.fail if IN_CI else pytest.skip)(
            "There is no Chromium. `make test-browser` as root installs it on Debian."
        )
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        sandbox = os.geteuid() != 0  # root cannot have one
        with playwright.chromium.launch(executable_path=program, chromium_sandbox=sandbox) as browser:
            yield browser


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("oncue"), "--shutdown-grace", "1s", "--access-log", tasks=TASKS) as server:
        _wait_for_worker(server)
        yield server


def _wait_for_worker(server: Up) -> None:
    """Until it has told which tasks it has: before that nobody may create a job for one."""
    api = Api(server.address, server.key_file.read_text().strip())
    until = time.monotonic() + PATIENCE
    while not api.call("GET", "/tasks")["tasks"]:
        assert time.monotonic() < until, server.log.read_text()
        time.sleep(0.02)
    api.close()


@pytest.fixture
def dashboard(server: Up, browser: Browser, tmp_path: Path) -> Iterator[Dashboard]:
    dashboard = Dashboard(server, browser, f"user-{secrets.token_hex(4)}", tmp_path)
    yield dashboard
    dashboard.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Whatever a page complained about fails its test."""
    yield
    dashboard: Dashboard | None = getattr(item, "funcargs", {}).get("dashboard")
    if dashboard is not None and (problems := dashboard.take_problems()):
        pytest.fail("The browser complained:\n" + "\n".join(problems), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure names the screenshots and the server's log."""
    report = yield
    dashboard: Dashboard | None = getattr(item, "funcargs", {}).get("dashboard")
    if report.when == "call" and report.failed and dashboard is not None:
        report.sections.append(("Kept", dashboard.keep()))
    return report
