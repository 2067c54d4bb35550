"""Keys, users, the audit log and the server."""

import re

from playwright.sync_api import Locator, Page, expect
from tests.browser.dashboard import Dashboard, violations


def row_of(page: Page, table: str, text: str) -> Locator:
    return page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def test_a_new_key_is_shown_once_and_can_be_revoked(dashboard: Dashboard) -> None:
    page = dashboard.open("/admin", role="admin")
    user, note = f"{dashboard.user}-new", "laptop <b>of</b> Ada"
    page.get_by_role("button", name="New key").click()
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Role", exact=True).select_option("viewer")
    page.get_by_label("Note", exact=True).fill(note)
    page.get_by_label("Lasts", exact=True).select_option("30d")
    expect(page.get_by_role("dialog")).to_contain_text(f"--user {user} --role viewer")
    page.get_by_role("button", name="Create key").click()

    secret = page.locator(".secret code").inner_text()
    assert re.fullmatch(r"oc_\w+", secret)
    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_text(secret)).to_have_count(0)
    row = row_of(page, "API keys", user)
    expect(row).to_contain_text(note)
    expect(row).to_contain_text("valid")

    row.get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"The viewer key of {user}")
    expect(dialog).to_contain_text("oncue keys revoke")
    dialog.get_by_role("button", name="Revoke it").click()
    expect(row).to_have_count(0)
    page.get_by_role("button", name="that ended").click()
    expect(row).to_contain_text("revoked")
    expect(page).to_have_url(re.compile("all=true"))


def test_what_is_wrong_with_a_key_is_said_beside_it(dashboard: Dashboard) -> None:
    dashboard.expect_trouble("status of 422")
    page = dashboard.open("/admin/keys", role="admin")
    page.get_by_role("button", name="New key").press("Enter")
    user = page.get_by_label("User", exact=True)
    user.fill("no\u202egood")
    user.press("Enter")
    expect(user).to_have_attribute("aria-invalid", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_audit_log_is_filtered_by_its_address(dashboard: Dashboard) -> None:
    job = dashboard.api().job(name="audited")
    dashboard.api().call("POST", f"/jobs/{job['job_id']}/pause")
    page = dashboard.open(f"/admin/audit?object_id={job['job_id']}", role="admin")
    table = page.get_by_role("table", name="Audit log")
    expect(table.get_by_role("row")).to_have_count(3)
    page.get_by_label("Action").fill("job.pause")
    page.get_by_label("Action").press("Enter")
    expect(table.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("action=job.pause"))
    table.get_by_role("link", name=re.compile("job …")).click()
    expect(page.get_by_role("heading", name="audited")).to_be_visible()


def test_each_role_sees_its_part(dashboard: Dashboard) -> None:
    page = dashboard.open("/admin", role="member")
    parts = page.get_by_role("navigation", name="Parts of Admin").get_by_role("link")
    expect(parts).to_have_text(["Audit log", "Server"])
    expect(page.get_by_label("User", exact=True)).to_have_count(0)
    page.goto(f"{dashboard.address}/admin/keys")
    expect(page.get_by_text("This needs an admin key.")).to_be_visible()
    page.goto(f"{dashboard.address}/admin/server")
    expect(page.get_by_text("Idempotency keys")).to_be_visible()
    expect(page.get_by_role("table", name="Processes")).to_be_visible()


def test_admin_is_accessible(dashboard: Dashboard) -> None:
    page = dashboard.open("/admin/audit", role="admin")
    expect(page.get_by_role("table", name="Audit log")).to_be_visible()
    assert violations(page) == []
    marks = {"/users": "Users", "/findings": None, "/keys": "API keys"}
    for part, table in marks.items():
        dashboard.visit(page, f"/admin{part}")
        expect(page.get_by_role("table", name=table) if table else page.get_by_text("Nothing found")).to_be_visible()
        assert violations(page) == []
    page.get_by_role("button", name="New key").click()
    expect(page.get_by_label("Role", exact=True)).to_be_visible()
    assert violations(page) == []
