"""What holds on every page: text of users stays text, viewers change nothing, everybody can use it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect
from tests.browser.dashboard import PHONE, Dashboard, violations
from tests.examples.server import ROOT

PAGES = ROOT / "dashboard" / "src" / "pages" / "pages.ts"
EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>&lt;b&gt;'
# How buttons begin that change something on the server. Others move, copy, look further, or change what is shown.
CHANGES = (
    "run now",
    "run",
    "pause",
    "resume",
    "cancel",
    "retry",
    "requeue",
    "discard",
    "edit",
    "delete",
    "drain",
    "revoke",
    "new job",
    "new key",
    "create",
    "save",
    "spread",
)


@pytest.fixture
def places(dashboard: Dashboard) -> dict[str, str]:
    """Every page, with something bad on it: a mark of each, by its address."""
    api = dashboard.api()
    fields = {"name": EVIL, "key": f"{dashboard.user} {EVIL}", "tags": [EVIL], "max_retries": 0}
    dead = api.job("failing", payload={"message": EVIL}, **fields)
    run = api.run(dead, "dead")
    fine = api.job("ok", payload={"text": EVIL}, name=f"fine {EVIL}")
    good = api.run(fine, "succeeded")
    api.run(dead, "succeeded", payload={"good": True})
    letter = api.call("GET", f"/dead-letters?job_id={dead['job_id']}")["dead_letters"][0]
    worker = api.call("GET", "/workers")["workers"][0]
    job = f"/jobs/{dead['job_id']}"
    return {
        "/": "Overview",
        "/jobs": "Jobs",
        job: EVIL,
        f"{job}/runs": EVIL,
        f"{job}/definition": EVIL,
        f"{job}/audit": EVIL,
        f"{job}/ledger": EVIL,
        f"{job}/edit": "Edit",
        "/runs": "Runs",
        f"/runs/{run['run_id']}": f"Run of {EVIL}",
        f"/runs/{good['run_id']}": f"Run of fine {EVIL}",
        "/upcoming": "Upcoming",
        "/failures": "Failures",
        f"/failures/{letter['fingerprint']}": "RuntimeError",
        "/queues": "Queues & workers",
        "/queues/default": "Queue default",
        "/workers": "Queues & workers",
        f"/workers/{worker['worker_id']}": f"Worker {worker['name']}",
        "/new?task=slow": "New job",
        "/admin": "Admin",
        "/admin/server": "Admin",
    }


def show(dashboard: Dashboard, page: Page, path: str, title: str) -> None:
    """Go there, and wait until it shows what it asked for."""
    dashboard.visit(page, path)
    expect(page.get_by_role("heading", level=1).filter(has_text=title)).to_be_visible()
    dashboard.wait_for_answers(page)


def test_every_page_is_accessible_and_shows_text_of_users_as_text(dashboard: Dashboard, places: dict[str, str]) -> None:
    """A script that ran would be a violation of the policy, which fails the test; an element would be found here."""
    assert left_out(places) == []
    page = dashboard.open("/jobs")
    expect(page.get_by_role("link", name=EVIL, exact=True)).to_be_visible()
    for path, title in places.items():
        show(dashboard, page, path, title)
        expect(page.locator("img[src=x]")).to_have_count(0)
        assert violations(page) == [], path


def test_a_viewer_changes_nothing_on_any_page(dashboard: Dashboard, places: dict[str, str]) -> None:
    page = dashboard.open("/jobs", role="viewer")
    for path, title in places.items():
        show(dashboard, page, path, title)
        names = page.locator("main button:not(.chip)").all_inner_texts()
        links = page.locator("main a.button").all_inner_texts()
        found = [name for name in (*names, *links) if name.strip().lower().startswith(CHANGES)]
        assert found == [], path


def test_every_page_is_reached_on_a_phone(dashboard: Dashboard) -> None:
    page = dashboard.open("/jobs", viewport=PHONE)
    ways = page.get_by_role("navigation", name="Pages")
    for name in ("Overview", "Upcoming", "Failures", "Queues", "New job", "Runs", "Admin", "Jobs"):
        link = ways.get_by_role("link", name=name, exact=True)
        if name in ("Upcoming", "New job", "Admin"):
            expect(link).to_be_hidden()
            ways.get_by_role("button", name="More").click()
            assert violations(page, with_dark=name == "Admin") == []
        link.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    expect(ways.get_by_role("link", name="Admin")).to_be_hidden()


def test_an_address_that_means_nothing_breaks_no_page(dashboard: Dashboard) -> None:
    job = f"/jobs/{dashboard.api().job(name='addressed')['job_id']}"
    addresses = {
        f"{job}?at=9e99&window=constructor": "addressed",
        f"{job}/ledger?window=constructor": "addressed",
        "/runs?ended_after=garbage&ended_before=zzz": "Runs",
        "/upcoming?from=275760-09-13&to=x": "Upcoming",
        "/upcoming?window=constructor": "Upcoming",
        "/failures/letters?since=constructor": "Failures",
        "/admin/audit?within=constructor": "Admin",
    }
    dashboard.expect_trouble("status of 4")
    page = dashboard.open("/jobs")
    for path, title in addresses.items():
        show(dashboard, page, path, title)


def left_out(places: dict[str, str]) -> list[str]:
    """Patterns of the table of pages that are not those of a place here."""
    patterns = re.findall(r'pattern: "([^"]+)"', PAGES.read_text())
    paths = [place.partition("?")[0] for place in places]
    assert len(patterns) > 10
    return [one for one in patterns if not any(re.fullmatch(re.sub(r":\w+", "[^/]+", one), path) for path in paths)]
