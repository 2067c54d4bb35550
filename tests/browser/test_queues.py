"""What waits where, who can run it, and how to stop and resume both."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests.browser.dashboard import PHONE, Api, Dashboard, violations


@pytest.fixture
def worker(dashboard: Dashboard) -> Iterator[str]:
    """The name of the server's worker, which takes runs again afterwards."""
    api = dashboard.api("admin")
    (worker,) = api.call("GET", "/workers")["workers"]
    yield worker["name"]
    api.call("POST", f"/workers/{worker['worker_id']}/resume")


def waiting_for_a_label(dashboard: Dashboard, queue: str) -> Api:
    api = dashboard.api()
    api.run(api.job(queue=queue, labels=["gpu"]))
    return api


def test_a_queue_is_paused_and_resumed(dashboard: Dashboard) -> None:
    queue = f"of-{dashboard.user}"
    waiting_for_a_label(dashboard, queue)
    page = dashboard.open(f"/queues/{queue}", role="admin")
    page.get_by_role("button", name=f"Pause {queue}").click()
    question = page.get_by_role("dialog", name=f"Pause the queue {queue}?")
    expect(question).to_contain_text("1 run is due now and will wait")
    expect(question).to_contain_text(f"oncue queues pause {queue}")
    question.get_by_role("button", name="Pause it").click()

    expect(page.get_by_text(f"paused by {dashboard.user} at")).to_be_visible()
    page.get_by_role("button", name=f"Resume {queue}").click()
    expect(page.get_by_role("button", name=f"Pause {queue}")).to_be_visible()
    assert dashboard.api("admin").call("GET", f"/queues/{queue}")["paused_since"] is None


def test_a_worker_is_drained_and_resumed(dashboard: Dashboard, worker: str) -> None:
    page = dashboard.open("/workers", role="admin")
    page.get_by_role("button", name=f"Drain {worker}").click()
    question = page.get_by_role("dialog", name=f"Drain {worker}?")
    expect(question).to_contain_text("It takes no new runs")
    question.get_by_role("button", name="Drain it").click()

    row = page.get_by_role("table", name="Workers").get_by_role("row").filter(has_text=worker)
    expect(row).to_contain_text("draining")
    row.get_by_role("link", name=worker).click()
    expect(page.get_by_text("drained by an administrator: it takes no new runs")).to_be_visible()
    page.get_by_role("button", name=f"Resume {worker}").click()
    expect(page.get_by_text("it takes runs, and executes")).to_be_visible()


def test_work_that_nobody_can_run_is_loud_and_says_why(dashboard: Dashboard, worker: str) -> None:
    queue = f"of-{dashboard.user}"
    page = dashboard.open("/queues")
    expect(page.get_by_text("No work is open.")).to_be_visible()
    api = waiting_for_a_label(dashboard, queue)
    api.run(api.job(labels=["gpu"]))

    fit = page.get_by_role("region", name="Kinds of work and workers")
    expect(page.get_by_text("2 kinds of work that nobody can run")).to_be_visible()
    expect(fit).to_contain_text(f"It does not take runs from the queue {queue}.")
    expect(fit).to_contain_text(f"oncue worker --tasks FILE.py --queues {queue} --labels gpu")
    expect(fit).to_contain_text("It lacks the label gpu.")

    api.run(api.job(), "succeeded")
    page.get_by_role("button", name="also without work").click()
    row = fit.get_by_role("row").filter(has=page.get_by_role("rowheader", name="ok in default", exact=True))
    expect(row).to_contain_text("free")


def test_charts_of_a_queue_mark_what_changed(dashboard: Dashboard, worker: str) -> None:
    dashboard.api().run(dashboard.api().job(), "succeeded")
    page = dashboard.open("/queues/default", role="admin")
    for chart in ("Attempts a minute", "Start lag"):
        figure = page.get_by_role("figure").filter(has_text=chart)
        expect(figure.get_by_text(f"worker {worker} joined")).to_be_attached()


def test_work_that_waits_is_accessible_and_names_stay_texts(dashboard: Dashboard, worker: str) -> None:
    queue = f"<i>{dashboard.user}"
    waiting_for_a_label(dashboard, queue)
    page = dashboard.open("/queues", role="admin")
    expect(page.get_by_text("Nobody can run this.").first).to_be_visible()
    assert violations(page) == []
    page.get_by_role("table", name="Queues").get_by_role("link", name=queue).click()
    expect(page.get_by_role("heading", name=queue)).to_be_visible()
    assert violations(page) == []
    dashboard.visit(page, "/workers")
    page.get_by_role("table", name="Workers").get_by_role("link", name=worker).click()
    expect(page.get_by_role("heading", name="Runs that it holds")).to_be_visible()
    assert violations(page) == []


def test_a_member_sees_no_buttons_and_a_phone_shows_the_same(dashboard: Dashboard, worker: str) -> None:
    queue = f"of-{dashboard.user}"
    waiting_for_a_label(dashboard, queue)
    page = dashboard.open("/queues")
    changes = page.get_by_role("button", name=re.compile("^(Pause|Resume|Drain)"))
    expect(page.get_by_role("table", name="Queues").get_by_role("link", name=queue)).to_be_visible()
    expect(changes).to_have_count(0)
    dashboard.visit(page, "/workers")
    expect(page.get_by_role("table", name="Workers").get_by_role("link", name=worker)).to_be_visible()
    expect(changes).to_have_count(0)
    page.set_viewport_size(PHONE)
    expect(page.get_by_role("link", name=worker)).to_be_visible()
    dashboard.visit(page, "/queues")
    expect(page.get_by_text("Nobody can run this.")).to_be_visible()
