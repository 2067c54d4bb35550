"""The pages Jobs and Job."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from tests.browser.dashboard import Dashboard, Role


def wait_until_live(page: Page) -> None:
    expect(page.get_by_role("button", name="Live: changes appear")).to_be_visible()


def test_a_job_and_its_runs_appear_without_a_reload(dashboard: Dashboard, tmp_path: Path) -> None:
    page = dashboard.open("/jobs")
    wait_until_live(page)
    page.evaluate("window.isTheSame = true")
    job = dashboard.api().job("slow", name="export", payload={"until": str(tmp_path / "go")})
    row = page.get_by_role("row", name="export")
    expect(row).to_contain_text("active")
    dashboard.api().run(job)
    expect(row).to_contain_text("running")
    (tmp_path / "go").touch()
    expect(row.get_by_role("img", name="Last runs of export: 1 succeeded")).to_be_visible()
    expect(row).to_contain_text("active")
    assert page.evaluate("window.isTheSame")


def test_a_job_whose_last_run_is_dead_is_failing(dashboard: Dashboard) -> None:
    job = dashboard.api().job("failing", name="broken", max_retries=0)
    page = dashboard.open("/jobs")
    row = page.get_by_role("row", name="broken")
    expect(row).to_contain_text("active")
    wait_until_live(page)
    dashboard.api().run(job)
    expect(row).to_contain_text("failing")


IS_WHOLE = "(link) => [...link.querySelectorAll('*')].every((one) => one.scrollWidth <= one.clientWidth + 1)"
WIDTHS = pytest.mark.parametrize("width", [390, 1280])


@WIDTHS
def test_a_job_that_ran_once_shows_the_outcome_of_its_run(dashboard: Dashboard, width: int) -> None:
    api = dashboard.api()
    jobs = {
        outcome: api.job(task, schedule={}, name=f"charge {outcome}", max_retries=0)
        for task, outcome in (("failing", "dead"), ("ok", "succeeded"))
    }
    for outcome, job in jobs.items():
        api.run_when(job["job_id"], outcome)
    page = dashboard.open("/jobs", viewport={"width": width, "height": 844})
    for outcome, glyph, tone in (("dead", "✕", "bad"), ("succeeded", "✓", "good")):
        shown = page.get_by_role("row", name=f"charge {outcome}").locator(".state")
        expect(shown).to_have_text(f"{glyph}{outcome}")
        expect(shown).to_have_class(re.compile(rf"\b{tone}\b"))
        expect(shown.get_by_text(glyph, exact=True)).to_be_visible()
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox", name="Search").fill("charge d")
    expect(page.get_by_role("option", selected=True).locator(".state")).to_have_text("✕dead")
    page.keyboard.press("Escape")

    dashboard.visit(page, f"/jobs/{jobs['dead']['job_id']}")

    expect(page.locator(".facts .state")).to_have_text("✕dead")
    expect(page.locator(".last-failure")).to_contain_text("RuntimeError the disk is full")
    expect(page.get_by_label("Why")).to_contain_text("Failed permanently at")


@WIDTHS
def test_what_has_no_name_is_called_by_its_task(dashboard: Dashboard, width: int) -> None:
    api = dashboard.api()
    job = api.job("failing", schedule={}, max_retries=0)
    api.run_when(job["job_id"], "dead")
    api.job(schedule="every 5h", name="sales of every five hours")
    context = {"viewport": {"width": width, "height": 844}, "permissions": ["clipboard-read", "clipboard-write"]}
    page = dashboard.open("/jobs", **context)
    called = f"failing …{job['job_id'][-8:]}"
    places = (
        ("/jobs", called),
        ("/runs", called),
        ("/failures/letters", called),
        ("/upcoming", "sales of every five hours"),
    )
    for path, name in places:
        dashboard.visit(page, path)
        link = page.get_by_role("main").get_by_role("link", name=name).first
        expect(link).to_be_visible()
        assert link.evaluate(IS_WHOLE), path
    for kind in ("runs", "jobs"):
        dashboard.visit(page, f"/{kind}/{job['job_id']}")
        expect(page.get_by_role("heading", name=called)).to_be_visible()
        page.get_by_role("button", name="Copy the id").click()
        assert page.evaluate("navigator.clipboard.readText()") == job["job_id"]


def test_a_job_that_runs_once_shows_live_that_its_run_died(dashboard: Dashboard) -> None:
    page = dashboard.open("/jobs")
    wait_until_live(page)
    dashboard.api().job("failing", schedule={}, name="charge", max_retries=0)
    expect(page.get_by_role("row", name="charge").locator(".state")).to_have_text("✕dead")


def test_a_viewer_sees_no_buttons_that_change_something(dashboard: Dashboard) -> None:
    job = dashboard.api().job(name="watched")

    def changes(role: Role) -> tuple[bool, bool, bool]:
        page = dashboard.open("/jobs", role=role)
        main = page.get_by_role("main")
        main.get_by_role("link", name="watched").wait_for()
        can_choose, can_create = (
            main.get_by_role("checkbox").count() > 0,
            main.get_by_role("link", name="New").count() > 0,
        )
        page.goto(f"{dashboard.address}/jobs/{job['job_id']}")
        main.get_by_role("heading", name="watched").wait_for()
        return can_choose, can_create, main.get_by_text(re.compile("^(Run now|Pause|Edit|Cancel)")).count() > 0

    assert changes("viewer") == (False, False, False)
    assert changes("member") == (True, True, True)


def test_all_tabs_of_a_browser_share_one_stream(dashboard: Dashboard) -> None:
    first = dashboard.open("/jobs")
    wait_until_live(first)
    second = first.context.new_page()
    second.goto(f"{dashboard.address}/jobs")
    expect(second.get_by_text("There are no jobs yet.")).to_be_visible()
    dashboard.api().job(name="for-both")
    for page in (first, second):
        expect(page.get_by_role("row", name="for-both")).to_be_visible()
    assert streams(dashboard) == 1

    other = dashboard.open("/jobs")  # in another browser, with a stream of its own
    wait_until_live(other)
    held: list[Route] = []
    second.route("**/v1/events*", lambda route: held.append(route))
    first.close()
    while not held:  # the second one asks for the stream
        second.wait_for_timeout(20)
    dashboard.api().job(name="for-the-second")
    expect(other.get_by_role("row", name="for-the-second")).to_be_visible()  # streams have told of it
    held[0].continue_()
    expect(second.get_by_role("row", name="for-the-second")).to_be_visible()
    assert streams(dashboard) == 3


def streams(dashboard: Dashboard) -> int:
    return sum("/v1/events" in address for address in dashboard.requests)
