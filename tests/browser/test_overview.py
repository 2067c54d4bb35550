"""The page that says what is broken, and what changed."""

import re

from playwright.sync_api import expect
from tests.browser.dashboard import PHONE, Dashboard, violations

HOSTILE = "<img src=x onerror=alert(1)>"


def test_a_problem_is_told_in_words_and_mended_by_its_button(dashboard: Dashboard) -> None:
    admin = dashboard.api("admin")
    admin.call("POST", "/queues/default/pause")
    try:
        run = dashboard.api().run(dashboard.api().job())
        problem = dashboard.open(role="admin").get_by_role("listitem").filter(has_text="oncue queues resume default")
        expect(problem).to_be_visible()
        seen = dashboard.open(role="viewer").get_by_role("listitem").filter(has_text="oncue queues resume default")
        expect(seen).to_be_visible()
        expect(seen.get_by_role("button", name="Resume the queue")).to_have_count(0)

        problem.get_by_role("button", name="Resume the queue").press("Enter")

        expect(problem).to_have_count(0)
        dashboard.api().run_when(run["run_id"], "succeeded")
    finally:
        admin.call("POST", "/queues/default/resume")


def test_all_is_well_in_one_line(dashboard: Dashboard) -> None:
    job = dashboard.api().job(name="the next one", schedule={"every": "1h"})
    dashboard.api().run(job, "succeeded")

    calm = dashboard.open().get_by_text("All well.").locator("..")

    expect(calm).to_contain_text(re.compile(r"1 run ended in the last day\. Next: the next one in \d+ min\."))


def test_an_error_group_appears_live_and_hostile_text_is_text(dashboard: Dashboard) -> None:
    page = dashboard.open()
    errors = page.get_by_role("region", name="Errors of the last 24 hours")
    expect(errors).to_contain_text("None.")

    job = dashboard.api().job("failing", name=HOSTILE, max_retries=0, payload={"message": f"{HOSTILE} is full"})
    dashboard.api().run(job, "dead")

    expect(errors).to_contain_text(f"{HOSTILE} is full")
    expect(page.get_by_role("region", name="Problems")).to_contain_text("1 dead letter")


def test_charts_have_their_numbers_and_marks_of_change_as_text(dashboard: Dashboard) -> None:
    page = dashboard.open("/?window=6h", role="admin")
    starts = page.get_by_role("figure").filter(has_text="Starts")

    expect(starts.get_by_role("img", name=re.compile("^Starts: per second"))).to_be_visible()
    expect(starts.get_by_text(re.compile("worker .* joined"))).not_to_have_count(0)
    expect(page.get_by_role("button", name="6h", pressed=True)).to_be_visible()
    starts.get_by_role("button", name="Table").press("Enter")
    expect(starts.get_by_role("columnheader", name="per second")).to_be_visible()
    page.get_by_role("button", name="24h").press("Enter")
    expect(page).to_have_url(re.compile("window=24h"))


def test_axe_has_nothing_to_complain_about(dashboard: Dashboard) -> None:
    job = dashboard.api().job("failing", max_retries=0)
    dashboard.api().run(job, "dead")
    page = dashboard.open(role="admin")

    expect(page.get_by_role("figure")).to_have_count(5)
    expect(page.get_by_role("region", name="The fleet").get_by_role("link")).not_to_have_count(0)
    assert violations(page) == []
    page.set_viewport_size(PHONE)
    assert violations(page, with_dark=False) == []
