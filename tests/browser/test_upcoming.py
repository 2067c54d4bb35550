"""What is to come: how much at once, on whose clock, and what changes of clocks do."""

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect
from tests.browser.dashboard import PHONE, Dashboard, violations

MANY = 70  # more than twice the threads of the worker
AT_MIDNIGHT = {"cron": "0 0 * * *", "timezone": "Asia/Tokyo"}


def spring() -> datetime:
    """01:00 UTC on the last Sunday of next March, when clocks go forward in Berlin."""
    end = datetime(datetime.now(UTC).year + 1, 3, 31, 1, tzinfo=UTC)
    return end - timedelta(days=(end.weekday() + 1) % 7)


def around(at: datetime) -> str:
    return f"from={(at - timedelta(hours=3)):%Y-%m-%dT%H:%M:%SZ}&to={(at + timedelta(hours=3)):%Y-%m-%dT%H:%M:%SZ}"


def test_a_peak_is_foreseen_and_spread_with_the_keyboard(dashboard: Dashboard) -> None:
    api = dashboard.api()
    job = {"task": "slow", "payload": {"until": "/"}, "schedule": AT_MIDNIGHT}
    made = api.call("POST", "/jobs/batch", json={"jobs": [{**job, "name": f"report {n}"} for n in range(MANY)]})
    page = dashboard.open("/upcoming?by=queue")
    peak = page.get_by_role("listitem").filter(has_text=re.compile(rf"{MANY} runs at .*, 32 places: 3 turns"))

    peak.get_by_role("button", name="Spread them …").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Each run starts up to this much later").select_option("30 min")
    expect(dialog).to_contain_text("each up to 30m later")
    expect(dialog.get_by_role("region", name="the same as commands")).to_contain_text("oncue jobs edit")
    dialog.get_by_role("button", name=f"Spread {MANY} jobs over 30 min").press("Enter")

    expect(page.get_by_text(f"Spread: {MANY} jobs have 30m of jitter.")).to_be_visible()
    schedules = [api.call("GET", f"/jobs/{job_id}")["schedule"] for job_id in made["job_ids"]]
    assert {(one["cron"], one["timezone"], one["jitter"]) for one in schedules} == {("0 0 * * *", "Asia/Tokyo", "30m")}
    expect(page).to_have_url(re.compile("by=queue"))


def test_what_a_change_of_clocks_moves_is_labelled_before_it_happens(dashboard: Dashboard) -> None:
    at_dawn = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    dashboard.api().job(name="at dawn", schedule=at_dawn)
    dashboard.api().job(name="left out", schedule=at_dawn | {"dst_gap": "skip"})

    page = dashboard.open(f"/upcoming?zone=utc&clock=Europe/Berlin&{around(spring())}")

    timeline = page.get_by_role("group", name="Runs to come by task")
    expect(timeline.get_by_text("Europe/Berlin: 02:00–03:00 does not exist").first).to_be_visible()
    clocks = page.get_by_role("region", name="What changes of clocks do")
    expect(clocks).to_contain_text(re.compile("at dawn.*02:30 does not exist"))
    expect(clocks.get_by_role("list", name="What does not run")).to_contain_text(re.compile("left out does not run"))


def test_a_bar_looks_closer_and_the_view_is_its_address(dashboard: Dashboard) -> None:
    dashboard.api().job(name="hourly", schedule={"cron": "0 * * * *"})
    page = dashboard.open("/upcoming?window=6h")
    bars = page.get_by_role("group", name="Runs to come by task").get_by_label("ok: 1 from")
    expect(bars).to_have_count(6)

    bars.nth(2).click()

    expect(bars).to_have_count(1)
    expect(page).to_have_url(re.compile("from=.*&to="))
    expect(page.get_by_role("table", name="Runs to come").get_by_role("link", name="hourly")).to_have_count(1)
    page.go_back()
    expect(bars).to_have_count(6)


def test_an_empty_window_teaches_a_command_and_a_viewer_has_no_button(dashboard: Dashboard) -> None:
    page = dashboard.open("/upcoming", role="viewer")

    expect(page.get_by_text("Nothing comes in this window.")).to_be_visible()
    expect(page.get_by_text("oncue jobs create")).to_be_visible()
    expect(page.get_by_role("button", name="Spread them …")).to_have_count(0)


def test_hostile_names_are_text_and_axe_is_content(dashboard: Dashboard) -> None:
    hostile = "<script>alert(1)</script>"
    dashboard.api().job(name=hostile, schedule={"cron": "*/10 * * * *", "jitter": "1m"})
    page = dashboard.open("/upcoming")

    expect(page.get_by_role("link", name=hostile).first).to_be_visible()
    expect(page.get_by_role("region", name="Load ahead")).to_contain_text("No peak")
    assert violations(page) == []
    page.set_viewport_size(PHONE)
    assert violations(page, with_dark=False) == []
