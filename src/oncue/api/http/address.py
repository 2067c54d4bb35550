"""Take the addresses that this process listens on, before it opens a database. Needs no web server."""

from __future__ import annotations

import errno
import ipaddress
import socket
from contextlib import nullcontext

from oncue.domain.errors import Invalid
from oncue.settings import Settings

_EVERY = ("0.0.0.0", "::", "")  # all addresses of this machine


def take_address(settings: Settings) -> socket.socket:
    """Bind the API's address without listening: connections are refused until a server listens.

    Invalid: metrics are to have the same address, where only one of the two would answer.
    """
    if settings.metrics_port and settings.metrics_port == settings.port and _overlap(settings):
        raise Invalid.of("metrics_port", "same_port", "is the API's own port; leave it out, or choose another")
    return _bound(settings.host, settings.port, "host", "port")


def url_of(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def take_metrics_address(settings: Settings) -> socket.socket | nullcontext[None]:
    """Bind the address for metrics. Nothing, if they have no port of their own.

    Invalid: other machines could read them without a token.
    """
    if not settings.metrics_port:
        if settings.metrics_open:
            raise Invalid.of("metrics_open", "no_port", "needs --metrics-port: the API's port always asks for a key")
        return nullcontext()
    if not (_is_loopback(settings.metrics_host) or settings.metrics_token_file or settings.metrics_open):
        _check_host(settings.metrics_host, "metrics_host")
        message = (
            f"{settings.metrics_host} is reachable from other machines; set --metrics-token-file, or serve metrics to "
            "every client with --metrics-open"
        )
        raise Invalid.of("metrics_host", "no_token", message)
    return _bound(settings.metrics_host, settings.metrics_port, "metrics_host", "metrics_port")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _overlap(settings: Settings) -> bool:
    hosts = {"127.0.0.1" if host == "localhost" else host for host in (settings.host, settings.metrics_host)}
    return len(hosts) == 1 or not hosts.isdisjoint(_EVERY)


def _check_host(host: str, field: str) -> None:
    """Raise Invalid if this machine does not have the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as door:
        try:
            door.bind((host, 0))
        except OSError as refused:
            raise _cannot_listen(host, field, refused) from None


def _cannot_listen(host: str, field: str, refused: OSError) -> Invalid:
    why = refused.strerror
    if isinstance(refused, socket.gaierror):
        why = "no such host name or address; check the spelling"
    elif refused.errno == errno.EADDRNOTAVAIL:
        why = "it is not an address of this machine"
    return Invalid.of(field, "cannot_listen", f"cannot listen on {host}: {why}")


def _bound(host: str, port: int, host_field: str, port_field: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio sets no TCP_NODELAY
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        door.set_inheritable(False)
    except OSError as refused:
        door.close()
        if refused.errno == errno.EADDRINUSE:
            option = f"--{port_field.replace('_', '-')}"
            problem = f"{port} is in use on {host}; stop the other program, or choose another {option}"
            raise Invalid.of(port_field, "in_use", problem) from None
        raise _cannot_listen(host, host_field, refused) from None
    return door
