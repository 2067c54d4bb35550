"""Below a path of a proxy, without a setting."""

from playwright.sync_api import expect
from tests.browser.dashboard import Dashboard
from tests.browser.proxy import proxy
from tests.browser.test_jobs import wait_until_live
from tests.browser.test_signing_in import sign_in


def test_it_works_below_a_path_of_a_proxy(dashboard: Dashboard) -> None:
    job = dashboard.api().job(name="proxied")
    with proxy(dashboard.address, "/some/where") as address:
        page = dashboard.open(role=None)
        page.goto(f"{address}/jobs/{job['job_id']}/runs")
        sign_in(page, dashboard.api().key)
        expect(page.get_by_role("heading", name="proxied")).to_be_visible()
        wait_until_live(page)
        dashboard.api().run(job)
        expect(page.get_by_role("table", name="Runs")).to_contain_text("succeeded")
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
        expect(page).to_have_url(f"{address}/jobs")
        expect(page.get_by_role("link", name="proxied")).to_be_visible()
        page.context.close()
