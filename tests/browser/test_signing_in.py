"""Who may look, and how that begins and ends."""

from playwright.sync_api import expect
from tests.browser.dashboard import Dashboard, Theme, violations


def test_signing_in_with_a_key(dashboard: Dashboard) -> None:
    page = dashboard.open("/jobs", role=None)
    page.get_by_label("API key").fill(dashboard.api("member").key)
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(page.get_by_label(f"Signed in as {dashboard.user}, member")).to_be_visible()


def test_nothing_to_complain_about_for_axe(dashboard: Dashboard, theme: Theme) -> None:
    page = dashboard.open(role=None, theme=theme)
    expect(page.get_by_label("API key")).to_be_visible()
    assert violations(page) == []
