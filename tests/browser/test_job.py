"""The page of a job, and the forms that create and edit one."""

import re
from pathlib import Path

from playwright.sync_api import expect
from tests.browser.dashboard import PHONE, Dashboard, violations

EVIL = '<img src=x onerror="alert(1)">'
AT_NINE = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}


def test_a_new_job_is_previewed_and_runs_live_by_keyboard_alone(dashboard: Dashboard) -> None:
    page = dashboard.open("/new")
    page.get_by_label("Task").focus()
    page.keyboard.type("ok")
    expect(page.get_by_label("Task")).to_have_value("ok")
    page.get_by_label("Name", exact=True).focus()
    page.keyboard.type(EVIL)
    page.get_by_role("button", name="Every").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Every", exact=True).focus()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("1s")
    preview = page.get_by_label("Preview")
    expect(preview.get_by_role("heading", name="every 1s")).to_be_visible()
    expect(preview.get_by_role("table", name="Next runs").locator("tbody tr")).to_have_count(10)
    expect(preview.get_by_label("CLI", exact=True)).to_contain_text("--schedule 'every 1s'")

    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=EVIL)).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).last.focus()
    page.keyboard.press("Enter")
    runs = page.get_by_role("table", name="Runs")
    expect(runs.get_by_text("succeeded").nth(1)).to_be_attached()


def test_arguments_have_the_inputs_of_the_schema_and_refusals_are_at_them(dashboard: Dashboard) -> None:
    dashboard.expect_trouble(r"status of 422 .*/v1/(jobs|schedules)")
    page = dashboard.open("/new?task=slow")
    page.get_by_role("button", name="Now").click()
    page.get_by_label("until (required)").fill("/nowhere")
    page.get_by_label("parts").fill("many")
    expect(page.get_by_label("parts")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("parts").fill("3")
    expect(page.get_by_label("parts")).not_to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Cron").click()
    page.get_by_label("Cron", exact=True).fill("77 * * * *")
    expect(page.get_by_label("Preview")).to_contain_text("77 is not between 0 and 59")


def test_what_is_wrong_with_a_new_job_is_said_at_its_fields(dashboard: Dashboard) -> None:
    dashboard.expect_trouble(r"status of 422 .*/v1/jobs")
    page = dashboard.open("/new", viewport=PHONE)
    create = page.get_by_role("button", name="Create job")
    create.click()
    task = page.get_by_label("Task", exact=True)
    expect(task).to_be_focused()
    expect(task).to_have_accessible_description("Choose a task first.")
    task.select_option("slow")
    page.get_by_role("button", name="Now").click()
    page.get_by_text("Policies:").click()
    page.get_by_label("Retries after failures").fill("-1")
    page.get_by_text("Policies:").click()

    create.click()

    until, retries = page.get_by_label("until (required)"), page.get_by_label("Retries after failures")
    expect(until).to_be_focused()
    expect(until).to_be_in_viewport(ratio=1)
    expect(until).to_have_accessible_description(re.compile("required"))
    expect(page.get_by_role("alert").filter(has_text="Not created: 2 fields are wrong.")).to_be_visible()
    until.fill("/nowhere")
    expect(until).not_to_have_attribute("aria-invalid", "true")
    create.click()
    expect(retries).to_be_focused()  # it was folded away
    expect(retries).to_have_accessible_description(re.compile("0"))


def test_a_draft_is_in_its_address(dashboard: Dashboard) -> None:
    page = dashboard.open("/new?task=failing")
    page.get_by_role("button", name="Every").click()
    page.get_by_label("Every", exact=True).fill("7m")
    page.get_by_label("message").fill("a & b")
    page.get_by_label("Name", exact=True).fill("kept")
    expect(page).to_have_url(re.compile("name=kept&every=7m"))

    page.reload()

    expect(page.get_by_label("Name", exact=True)).to_have_value("kept")
    expect(page.get_by_label("Every", exact=True)).to_have_value("7m")
    expect(page.get_by_label("message")).to_have_value("a & b")
    page.get_by_role("button", name="Create job").click()
    expect(page.get_by_role("heading", name="kept")).to_be_visible()
    [job] = dashboard.api().call("GET", "/jobs")["jobs"]
    assert (job["schedule"]["every"], job["payload"]) == ("7m", {"message": "a & b"})


def test_a_failing_job_says_why(dashboard: Dashboard) -> None:
    api = dashboard.api()
    job = api.job("failing", name="nightly", payload={"message": EVIL}, max_retries=0)
    page = dashboard.open(f"/jobs/{job['job_id']}")
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    api.run(job, "dead")
    failure = page.locator(".last-failure")
    expect(failure).to_contain_text("RuntimeError")
    expect(failure).to_contain_text(EVIL)


def test_why_goes_down_to_the_root(dashboard: Dashboard, tmp_path: Path) -> None:
    api, until = dashboard.api(), tmp_path / "until"
    first = api.job("slow", name="first", group="g", payload={"until": str(until)})
    second = api.job("ok", name="second", group="g")
    holder = api.run(first, "running")
    api.run(second)
    page = dashboard.open(f"/jobs/{second['job_id']}")
    why = page.get_by_label("Why")
    expect(why.get_by_role("link", name="first")).to_be_visible()
    expect(why).to_contain_text("Next in line")
    expect(why).to_contain_text(f"oncue runs cancel {holder['run_id']}")
    until.touch()
    expect(why.get_by_role("link", name="first")).to_have_count(0)


def test_pause_and_resume(dashboard: Dashboard) -> None:
    job = dashboard.api().job(schedule=AT_NINE, name="daily")
    page = dashboard.open(f"/jobs/{job['job_id']}")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_label("Why")).to_contain_text("The job is paused")
    expect(page.get_by_text("None: the job is paused.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("all of them").check()
    expect(dialog).to_contain_text("--missed all")
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()


def test_a_run_by_hand_takes_another_payload(dashboard: Dashboard) -> None:
    job = dashboard.api().job(payload={"text": "a"})
    page = dashboard.open(f"/jobs/{job['job_id']}/runs")
    page.get_by_role("button", name="Run now").click()
    page.get_by_label("Payload of this run").fill('{"text": "b"}')
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.get_by_role("table", name="Runs").get_by_text("succeeded")).to_be_attached()
    [run] = dashboard.api().call("GET", "/runs", params={"job_id": job["job_id"]})["runs"]
    assert run["result"] == "b"


def test_an_edit_shows_what_it_moves(dashboard: Dashboard) -> None:
    job = dashboard.api().job(schedule=AT_NINE, name="daily")
    page = dashboard.open(f"/jobs/{job['job_id']}/edit")
    page.get_by_label("Cron", exact=True).fill("0 7 * * *")
    effect = page.get_by_label("What the change does")
    expect(effect.get_by_role("heading", name="at 07:00 every day (Europe/Berlin)")).to_be_visible()
    expect(effect).to_contain_text("Was: at 09:00 every day (Europe/Berlin)")
    expect(effect.locator(".lanes .is-goes").first).to_be_visible()
    expect(effect.locator(".lanes .is-comes").first).to_be_visible()
    expect(effect).to_contain_text("It takes effect")
    page.get_by_role("button", name="Save the change").click()
    expect(page.get_by_role("heading", name="daily", exact=True)).to_be_visible()
    page.get_by_role("link", name="Definition").click()
    expect(page.get_by_label("Version 1 against 2")).to_contain_text("0 7 * * *")
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("table", name="Audit log")).to_contain_text("edited it")


def test_what_the_next_apply_undoes_is_said_before(dashboard: Dashboard) -> None:
    api = dashboard.api()
    at_half_past_two = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    turned = re.compile("does not exist|of the two|comes twice")
    sets = {"shop": "the set shop: the next apply, or start of the code,", "key:b": "code key:b: the next start"}
    for key, name in zip("ab", sets, strict=True):
        api.call(
            "POST", "/jobs/apply", json={"set": name, "jobs": [{"key": key, "task": "ok", "schedule": "every 9h"}]}
        )
    for key, told in zip("ab", sets.values(), strict=True):
        job = api.call("GET", f"/jobs/by-key/{key}")
        page = dashboard.open(f"/jobs/{job['job_id']}/edit")
        expect(page.get_by_role("note")).to_contain_text(f"Declared in {told} puts the job back. Change the")
        dashboard.visit(page, f"/jobs/{job['job_id']}")
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text(f"Declared in {told} creates the job again.")
        expect(page.get_by_role("dialog")).to_contain_text("or pause it instead")
        page.keyboard.press("Escape")
    dashboard.visit(page, f"/jobs/{job['job_id']}/edit")
    page.get_by_label("Tags").fill("mine")
    expect(page.get_by_role("note")).to_contain_text("is refused when the job has no tag applied:key:b. Keep the tag.")
    other = api.job(schedule=at_half_past_two)
    dashboard.visit(page, f"/jobs/{other['job_id']}/edit")
    effect = page.get_by_label("What the change does")
    expect(effect).to_contain_text("Nothing is changed yet")
    expect(effect.locator(".notes")).to_contain_text(turned)
    page.get_by_label("Cron", exact=True).fill("35 2 * * *")
    expect(effect).to_contain_text("It takes effect")
    expect(effect.locator(".notes")).to_contain_text(turned)
    expect(page.get_by_role("note")).to_have_count(0)
    page.get_by_label("Cron", exact=True).fill("35 5 * * *")
    expect(effect).to_contain_text("at 05:35 every day")
    expect(effect).not_to_contain_text("clock change")
    page.goto(f"{dashboard.address}/new")
    page.get_by_role("button", name="Cron", exact=True).click()
    page.get_by_label("Cron", exact=True).fill("30 2 * * *")
    expect(page.get_by_label("Preview").locator(".notes")).to_contain_text(turned)


def test_a_change_by_somebody_else_is_told_and_both_are_kept(dashboard: Dashboard) -> None:
    api = dashboard.api()
    job = api.job(schedule=AT_NINE, name="daily")
    page = dashboard.open(f"/jobs/{job['job_id']}/edit")
    page.get_by_label("Name", exact=True).fill("mine")
    api.call("PATCH", f"/jobs/{job['job_id']}", json={"priority": "high"})
    conflict = page.get_by_role("alert", name="The job was changed meanwhile")
    expect(conflict).to_contain_text("both changes fit together")
    expect(page.get_by_role("button", name="Save the change")).to_be_disabled()
    conflict.get_by_role("button", name="Put my changes on top of theirs").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("mine")
    page.get_by_role("button", name="Save the change").click()
    expect(page.get_by_role("heading", name="mine", exact=True)).to_be_visible()
    now = api.call("GET", f"/jobs/{job['job_id']}")
    assert (now["name"], now["priority"]) == ("mine", "high")


def test_back_keeps_what_was_typed_and_takes_questions_away(dashboard: Dashboard) -> None:
    job = dashboard.api().job(name="far ahead")  # begins in 2100: its axis has many years
    page = dashboard.open("/jobs")
    page.get_by_role("link", name="far ahead").click()
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Name", exact=True).fill("typed")
    expect(page.get_by_label("What the change does")).to_contain_text("It runs at the same times")
    page.go_back()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog", name="Cancel far ahead?")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)

    dashboard.visit(page, f"/jobs/{job['job_id']}/edit")

    expect(page.get_by_label("Name", exact=True)).to_have_value("typed")
    page.get_by_role("link", name="Leave it").click()
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("far ahead")


def test_the_ledger_has_a_cell_for_each_instant(dashboard: Dashboard) -> None:
    job = dashboard.api().job(schedule="every 1s")
    page = dashboard.open(f"/jobs/{job['job_id']}/ledger")
    cells = page.locator(".ledger-cell")
    expect(cells.nth(1)).to_be_visible()
    cells.first.click()
    page.keyboard.press("ArrowRight")
    expect(cells.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("heading", name="The chosen occurrence")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="The chosen occurrence")).to_be_visible()


def test_daylight_saving_is_told_before_it_happens(dashboard: Dashboard) -> None:
    job = dashboard.api().job(schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"})
    page = dashboard.open(f"/jobs/{job['job_id']}")
    expect(page.locator(".notes")).to_contain_text("02:30")
    page.get_by_role("button", name="Show it on the timeline").click()
    expect(page.locator(".event.has-note")).to_be_visible()
    expect(page.locator(".turn-word").first).to_contain_text("02:00–03:00")


def test_a_viewer_reads_only(dashboard: Dashboard) -> None:
    job = dashboard.api().job(schedule=AT_NINE)
    page = dashboard.open(f"/jobs/{job['job_id']}", role="viewer")
    expect(page.get_by_role("heading", name="Next runs")).to_be_visible()
    for name in ("Run now", "Pause", "Cancel"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    page.goto(f"{dashboard.address}/new")
    expect(page.get_by_text("Your key may read only")).to_be_visible()


def test_past_and_coming_runs_are_accessible(dashboard: Dashboard) -> None:
    job = dashboard.api().job("failing", schedule="every 1s", payload={"message": EVIL}, max_retries=0)
    page = dashboard.open(f"/jobs/{job['job_id']}")
    expect(page.locator(".last-failure")).to_be_visible()
    expect(page.get_by_role("heading", name="Next runs")).to_be_visible()
    assert violations(page) == []
    dashboard.visit(page, f"/jobs/{job['job_id']}/ledger")
    expect(page.locator(".ledger-cell").first).to_be_visible()
    assert violations(page) == []


def test_it_fits_on_a_phone(dashboard: Dashboard) -> None:
    job = dashboard.api().job(schedule={"cron": "* * * * *", "timezone": "Asia/Tokyo"}, name="n" * 200)
    page = dashboard.open(f"/jobs/{job['job_id']}", viewport=PHONE)
    expect(page.get_by_role("table", name="Next runs")).to_be_visible()
    for view in ("", "/ledger", "/edit"):
        if view:
            page.goto(f"{dashboard.address}/jobs/{job['job_id']}{view}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], view
