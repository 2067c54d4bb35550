"""How quick the dashboard is in a real browser, on a store with millions of jobs and runs.

    python -m bench.dashboard --keep /tmp/filled                # PostgreSQL: 5,000,000 jobs, 10,000,000 ended runs
    python -m bench.dashboard --jobs 20000 --ended 50000 --rounds 1
    python -m bench.dashboard --jobs 20000 --ended 50000 --minutes 60     # instead: what an open tab gathers

The store is that of bench/calls.py. Each page is opened afresh, by an administrator, in Debian's chromium: it is ready
when all that it asks for has been answered and drawn. The first load is every byte that came over the wire until then.
A change is seen when a job that was just created by the API appears in the list. Then events of runs come as quickly as
`--changes` a second, from a stand-in for the stream within the page: how many frames are drawn, how long the longest
task takes, and how much memory is in use at the beginning and at the end.

With `--minutes` nothing but this: the Overview and the list of runs are left open for so long, with 50 changes a second
and the pulse, and every minute what they hold is written down: memory after garbage was collected, nodes, listeners.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from bench.calls import filled
from bench.creating import serving
from bench.filled_store import Sampled
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, Request, sync_playwright
from rich.console import Console
from rich.table import Table

from oncue.client import Client

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
QUIET = 0.25  # seconds without an open request: what a page asks for next, it asks for within this
PATIENCE = 30.0  # seconds
READY, VISIBLE = 1.0, 1.0  # goals, in seconds
STREAM = "/v1/events"
OPEN_CHANGES = 50  # a second, on pages that are left open

# Stands in for EventSource: sends as many events a second as it is told, of 500 runs, in twenty portions.
FLOOD = """
globalThis.flood = { perSecond: 0, sent: 0, pulse: false };
globalThis.EventSource = class extends EventTarget {
  constructor() {
    super();
    this.readyState = 1;
    setTimeout(() => this.onopen?.(new Event("open")), 0);
    setInterval(() => {
      for (let n = 0; n < flood.perSecond / 20; n++)
        this.dispatchEvent(new MessageEvent("run", { data: run(flood.sent++) }));
    }, 50);
    setInterval(() => flood.pulse && this.dispatchEvent(new MessageEvent("pulse", { data: pulse() })), 1_000);
  }
  close() {}
};
const STATUSES = ["running", "succeeded", "retrying", "dead"];
const run = (n) => JSON.stringify({
  run_id: `00000000-0000-7000-8000-${String(n % 500).padStart(12, "0")}`,
  job_id: "00000000-0000-7000-8000-000000000000",
  job_name: `changes-${n % 500}`, job_key: null, task: "task-1", queue: "default", priority: "normal",
  status: STATUSES[n % 4], trigger: "schedule", parent: null, scheduled_for: new Date().toISOString(),
  start_time: new Date().toISOString(), end_time: null, duration_ms: null, modified_time: new Date().toISOString(),
  attempt_number: 1, executor_id: null, executor_name: null, error_type: null, error_message: null, lag_ms: 3,
  progress: null, large: {}, degraded: [], attempts: [],
});
const pulse = () => JSON.stringify({
  at: new Date().toISOString(), started_per_second: 40 + Math.random() * 20, succeeded_per_second: 45,
  failed_per_second: 1, dead_per_second: 0, lag_p50_ms: 2, lag_p99_ms: 9, running: flood.sent % 40,
  due: flood.sent % 7, more: false, dead_letters: 0,
});
globalThis.frames_drawn = 0;
globalThis.longest = 0;
const count = () => { frames_drawn++; requestAnimationFrame(count); };
requestAnimationFrame(count);
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) longest = Math.max(longest, task.duration);
}).observe({ entryTypes: ["longtask"] });
"""

Row = dict[str, Any]


class Traffic:
    """What a page asks for, but for the stream, which stays open."""

    def __init__(self, page: Page) -> None:
        self.open: set[Request] = set()
        self.last_at = time.monotonic()
        self.calls = self.bytes = 0
        page.on("request", self._began)
        page.on("requestfinished", self._answered)
        page.on("requestfailed", self._ended)

    def _began(self, request: Request) -> None:
        if STREAM not in request.url:
            self.open.add(request)

    def _answered(self, request: Request) -> None:
        if request in self.open:
            sizes = request.sizes()
            self.bytes += sizes["responseBodySize"] + sizes["responseHeadersSize"]
            self.calls += 1
        self._ended(request)

    def _ended(self, request: Request) -> None:
        if request in self.open:
            self.open.discard(request)
            self.last_at = time.monotonic()

    def settled(self, page: Page) -> float:
        """Wait until nothing is asked for any more; return when the last answer came."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            page.wait_for_timeout(20)
            if self.calls and not self.open and time.monotonic() - self.last_at > QUIET:
                return self.last_at
        raise TimeoutError(f"still open after {PATIENCE} s: {[request.url for request in self.open]}")


@contextmanager
def signed_in(browser: Browser, address: str, key: str) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    answer = context.request.post(f"{address}/v1/session", data={"key": key}, headers={"Origin": address})
    assert answer.ok, answer.text()
    yield context
    context.close()


def opened(context: BrowserContext, url: str) -> Row:
    """Open a page in a tab of its own, with an empty cache, and time it."""
    page = context.new_page()
    traffic, began = Traffic(page), time.monotonic()
    page.goto(url, wait_until="commit")
    ready = traffic.settled(page) - began
    drawn = page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    assert drawn
    found = {"ready_s": ready, "calls": traffic.calls, "kilobytes": traffic.bytes / 1_000}
    page.close()
    return found


def pages(sampled: Sampled) -> dict[str, str]:
    ids = sampled.ids["large"]
    return {
        "overview": "/",
        "jobs": "/jobs",
        "jobs by name": "/jobs?name_prefix=nightly-00",
        "job": f"/jobs/{ids['recurring'][0]}",
        "runs": "/runs",
        "runs, dead": "/runs?status=dead",
        "run": f"/runs/{ids['dead'][0]}",
        "upcoming": "/upcoming",
        "failures": "/failures",
        "queues and workers": "/queues",
        "new": "/new",
        "admin": "/admin",
    }


def time_pages(browser: Browser, address: str, key: str, sampled: Sampled, rounds: int) -> list[Row]:
    rows = []
    for name, path in pages(sampled).items():
        found = []
        for _ in range(rounds):
            with signed_in(browser, address, key) as context:
                found.append(opened(context, address + path))
        slowest = max(one["ready_s"] for one in found)
        rows.append(
            {
                "page": name,
                **found[0],
                "ready_s": statistics.median(one["ready_s"] for one in found),
                "slowest_s": slowest,
            }
        )
    return rows


def time_changes(context: BrowserContext, address: str, key: str, rounds: int) -> Row:
    """Create jobs while the list is shown; how long until each is there."""
    page, took = context.new_page(), []
    traffic = Traffic(page)
    page.goto(f"{address}/jobs", wait_until="commit")
    traffic.settled(page)
    with Client(address, key) as client:
        for _ in range(rounds):
            name, began = f"seen-{uuid4().hex[:8]}", time.monotonic()
            client.jobs.create(task="task-1", name=name, schedule="every 1h", payload={"n": 1})
            page.get_by_text(name).first.wait_for(timeout=PATIENCE * 1_000)
            took.append(time.monotonic() - began)
    page.close()
    return {"median_s": statistics.median(took), "slowest_s": max(took)}


@contextmanager
def tab(context: BrowserContext, url: str, changes: int) -> Iterator[tuple[Page, CDPSession]]:
    """A page on which so many changes a second come in, and how to ask what it holds."""
    page = context.new_page()
    page.add_init_script(FLOOD)
    traffic = Traffic(page)
    page.goto(url, wait_until="commit")
    traffic.settled(page)
    page.evaluate(f"flood.perSecond = {changes}")
    page.wait_for_timeout(2_000)  # what is built once is built
    yield page, context.new_cdp_session(page)
    page.close()


def flooded(context: BrowserContext, address: str, path: str, changes: int, seconds: int) -> Row:
    with tab(context, address + path, changes) as (page, session):
        return _flooded(page, session, seconds)


def _flooded(page: Page, session: CDPSession, seconds: int) -> Row:
    before = held(session)["megabytes"]
    page.evaluate("frames_drawn = longest = 0")
    sent = page.evaluate("flood.sent")
    page.wait_for_timeout(seconds * 1_000)
    frames, longest, now = page.evaluate("[frames_drawn, longest, flood.sent]")
    found = {"changes_per_s": (now - sent) / seconds, "frames_per_s": frames / seconds, "longest_task_ms": longest}
    return found | {"megabytes_before": before, "megabytes_after": held(session)["megabytes"]}


def held(session: CDPSession) -> dict[str, float]:
    """What a page holds, without garbage."""
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: float(one["value"]) for one in session.send("Performance.getMetrics")["metrics"]}
    return {
        "megabytes": metrics["JSHeapUsedSize"] / 1e6,
        "nodes": metrics["Nodes"],
        "listeners": metrics["JSEventListeners"],
    }


def leave_open(address: str, key: str, minutes: int) -> None:
    """Print what two pages hold, every minute, as it is known: an hour is long."""
    with sync_playwright() as playwright, ExitStack() as stack:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        stack.callback(browser.close)
        tabs = {}
        for name, path in (("overview", "/"), ("runs", "/runs")):  # in browsers of their own: tabs share a stream
            context = stack.enter_context(signed_in(browser, address, key))
            tabs[name] = stack.enter_context(tab(context, address + path, OPEN_CHANGES))
            tabs[name][0].evaluate("flood.pulse = true")
        print("minute  page         MB    nodes  listeners")
        for minute in range(minutes + 1):
            for name, (page, session) in tabs.items():
                if minute:
                    page.wait_for_timeout(60_000 / len(tabs))
                found = held(session)
                figures = f"{found['megabytes']:6.2f} {found['nodes']:8.0f} {found['listeners']:10.0f}"
                print(f"{minute:6} {name:9} {figures}", flush=True)


def measure(address: str, key: str, sampled: Sampled, options: argparse.Namespace) -> dict[str, Any]:
    with sync_playwright() as playwright, ExitStack() as stack:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        stack.callback(browser.close)
        rows = time_pages(browser, address, key, sampled, options.rounds)
        context = stack.enter_context(signed_in(browser, address, key))
        return {
            "pages": rows,
            "a change": time_changes(context, address, key, 2 * options.rounds),
            "flood": {
                path: flooded(context, address, path, options.changes, options.seconds) for path in ("/runs", "/")
            },
        }


def show(found: dict[str, Any]) -> None:
    console, table = Console(), Table("page", "ready, s", "slowest", "calls", "KB of first load")
    for row in found["pages"]:
        figures = (f"{row['ready_s']:.2f}", f"{row['slowest_s']:.2f}", str(row["calls"]), f"{row['kilobytes']:.0f}")
        table.add_row(row["page"], *figures, style="red" if row["ready_s"] > READY else None)
    console.print(table)
    change = found["a change"]
    console.print(f"A change is seen after {change['median_s']:.2f} s, the slowest after {change['slowest_s']:.2f} s.")
    for path, flood in found["flood"].items():
        console.print(path, {name: round(value, 1) for name, value in flood.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--jobs", type=int, default=5_000_000)
    parser.add_argument("--ended", type=int, default=10_000_000)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="use the filled store there, or keep it there")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--changes", type=int, default=2_000, help="a second")
    parser.add_argument("--seconds", type=int, default=20, help="of changes")
    parser.add_argument("--minutes", type=int, default=0, help="that two pages are left open, and nothing else")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with ExitStack() as stack:
        url, sampled = stack.enter_context(filled(options.engine, options, lambda *_: None))
        data = stack.enter_context(TemporaryDirectory())
        served = stack.enter_context(serving(url, data, 1))
        address, key = served.addresses[0], sampled.keys["admin"]
        if options.minutes:
            leave_open(address, key, options.minutes)
            return
        found = measure(address, key, sampled, options)
    show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
