"""What tests of the dashboard use: a user of their own, the API, and pages that are signed in and watched."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, expect
from tests.examples.server import PATIENCE, ROOT, Up

Role = Literal["admin", "member", "viewer"]

AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
PHONE = {"width": 390, "height": 844}
FOREVER = {"every": "1d", "start_at": "2100-01-01T00:00:00Z"}  # a schedule that does not come during a test

TELL_OF_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


class Api:
    """The REST API with the key of one user and role. Whatever it refuses fails the test."""

    def __init__(self, address: str, key: str) -> None:
        self.key = key
        headers = {"Authorization": f"Bearer {key}"}
        self._client = httpx2.Client(base_url=f"{address}/v1", headers=headers, timeout=PATIENCE)

    def call(self, method: str, path: str, **request: Any) -> Any:
        answer = self._client.request(method, path, **request)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def job(self, task: str = "ok", **fields: Any) -> dict[str, Any]:
        """A new job that does not run by itself, unless `schedule` says so."""
        made: dict[str, Any] = self.call("POST", "/jobs", json={"task": task, "schedule": FOREVER, **fields})
        return made

    def run(self, job: dict[str, Any], *statuses: str, **body: Any) -> dict[str, Any]:
        """A run of this job that was started now; with statuses, as it is when it has one of them."""
        run: dict[str, Any] = self.call("POST", f"/jobs/{job['job_id']}/runNow", json=body)
        return self.run_when(run["run_id"], *statuses) if statuses else run

    def run_when(self, run_id: str, *statuses: str) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while (run := self.call("GET", f"/runs/{run_id}"))["status"] not in statuses:
            assert run["end_time"] is None, run
            assert time.monotonic() < until, run
            time.sleep(0.02)
        return run

    def close(self) -> None:
        self._client.close()


class Dashboard:
    """The dashboard as one test sees it. Its user is new, so that lists contain what the test has made."""

    def __init__(self, server: Up, browser: Browser, user: str, folder: Path) -> None:
        self.server = server
        self.address = server.address
        self.user = user
        self._browser = browser
        self._folder = folder
        self._apis: dict[str, Api] = {}
        self._root = Api(server.address, server.key_file.read_text().strip())
        self._contexts: list[BrowserContext] = []
        self._problems: list[str] = []
        self._expected: list[re.Pattern[str]] = [re.compile(r"status of 401 .*/v1/session$")]
        self.requests: list[str] = []
        """The addresses of all requests of all pages, in their order."""
        self._open: set[Request] = set()

    # ---------------------------------------------------------------------------------------------- what a test uses

    def key(self, role: Role) -> dict[str, Any]:
        """A new key of the test's user."""
        made: dict[str, Any] = self._root.call("POST", "/keys", json={"user_id": self.user, "role": role})
        return made

    def api(self, role: Role = "member") -> Api:
        if role not in self._apis:
            self._apis[role] = Api(self.address, self.key(role)["key"])
        return self._apis[role]

    def stranger(self) -> Api:
        """The API with a key of another member."""
        if "stranger" not in self._apis:
            asked = {"user_id": f"{self.user}-stranger", "role": "member"}
            self._apis["stranger"] = Api(self.address, self._root.call("POST", "/keys", json=asked)["key"])
        return self._apis["stranger"]

    def open(self, path: str = "/", role: Role | None = "member", **context: Any) -> Page:
        """A page in a context of its own, which has Playwright's options `context`; signed in, unless role is None."""
        inside = self._context(**context)
        if role is not None:
            answer = inside.request.post(f"{self.address}/v1/session", data={"key": self.api(role).key})
            assert answer.ok, answer.text()
        page = inside.new_page()
        page.goto(self.address + path)
        return page

    def visit(self, page: Page, path: str) -> None:
        """Go to another view as a link does: nothing is loaded anew, which is much quicker than `page.goto`."""
        page.evaluate("(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')) }", path)

    def wait_for_answers(self, page: Page) -> None:
        """Until the server has answered whatever pages asked, and nothing more was asked then; streams never end."""
        until, calm = time.monotonic() + PATIENCE, 0
        while calm < 2:
            assert time.monotonic() < until, [one.url for one in self._open]
            page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
            calm = 0 if self._open else calm + 1

    def expect_trouble(self, pattern: str) -> None:
        """From now on this line is allowed in the console: browsers write one for every answer from 400 on."""
        self._expected.append(re.compile(pattern))

    # ----------------------------------------------------------------------------------------------- what watches it

    def _context(self, **options: Any) -> BrowserContext:
        calm: dict[str, Any] = {"reduced_motion": "reduce"}  # what moves is drawn sixty times a second
        context = self._browser.new_context(locale="en-GB", timezone_id="Europe/Berlin", **calm, **options)
        context.set_default_timeout(PATIENCE * 1000)
        context.add_init_script(TELL_OF_VIOLATIONS)
        context.on("console", self._said)
        context.on("weberror", lambda error: self._problems.append(f"uncaught: {error.error}"))
        context.on("request", self._asked)
        context.on("requestfinished", self._answered)
        context.on("requestfailed", self._answered)
        self._contexts.append(context)
        return context

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._problems.append(f"console: {message.text} {message.location.get('url', '')}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        url = urlsplit(request.url)
        if url.path != "/v1/events" and "follow=true" not in url.query:
            self._open.add(request)
        if url.scheme not in ("data", "blob") and url.hostname != "127.0.0.1":
            self._problems.append(f"a request to another host: {request.url}")

    def _answered(self, request: Request) -> None:
        self._open.discard(request)

    def take_problems(self) -> list[str]:
        """What went wrong in any page and was not expected. A test that leaves any fails."""
        self._settle()
        taken, self._problems = self._problems, []
        return [one for one in taken if not any(expected.search(one) for expected in self._expected)]

    def _settle(self) -> None:
        """Have what browsers have said up to now arrive here."""
        for page in self._pages():
            page.evaluate("1")

    def _pages(self) -> list[Page]:
        return [page for context in self._contexts for page in context.pages if not page.is_closed()]

    def keep(self) -> str:
        """Keep how it looks and what the server said, and say where."""
        kept = []
        for number, page in enumerate(self._pages(), start=1):
            path = self._folder / f"page-{number}.png"
            try:
                page.screenshot(path=path, full_page=True, timeout=5_000)
            except Error as error:
                kept.append(f"{page.url}: no screenshot: {error.message}")
            else:
                kept.append(f"{page.url}: {path}")
        log = self._folder / "server.log"
        log.write_bytes(self.server.log.read_bytes())
        return "\n".join([*kept, f"the server: {log}"])

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        for api in (self._root, *self._apis.values()):
            api.close()


def violations(page: Page, with_dark: bool = True) -> list[str]:
    """What axe finds wrong with a page as it is now, for people who cannot see it or use no mouse.

    Themes differ in nothing but colours: the whole page is checked when it is light, its colours when it is dark, too,
    unless another state of the same page has shown them.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text() + "; 1")
    dark = _violations(page, "dark", "color-contrast", "link-in-text-block") if with_dark else []
    return [*dark, *_violations(page, "light")]


def _violations(page: Page, theme: Literal["light", "dark"], *rules: str) -> list[str]:
    page.emulate_media(color_scheme=theme)
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    asked = {"resultTypes": ["violations"], **({"runOnly": {"type": "rule", "values": rules}} if rules else {})}
    found = page.evaluate("(asked) => axe.run(asked).then((result) => result.violations)", asked)
    return [f"{theme}: {one['id']}: {one['help']}: {node['html']}" for one in found for node in one["nodes"]]
