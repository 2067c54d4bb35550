"""Who may look, and how that begins and ends."""

import re

from playwright.sync_api import Page, expect
from tests.browser.dashboard import Dashboard, violations


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def refused_keys(dashboard: Dashboard) -> int:
    """How often the server has told of a request with an invalid API key."""
    return dashboard.server.log.read_text().count("an invalid API key")


def test_signing_in_and_out(dashboard: Dashboard) -> None:
    refused = refused_keys(dashboard)
    page = dashboard.open("/jobs", role=None)
    expect(page.get_by_label("API key")).to_be_visible()
    assert refused_keys(dashboard) == refused  # who looks has failed at nothing
    sign_in(page, dashboard.api("member").key)
    who = page.get_by_label(f"Signed in as {dashboard.user}, member")
    who.click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()

    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()
    expect(who).to_have_count(0)


def test_a_wrong_key_is_refused_in_the_words_of_the_api(dashboard: Dashboard) -> None:
    page = dashboard.open(role=None)
    refused = refused_keys(dashboard)
    with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
        sign_in(page, "no-such-key")
    assert refused_keys(dashboard) == refused + 1
    words = answered.value.json()["detail"]
    expect(page.locator("p.refusal")).to_have_text(words)
    expect(page.get_by_label("API key")).to_have_accessible_description(re.compile(re.escape(words)))


def test_after_signing_in_the_page_that_was_asked_for_is_shown(dashboard: Dashboard) -> None:
    job = dashboard.api().job(name="deep")
    address = f"{dashboard.address}/jobs/{job['job_id']}?zone=utc"
    page = dashboard.open(address.removeprefix(dashboard.address), role=None)
    sign_in(page, dashboard.api().key)
    expect(page.get_by_role("heading", name="deep")).to_be_visible()
    expect(page).to_have_url(address)


def test_a_session_ends_with_its_key(dashboard: Dashboard) -> None:
    key = dashboard.key("member")
    page = dashboard.open("/jobs", role=None)
    sign_in(page, key["key"])
    expect(page.get_by_role("button", name="Live: changes appear")).to_be_visible()
    dashboard.expect_trouble("status of 401")
    dashboard.api("admin").call("DELETE", f"/keys/{key['key_id']}")
    expect(page.get_by_label("API key")).to_be_visible()


def test_signing_in_is_accessible(dashboard: Dashboard) -> None:
    page = dashboard.open(role=None)
    expect(page.get_by_label("API key")).to_be_visible()
    assert violations(page) == []
