"""The Django project of the examples with a real worker: what a view enqueues runs if its transaction is committed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests import django_project
from tests.processes.fleet import Fleet, until

from oncue.engines.open import open_engine
from oncue.engines.port import Role
from oncue.settings import Settings

pytestmark = pytest.mark.kills


async def granted(engine_url: str, folder: Path) -> None:
    engine = await open_engine(Settings(engine=engine_url, data_dir=str(folder)))
    now = await engine.now()
    await engine.outbox.grant("postgres", await engine.accounts.user("admin", now), Role.MEMBER, now)
    await engine.close()


def test_a_view_enqueues_in_its_transaction_and_a_worker_of_the_project_runs_it(
    postgres_fleet: Fleet, postgres_url: str, tmp_path: Path
) -> None:
    fleet = postgres_fleet
    fleet.engine = f"{postgres_url}?schema=oncue"
    asyncio.run(granted(fleet.engine, tmp_path))
    project = {
        "DJANGO_SETTINGS_MODULE": django_project.SETTINGS,
        "PYTHONPATH": str(django_project.PROJECT),
        "DATABASE_URL": postgres_url,
    }
    with django_project.database(postgres_url):
        from django.core.management import call_command
        from django.db import connection
        from django.test import Client
        from django.test.utils import override_settings

        call_command("migrate", run_syncdb=True, verbosity=0)
        fleet.start("up", tasks=Path("oncue.contrib.django"), env=project)
        fleet.ready(workers=1)
        server = {"url": f"http://127.0.0.1:{fleet.port}", "api_key": fleet.key}
        try:
            with override_settings(TASKS=with_options(**server)):
                shop_sells(Client(), fleet)
        finally:
            connection.close()


def with_options(**options: Any) -> dict[str, Any]:
    from django.conf import settings

    return {"default": {**settings.TASKS["default"], "OPTIONS": options}}


def shop_sells(browser: Any, fleet: Fleet) -> None:
    from bookshop.models import Order
    from bookshop.tasks import count_orders, send_receipt

    assert browser.post("/orders/", {"email": "a@example.org", "sold-out": "yes"}).status_code == 409
    sold = browser.post("/orders/", {"email": "b@example.org"})
    assert sold.status_code == 201

    done = until(
        lambda: (told := browser.get(f"/receipts/{sold.json()['receipt']}/").json())["status"] == "SUCCESSFUL" and told,
        "the receipt is sent",
        fleet.tell,
    )
    assert done["attempts"] == 1
    assert send_receipt.get_result(sold.json()["receipt"]).return_value == "b@example.org"
    assert list(Order.objects.values_list("email", "receipt_sent")) == [("b@example.org", True)]

    counted = count_orders.enqueue()
    until(lambda: counted.refresh() or counted.is_finished, "the orders are counted", fleet.tell)
    assert counted.return_value == 1
    assert len(fleet.all_runs()) == 2  # nothing of what was rolled back
