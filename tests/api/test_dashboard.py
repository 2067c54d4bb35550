"""The dashboard as it is served: every view, its files, under which policy, and below any path."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.api.conftest import Desk

from oncue.api.application import Application
from oncue.api.dashboard import VIEWS, Dashboard

SCRIPT = b"console.log('a script');" * 50
PACKED = gzip.compress(SCRIPT)
INDEX = b"<!doctype html><html><head><!--base--><script src=assets/main-1.js></script></head></html>"
PAGES = Path(__file__).parents[2] / "dashboard" / "src" / "pages" / "pages.ts"


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """What a build leaves."""
    folder = tmp_path / "assets"
    folder.mkdir()
    for name, content in (
        ("main-1.js", SCRIPT),
        ("style-1.css", b"a{}"),
        ("icon-1.svg", b"<svg/>"),
        ("index.html", INDEX),
    ):
        (folder / name).write_bytes(content)
    (folder / "main-1.js.gz").write_bytes(PACKED)
    (folder / "main-1.js.br").write_bytes(b"brotli")
    (tmp_path / "secret.js").write_text("secret")
    return folder


@pytest.fixture
async def client(desk: Desk, assets: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser without a key."""
    monkeypatch.setattr("oncue.api.application.Dashboard", lambda: Dashboard(assets))
    app = Application(desk.store.engine, desk.store.clock, desk.app.api.settings)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://oncue") as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("/", "./"),
        ("/jobs", "./"),
        ("/jobs?status=paused", "./"),
        ("/jobs/123", "../"),
        ("/jobs/123/runs", "../../"),
        ("/queues/a%2Fb", "../"),
        ("/workers/7", "../"),
    ],
)
async def test_every_view_is_the_page_and_knows_how_far_the_root_is(
    client: httpx2.AsyncClient, path: str, base: str
) -> None:
    answer = await client.get(path)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.content == INDEX.replace(b"<!--base-->", f'<base href="{base}">'.encode())
    assert answer.headers["Cache-Control"] == "no-store"


async def test_no_text_becomes_code_in_the_page(client: httpx2.AsyncClient) -> None:
    policy = (await client.get("/")).headers["Content-Security-Policy"].split("; ")

    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"} <= set(policy)
    assert {"require-trusted-types-for 'script'", "trusted-types 'none'", "frame-ancestors 'none'"} <= set(policy)
    assert not re.search("unsafe|http", " ".join(policy))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/assets/main-1.js", "text/javascript; charset=utf-8"),
        ("/assets/style-1.css", "text/css; charset=utf-8"),
        ("/assets/icon-1.svg", "image/svg+xml"),
    ],
)
async def test_files_have_their_type_and_are_kept_for_ever(client: httpx2.AsyncClient, path: str, kind: str) -> None:
    answer = await client.get(path, headers={"Accept-Encoding": "identity"})

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == kind
    assert answer.headers.get_list("Cache-Control") == ["public, max-age=31536000, immutable"]
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("accepts", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("br;q=0, gzip", "gzip"),
        ("gzip;q=0.5", "gzip"),
        ("identity", None),
        ("", None),
        ("br;q=0.0,gzip;q=0", None),
    ],
)
async def test_the_smallest_encoding_that_is_accepted_is_sent(
    client: httpx2.AsyncClient, accepts: str, encoding: str | None
) -> None:
    async with client.stream("GET", "/assets/main-1.js", headers={"Accept-Encoding": accepts}) as answer:
        body = b"".join([part async for part in answer.aiter_raw()])

    assert answer.headers.get("Content-Encoding") == encoding
    assert body == {"br": b"brotli", "gzip": PACKED, None: SCRIPT}[encoding]


async def test_a_file_without_encodings_is_sent_as_it_is(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/assets/style-1.css", headers={"Accept-Encoding": "br"})

    assert (answer.content, answer.headers.get("Content-Encoding")) == (b"a{}", None)


@pytest.mark.parametrize(
    "path",
    [
        "/assets/",
        "/assets/none.js",
        "/assets/index.html",
        "/assets/main-1.js.br",
        "/assets/..%2Fsecret.js",
        "/assets/%2e%2e/secret.js",
        "/assets//etc/passwd",
        "/nowhere",
        "/jobsx",
        "/v1/nowhere",
    ],
)
async def test_nothing_else_is_served(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path)

    assert answer.status_code in (401, 404)
    assert b"secret" not in answer.content


@pytest.mark.parametrize("path", ["/", "/jobs/123", "/assets/main-1.js"])
async def test_head_has_the_headers_of_get(client: httpx2.AsyncClient, path: str) -> None:
    got, head = await client.get(path), await client.head(path)

    assert head.status_code == 200
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert head.headers["Content-Length"] == got.headers["Content-Length"]


async def test_a_page_takes_no_post(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/jobs")

    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_it_works_below_the_path_of_a_proxy(desk: Desk, client: httpx2.AsyncClient) -> None:
    """The proxy takes its prefix off; the browser, which counts from what it asked for, finds files below it."""
    page = httpx2.URL("http://proxy/tools/oncue/jobs/123")
    base = re.search(rb'<base href="(.*?)">', (await client.get("/jobs/123")).content)

    assert base is not None
    assert str(page.join(base[1].decode()).join("assets/main-1.js")) == "http://proxy/tools/oncue/assets/main-1.js"


async def test_another_build_is_served_without_a_restart(client: httpx2.AsyncClient, assets: Path) -> None:
    await client.get("/")
    (assets / "main-2.js").write_bytes(b"new")
    (assets / "index.html").write_bytes(b"new")
    os.utime(assets / "index.html", ns=(1, 1))

    assert (await client.get("/")).content == b"new"
    assert (await client.get("/assets/main-2.js")).content == b"new"


async def test_without_a_build_a_page_says_how_to_build_it(client: httpx2.AsyncClient, assets: Path) -> None:
    (assets / "index.html").unlink()
    answer = await client.get("/jobs")

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"make run" in answer.content
    assert (await client.get("/assets/main-1.js")).status_code == 404


def test_the_server_knows_where_all_views_begin() -> None:
    patterns = re.findall(r'pattern: "/([a-z]*)', PAGES.read_text())

    assert set(patterns) - {""} == set(VIEWS)
