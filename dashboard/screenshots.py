"""Screenshots of every page of the dashboard, light and dark, wide and on a phone, filled by the demo.

ARGS="--only admin" takes some, ARGS="--keys FILE" those of a demo that runs (`make demo ARGS="--keys FILE"`). They are
in dashboard/build/screenshots.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "dashboard" / "build" / "screenshots"
SIZES = {"wide": (1440, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE = 120  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="pages whose name contains this")
    parser.add_argument("--keys", type=Path, help="of a demo that runs")
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with demo(asked.keys) as served, sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, CHROMIUM)), None)
        browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=os.geteuid() != 0)
        pages = {name: path for name, path in places(served).items() if asked.only in name}
        for size in SIZES:
            for theme in THEMES:
                take(browser, served, pages, size, theme)
        browser.close()


@contextmanager
def demo(keys: Path | None) -> Iterator[dict[str, Any]]:
    """What a demo says of itself: its address and keys."""
    if keys is not None:
        yield json.loads(keys.read_text())
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.json"
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.demo", f"--port={port}", f"--keys={keys}"], cwd=ROOT
        )
        try:
            yield _when_ready(keys, process)
        finally:
            process.terminate()
            process.wait()


def _when_ready(keys: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        if keys.exists():
            served: dict[str, Any] = json.loads(keys.read_text())
            try:
                urlopen(f"{served['url']}/readyz", timeout=5).close()
                return served
            except OSError:
                pass
        time.sleep(0.5)
    raise SystemExit("The demo did not start.")


def key_of(served: dict[str, Any]) -> str:
    return next(key for name, key in served["keys"].items() if "(admin)" in name)


def places(served: dict[str, Any]) -> dict[str, str]:
    """The address of each page below the demo's, by the name of its picture."""

    def get(path: str) -> Any:
        request = Request(f"{served['url']}/v1{path}", headers={"Authorization": f"Bearer {key_of(served)}"})
        with urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def job(name: str) -> str:
        return str(get(f"/jobs?name={name}")["jobs"][0]["job_id"])

    failing, moved, skipping = job("payments-reconcile"), job("tariff-switch"), job("warehouse-load")
    dead = get(f"/runs?status=dead&job_id={failing}")["runs"][0]["run_id"]
    running = get("/runs?status=running")["runs"][0]["run_id"]
    group = get("/errors")["errors"][0]["fingerprint"]
    worker = get("/workers")["workers"][0]["worker_id"]
    return {
        "overview": "/",
        "jobs": "/jobs",
        "jobs-failing": "/jobs?health=failing",
        "job": f"/jobs/{failing}",
        "job-moved": f"/jobs/{moved}",
        "job-ledger": f"/jobs/{skipping}/ledger",
        "job-runs": f"/jobs/{failing}/runs",
        "job-definition": f"/jobs/{job('fx-rates')}/definition",
        "job-audit": f"/jobs/{job('fx-rates')}/audit",
        "runs": "/runs",
        "run-dead": f"/runs/{dead}",
        "run-running": f"/runs/{running}",
        "upcoming": "/upcoming",
        "failures": "/failures",
        "failures-group": f"/failures/{group}",
        "queues": "/queues",
        "queues-one": "/queues/reports",
        "worker": f"/workers/{worker}",
        "new": "/new",
        "edit": f"/jobs/{moved}/edit",
        **{f"admin-{tab}": f"/admin/{tab}" for tab in ("keys", "users", "audit", "server", "findings")},
    }


def take(browser: Browser, served: dict[str, Any], pages: dict[str, str], size: str, theme: Any) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, base_url=served["url"]
    )
    answer = context.request.post("/v1/session", data={"key": key_of(served)}, headers={"Origin": served["url"]})
    assert answer.ok, answer.text()
    page = context.new_page()
    page.on("console", lambda said: print(f"  {page.url}: {said.text}") if said.type == "error" else None)
    for name, path in pages.items():
        page.goto(path)
        settle(page)
        page.screenshot(path=FOLDER / f"{name}-{size}-{theme}.png")
        scrolls = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        print(f"{name}-{size}-{theme}{'  scrolls sideways' if scrolls else ''}", flush=True)
    context.close()


def settle(page: Page) -> None:
    """Until the page has drawn what it asked for; the event stream never ends, so there is no idle network."""
    page.locator("h1").first.wait_for()
    page.wait_for_timeout(1_500)


if __name__ == "__main__":
    main()
