"""Convert between our values and those of httpx2, for both clients."""

from __future__ import annotations

from typing import Any

import httpx2

from oncue.client.address import Address
from oncue.client.asking import Lost
from oncue.client.call import Answer, Call


def http_options(address: Address, timeout: float) -> dict[str, Any]:
    """Return httpx2's options for this address. Requests to this machine never use a proxy."""
    return {
        "base_url": address.url,
        "headers": {} if address.key is None else {"Authorization": f"Bearer {address.key}"},
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
