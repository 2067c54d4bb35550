"""From a group of errors to its dead letters: look at one, change its payload, act on many."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect
from tests.browser.dashboard import PHONE, Dashboard, violations

NASTY = "<img src=x onerror=alert(1)>"


def dead_letter(dashboard: Dashboard, name: str, **fields: Any) -> dict[str, Any]:
    api = dashboard.api()
    job = api.job("failing", name=name, max_retries=0, **fields)
    api.run(job, "dead")
    return job


def last_run(dashboard: Dashboard, job: dict[str, Any]) -> dict[str, Any]:
    """The run that was started last, once it has succeeded."""
    api = dashboard.api()
    runs = api.call("GET", "/runs", params={"job_id": job["job_id"]})["runs"]
    new = next(run for run in runs if run["trigger"] == "requeue")
    return api.run_when(new["run_id"], "succeeded")


def tab_to(page: Page, wanted: Locator) -> None:
    for _ in range(60):
        if wanted.evaluate("(one) => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} cannot be reached by Tab")


def test_a_letter_is_requeued_with_another_payload_and_the_filters_stay(dashboard: Dashboard) -> None:
    job = dead_letter(dashboard, "nightly")
    page = dashboard.open("/failures")
    page.get_by_role("link", name="RuntimeError").click()
    page.get_by_role("button", name="24h").click()
    page.get_by_role("link", name="nightly").click()
    letter = page.get_by_role("dialog", name="nightly")
    expect(letter).to_contain_text("the disk is full")
    expect(letter.get_by_label("Payload", exact=True)).to_be_focused()

    letter.get_by_label("Payload", exact=True).fill("{good: true}")
    expect(letter).to_contain_text("This is not JSON")
    expect(letter.get_by_role("button", name="Run again")).to_be_disabled()
    letter.get_by_label("Payload", exact=True).fill('{"good": true}')
    expect(letter.get_by_role("region", name="What changes")).to_contain_text('+   "good": true')
    letter.get_by_role("button", name="Run again with this payload").click()

    expect(letter).to_be_hidden()
    expect(page.get_by_text("No open dead letter matches these filters.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?since=24h$"))
    assert last_run(dashboard, job)["payload"] == {"good": True}


def test_a_payload_that_does_not_fit_is_refused_in_words(dashboard: Dashboard) -> None:
    dead_letter(dashboard, "nightly")
    dashboard.expect_trouble("status of 422")
    page = dashboard.open("/failures/letters")
    page.get_by_role("link", name="nightly").click()
    letter = page.get_by_role("dialog", name="nightly")
    letter.get_by_label("Payload", exact=True).fill('{"goood": true}')
    letter.get_by_role("button", name="Run again with this payload").click()

    expect(letter).to_contain_text("goood")
    expect(letter).to_contain_text("is not a parameter of task")


def test_a_bulk_over_a_filter_says_what_it_hits_and_what_it_did_also_after_a_reload(dashboard: Dashboard) -> None:
    dead_letter(dashboard, "kept")
    jobs = [dead_letter(dashboard, f"lost {number}") for number in range(3)]
    page = dashboard.open(f"/failures/letters?job_id={jobs[0]['job_id']}")
    page.get_by_role("toolbar").get_by_role("button", name="Discard").click()
    question = page.get_by_role("dialog", name="Discard 1 dead letter?")
    expect(question).to_contain_text("lost 0")
    expect(question).to_contain_text(f"oncue dead discard --all --job {jobs[0]['job_id']}")
    question.get_by_role("button", name="Discard 1 dead letter").click()

    done = page.get_by_role("list", name="Run again or discarded in the last hour")
    expect(done).to_contain_text("1 discarded")
    expect(page).to_have_url(re.compile(rf"job_id={jobs[0]['job_id']}"))
    page.reload()
    expect(done).to_contain_text("Discard finished")

    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("link", name="kept")).to_be_visible()
    page.get_by_label("Choose lost 1").check()
    page.get_by_label("Choose lost 2").check()
    page.get_by_role("button", name="Run again", exact=True).click()
    page.get_by_role("button", name="Run 2 dead letters again").click()
    expect(done).to_contain_text("2 run again")


def test_a_change_for_many_shows_what_it_does_first(dashboard: Dashboard) -> None:
    jobs = [dead_letter(dashboard, f"report {number}", payload={"message": "gone"}) for number in range(2)]
    page = dashboard.open("/failures")
    page.get_by_role("link", name="RuntimeError").click()
    page.get_by_role("button", name="Change and run again").click()
    change = page.get_by_role("dialog", name="Change 2 dead letters and run again")
    change.get_by_label("Change", exact=True).fill('{"good": true, "message": null}')
    expect(change.get_by_role("region", name="What changes")).to_contain_text('-   "message": "gone"')
    change.get_by_role("button", name="Run 2 dead letters again").click()

    expect(change).to_have_count(0)
    done = page.get_by_role("list", name="Run again or discarded in the last hour")
    expect(done).to_contain_text(re.compile("Change and run again finished.*2 run again"))
    for job in jobs:
        assert last_run(dashboard, job)["payload"] == {"good": True}


def test_a_new_failure_appears_by_itself(dashboard: Dashboard) -> None:
    page = dashboard.open("/failures/letters")
    expect(page.get_by_text("There are no open dead letters.")).to_be_visible()
    dead_letter(dashboard, "nightly")
    expect(page.get_by_role("link", name="nightly")).to_be_visible()


def test_keys_alone_lead_from_a_group_to_a_requeue(dashboard: Dashboard) -> None:
    dead_letter(dashboard, "nightly")
    page = dashboard.open("/failures")
    expect(page.get_by_role("link", name="RuntimeError")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="RuntimeError")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="nightly")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="nightly")).to_be_focused()
    page.keyboard.press("Enter")
    letter = page.get_by_role("dialog", name="nightly")
    expect(letter.get_by_role("button", name="Run again")).to_be_visible()
    tab_to(page, letter.get_by_role("button", name="Run again"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("nightly runs again.")).to_be_visible()


def test_a_letter_is_accessible_and_its_texts_stay_texts(dashboard: Dashboard) -> None:
    dead_letter(dashboard, NASTY, payload={"message": NASTY})
    page = dashboard.open("/failures")
    expect(page.get_by_role("link", name=f"RuntimeError {NASTY}")).to_be_visible()
    page.get_by_role("link", name="RuntimeError").click()
    expect(page.get_by_role("link", name=NASTY)).to_be_visible()
    page.get_by_role("link", name=NASTY).click()
    expect(page.get_by_role("dialog", name=NASTY)).to_contain_text(f"RuntimeError {NASTY}")
    assert violations(page) == []
    assert page.locator("img").count() == 0


def test_a_viewer_looks_and_does_nothing_and_a_phone_shows_it_too(dashboard: Dashboard) -> None:
    dead_letter(dashboard, "nightly")
    page = dashboard.open("/failures/letters", role="viewer", viewport=PHONE)
    page.get_by_role("link", name="nightly").click()
    letter = page.get_by_role("dialog", name="nightly")
    expect(letter.get_by_role("region", name="Payload")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Run again|Discard"))).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
