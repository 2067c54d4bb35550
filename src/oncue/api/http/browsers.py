"""Requests of browsers: the cookie of a session, and that no other site can use it."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.requests import Request

from oncue.api.http.answers import Refused
from oncue.domain.instants import SECOND, Duration

COOKIE = "oncue_session"
_READS = frozenset({"GET", "HEAD"})
_FOREIGN = (
    "This request does not come from a page of this server. Use the server's own address in the browser, or send an API"
    " key with the header Authorization."
)


class Browsers:
    """Decides by the address that users reach the server at, the setting `public_url`, and never by a proxy's headers.

    Any client can write these headers. What the address says cannot be forged: with https the cookie is `Secure`.
    """

    def __init__(self, public_url: str) -> None:
        parts = urlsplit(public_url.lower())
        self._origin = f"{parts.scheme}://{parts.netloc}" if parts.netloc else None
        self._https = parts.scheme == "https"

    def token(self, request: Request) -> str | None:
        """Return what the session cookie of a request says. With https, other hosts of the domain cannot set it."""
        return request.cookies.get(self._name(request))

    def cookie(self, request: Request, token: str, lasts: Duration) -> str:
        """Return the header that sets the cookie; with an empty token and 0, the one that removes it."""
        secure = "; Secure" if self._is_secure(request) else ""
        return f"{self._name(request)}={token}; Path=/; Max-Age={lasts // SECOND}; HttpOnly; SameSite=Strict{secure}"

    def check(self, request: Request, *, signs_in: bool = False) -> None:
        """Refuse a request with a cookie that another site may have caused.

        A browser says with `Sec-Fetch-Site` where a request comes from, an older one with `Origin`. Signing in uses no
        cookie: there a program may leave out both.
        """
        site = request.headers.get("sec-fetch-site")
        if request.method in _READS:
            if site not in (None, "same-origin", "none"):
                raise Refused(HTTPStatus.FORBIDDEN, _FOREIGN)
            return
        origin = request.headers.get("origin")
        is_program = signs_in and site is None and origin is None
        if not (is_program or site == "same-origin" or (site is None and self._is_own(origin, request))):
            raise Refused(HTTPStatus.FORBIDDEN, _FOREIGN)

    def _is_own(self, origin: str | None, request: Request) -> bool:
        if origin is None:
            return False
        try:
            parts = urlsplit(origin.lower())
        except ValueError:  # such as http://[
            return False
        if self._origin is not None and f"{parts.scheme}://{parts.netloc}" == self._origin:
            return True
        if self._is_secure(request) and parts.scheme != "https":
            return False
        return bool(parts.netloc) and parts.netloc == request.headers.get("host", "").lower()

    def _is_secure(self, request: Request) -> bool:
        return self._https or request.scope["scheme"] == "https"

    def _name(self, request: Request) -> str:
        return f"__Host-{COOKIE}" if self._is_secure(request) else COOKIE
