"""Convert between our values and those of httpx2, for both clients."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import httpx2

from oncue.client.address import Address
from oncue.client.asking import Lost
from oncue.client.call import Answer, Call


class _KeyOfFolder(httpx2.Auth):
    """Looks before each request whether the server of the folder runs; that of nobody else gets its key."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        try:
            key = self._address.key_now()
        except ConnectionError as away:
            raise httpx2.ConnectError(str(away), request=request) from None
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        yield request


def http_options(address: Address, timeout: float) -> dict[str, Any]:
    """Return httpx2's options for this address. Requests to this machine never use a proxy."""
    return {
        "base_url": address.url,
        "headers": {} if address.key is None or address.folder else {"Authorization": f"Bearer {address.key}"},
        "auth": _KeyOfFolder(address) if address.folder else None,
        "timeout": timeout,
        "trust_env": not address.local,
        # Plain HTTP needs no certificates, and loading those of the system takes a tenth of a second.
        "verify": address.url.startswith("https:"),
    }


def request_of(call: Call[Any]) -> dict[str, Any]:
    headers = dict(call.headers)
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    asked = {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params) or None,
        "headers": headers,
        "content": call.body,
    }
    return asked if call.timeout is None else {**asked, "timeout": call.timeout}


def answer_of(response: httpx2.Response) -> Answer:
    """Convert a response whose body has been read."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.content)


def lost(error: httpx2.RequestError) -> Lost:
    never_arrived = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    return Lost(str(error) or type(error).__name__, sent=not never_arrived)
