"""Runs and one run: watched live, cancelled, run again, many at a time, and found by how late they started."""

import re
from pathlib import Path

from playwright.sync_api import expect
from tests.browser.dashboard import PHONE, Dashboard, violations

EVIL = "<img src=x onerror=alert(1)>"


def test_a_run_is_watched_live_with_its_log(dashboard: Dashboard, tmp_path: Path) -> None:
    api, until = dashboard.api(), tmp_path / "until"
    page = dashboard.open("/runs")
    expect(page.get_by_text("Nothing has run yet.")).to_be_visible()
    example = page.get_by_role("main").get_by_text(re.compile("^oncue jobs create --task (ok|failing) --wait$"))
    expect(example).to_be_visible()
    run = api.run(api.job("slow", name="report", payload={"until": str(until), "lines": 300}), "running")

    page.get_by_role("link", name="report").click()
    expect(page.get_by_label("In short")).to_contain_text("Running")
    log = page.get_by_role("log", name="Log lines")
    expect(log).to_contain_text("part 9 of 10")  # the last lines: it follows, and only those near the end exist

    until.touch()
    api.run_when(run["run_id"], "succeeded")
    expect(page.get_by_label("In short")).to_contain_text("Succeeded")
    expect(page.get_by_role("region", name="Result", exact=True)).to_have_text('"done"')


def test_a_running_run_is_cancelled(dashboard: Dashboard, tmp_path: Path) -> None:
    api = dashboard.api()
    run = api.run(api.job("slow", name="report", payload={"until": str(tmp_path / "never")}), "running")
    page = dashboard.open(f"/runs/{run['run_id']}")

    page.get_by_role("button", name="Cancel").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text(f"oncue runs cancel {run['run_id']}")
    question.get_by_role("button", name="Cancel the run").click()

    expect(page.get_by_label("In short")).to_contain_text("Cancelled")
    assert api.run_when(run["run_id"], "cancelled")


def test_an_ended_run_is_run_again_with_another_payload(dashboard: Dashboard) -> None:
    api = dashboard.api()
    job = api.job("failing", schedule={}, name="charge", max_retries=0)
    first = api.run_when(job["job_id"], "dead")
    page = dashboard.open(f"/runs/{first['run_id']}")
    expect(page.locator(".facts")).to_contain_text("enqueued")
    expect(page.get_by_label("In short")).to_contain_text("Dead after 1 attempt, RuntimeError")

    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("textbox", name="Payload")).to_be_focused()
    page.get_by_role("textbox", name="Payload").fill("{broken")
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    expect(page.get_by_role("dialog")).to_contain_text("not valid JSON")
    page.get_by_role("textbox", name="Payload").fill('{"good": true}')
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()

    expect(page.get_by_label("In short")).to_contain_text("Succeeded")
    expect(page.get_by_role("region", name="Result", exact=True)).to_have_text('"mended"')
    again = api.call("GET", page.url.removeprefix(dashboard.address))
    lag = page.get_by_label("In short").inner_text().partition("started ")[2].partition(" after it was due")[0]
    waited = page.get_by_title(re.compile("^waited "))  # both count from when it was asked for
    assert [one.get_attribute("title") for one in waited.all()] in ([f"waited {lag}"], [])  # 0 ms are not drawn
    assert again["due_time"] > again["scheduled_for"] == first["scheduled_for"]
    page.get_by_role("link", name=f"…{first['run_id'][-8:]}").click()
    expect(page.get_by_text("followed by")).to_be_visible()


def test_a_dead_run_is_discarded_on_its_page(dashboard: Dashboard) -> None:
    api = dashboard.api()
    run = api.run(api.job("failing", name="charge", max_retries=0), "dead")
    page = dashboard.open(f"/runs/{run['run_id']}")

    page.get_by_role("button", name="Discard").click()
    question = page.get_by_role("dialog", name="Discard charge?")
    expect(question.get_by_role("button", name="Leave it")).to_be_focused()
    expect(question).to_contain_text(f"oncue dead discard {run['run_id']}")
    question.get_by_role("button", name="Discard it").click()

    expect(page.get_by_text("It was run again or discarded: it cannot be run again.")).to_be_visible()
    for name in ("Discard", "Run again"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    assert api.call("GET", "/dead-letters")["dead_letters"] == []


def test_filters_stay_while_many_are_run_again(dashboard: Dashboard) -> None:
    api = dashboard.api()
    for name in ("one", "two"):
        api.run(api.job("failing", name=name, max_retries=0), "dead")
    api.run(api.job(name="good"), "succeeded")
    page = dashboard.open("/runs?status=dead")
    expect(page.get_by_role("link", name="one")).to_be_visible()
    expect(page.get_by_role("link", name="good")).to_have_count(0)

    page.get_by_role("button", name="Run again", exact=True).click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("Run 2 runs again?")
    expect(question).to_contain_text("oncue runs retry --all --status dead")
    question.get_by_role("button", name="Run 2 runs again").click()

    expect(page.get_by_role("table", name="Runs").get_by_role("row")).to_have_count(5)  # and its head
    assert page.url.endswith("/runs?status=dead")


def test_how_long_a_run_took_fits_on_a_phone(dashboard: Dashboard) -> None:
    api = dashboard.api()
    run = api.run(api.job(name="long"), "succeeded") | {"duration_ms": 86_340_000}
    page = dashboard.open("/jobs", viewport=PHONE)
    page.route(re.compile(r"/v1/runs(\?|$)"), lambda route: route.fulfill(json={"runs": [run]}))
    dashboard.visit(page, "/runs")
    took = page.get_by_role("table", name="Runs").get_by_text("23 h 59 min")
    expect(took).to_be_visible()
    in_cell = "(one, edge) => one.getBoundingClientRect()[edge] <= one.closest('td').getBoundingClientRect()[edge]"
    assert all(took.evaluate(in_cell, edge) for edge in ("right", "bottom"))


def test_an_administrator_narrows_runs_to_their_own(dashboard: Dashboard) -> None:
    mine, theirs = dashboard.api("admin"), dashboard.stranger()
    own, other = f"own {dashboard.user}", f"other {dashboard.user}"
    job, foreign = mine.job(name=own), theirs.job(name=other)
    mine.run(job, "succeeded")
    theirs.run(foreign, "succeeded")
    page = dashboard.open("/runs", role="admin")
    expect(page.get_by_role("link", name=other)).to_be_visible()
    expect(page.get_by_role("link", name=own)).to_be_visible()

    page.get_by_label("Whose objects").select_option("mine")

    expect(page.get_by_role("link", name=other)).to_have_count(0)
    expect(page.get_by_role("link", name=own)).to_have_count(1)
    theirs.run(foreign, "succeeded")
    mine.run(job, "succeeded")
    expect(page.get_by_role("link", name=own)).to_have_count(2)
    expect(page.get_by_role("link", name=other)).to_have_count(0)
    expect(page.get_by_role("button", name="succeeded", pressed=False)).to_contain_text("2")


def test_with_the_keyboard_alone(dashboard: Dashboard) -> None:
    api = dashboard.api()
    api.run(api.job(name="hello"), "succeeded")
    page = dashboard.open("/jobs")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("r")
    link = page.get_by_role("link", name="hello")
    expect(link).to_be_visible()
    page.keyboard.press("j")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("In short")).to_contain_text("Succeeded")


def test_lateness_by_time_leads_to_its_runs(dashboard: Dashboard) -> None:
    api = dashboard.api()
    api.run(api.job(name="hello"), "succeeded")
    page = dashboard.open("/runs")
    expect(page.get_by_role("link", name="hello")).to_be_visible()
    page.get_by_role("button", name="Table").click()
    page.get_by_role("button", name="show them").first.click()

    box = page.get_by_label("What is in the box")
    expect(box).to_contain_text("1 run")
    expect(page.get_by_role("link", name="hello").first).to_be_visible()
    page.reload()
    expect(box).to_contain_text("1 run")
    box.get_by_role("button", name="Leave the box").click()
    expect(box).to_have_count(0)


def test_text_of_users_is_text(dashboard: Dashboard) -> None:
    api = dashboard.api()
    run = api.run(api.job("failing", name=EVIL, payload={"message": EVIL}, max_retries=0), "dead")
    page = dashboard.open("/runs")
    expect(page.get_by_role("link", name=EVIL)).to_be_visible()
    page.goto(f"{dashboard.address}/runs/{run['run_id']}")
    expect(page.get_by_role("heading", name=EVIL)).to_be_visible()
    expect(page.get_by_role("region", name="Traceback of attempt 1")).to_contain_text(EVIL)
    expect(page.get_by_role("log")).to_contain_text(EVIL)


def test_lateness_as_a_table_and_a_dialog_are_accessible(dashboard: Dashboard) -> None:
    api = dashboard.api()
    run = api.run(api.job("failing", name="charge", max_retries=0), "dead")
    page = dashboard.open("/runs")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("button", name="show them").first).to_be_visible()
    assert violations(page) == []
    dashboard.visit(page, f"/runs/{run['run_id']}")
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []


def test_a_viewer_sees_no_buttons_that_change_something(dashboard: Dashboard) -> None:
    run = dashboard.api().run(dashboard.api().job(name="hello"), "succeeded")
    page = dashboard.open(f"/runs/{run['run_id']}", role="viewer", viewport=PHONE)
    expect(page.get_by_label("In short")).to_contain_text("Succeeded")
    expect(page.get_by_role("button", name="Run again")).to_have_count(0)
    find = page.get_by_role("searchbox", name="Find in the log").bounding_box()
    assert find is not None
    assert find["x"] + find["width"] <= PHONE["width"]
    page.goto(f"{dashboard.address}/runs?status=succeeded")
    expect(page.get_by_role("link", name="hello")).to_be_visible()
    expect(page.get_by_role("toolbar")).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
