"""Everything by keys."""

from playwright.sync_api import expect
from tests.browser.dashboard import Dashboard


def test_search_finds_a_job_and_opens_it(dashboard: Dashboard) -> None:
    dashboard.api().job(name="monthly-report")
    page = dashboard.open("/jobs")
    page.get_by_role("link", name="monthly-report").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    page.keyboard.type("monthly")
    expect(page.get_by_role("dialog").get_by_role("option", selected=True)).to_contain_text("monthly-report")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="monthly-report")).to_be_visible()


def test_a_question_mark_shows_all_keys(dashboard: Dashboard) -> None:
    page = dashboard.open("/jobs")
    page.get_by_role("heading", name="Jobs").wait_for()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("next and previous row")
    expect(keys).to_contain_text("/ or Ctrl K")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)


def test_g_and_a_letter_go_to_a_page(dashboard: Dashboard) -> None:
    page = dashboard.open("/jobs")
    page.get_by_role("heading", name="Jobs").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(page).to_have_url(f"{dashboard.address}/runs")


def test_j_k_x_and_enter_move_choose_and_open(dashboard: Dashboard) -> None:
    for name in ("older", "newer"):
        dashboard.api().job(name=name)
    page = dashboard.open("/jobs")
    rows = page.get_by_role("table", name="Jobs").locator("tbody tr")
    expect(rows).to_have_count(2)
    names = page.locator("a.main-link").all_inner_texts()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name=names[0])).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name=names[1])).to_be_focused()
    page.keyboard.press("k")
    expect(page.get_by_role("link", name=names[0])).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_role("checkbox", name=f"Choose {names[0]}")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=names[0])).to_be_visible()
