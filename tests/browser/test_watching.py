"""That no trouble in a page goes unnoticed: each kind of it, made on purpose."""

import time

from tests.browser.dashboard import Dashboard
from tests.examples.server import PATIENCE

TROUBLE = {
    "console: on purpose": "console.error('on purpose')",
    "uncaught: thrown": "setTimeout(() => { throw new Error('thrown') })",
    "content security policy: style-src-attr inline": "document.body.setAttribute('style', 'color: red')",
    "content security policy: connect-src": "void fetch('https://example.org/').catch(() => 0)",
    "another host: http://localhost:1/": "open('http://localhost:1/')",
    "status of 404": "void fetch('/v1/nothing')",
}


def test_all_trouble_is_noticed(dashboard: Dashboard) -> None:
    page = dashboard.open("/jobs")
    assert dashboard.take_problems() == []
    for script in TROUBLE.values():
        page.evaluate(script)

    missing, until = set(TROUBLE), time.monotonic() + PATIENCE
    while missing and time.monotonic() < until:
        seen = "\n".join(dashboard.take_problems())
        missing = {kind for kind in missing if kind not in seen}
    assert not missing
    dashboard.expect_trouble("")  # some of it comes twice
