"""Decide which URLs and addresses oncue calls for a user. This guards networks that only the server can reach (SSRF).

`check_url` checks a URL when a job is created and before every call; `refusal` checks an address, also each one that a
name resolves to. Callers connect to the returned value, never to the text they passed in: two parsers of one URL
disagree sooner or later.

Addresses are checked against our own table: what `ipaddress` calls global differs between Python's patch releases, and
includes relays, multicast and the metadata services of clouds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NoReturn, TypeAlias
from urllib.parse import quote

import msgspec

from oncue.domain.errors import Invalid

Address: TypeAlias = IPv4Address | IPv6Address
Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]

# The first match gives the reason, so specific networks come before general ones.
_REFUSED = tuple(
    (ip_network(network), why)
    for why, networks in (
        (
            "a metadata service",
            "169.254.169.254 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254 fd20:ce::254",
        ),
        ("unspecified", "0.0.0.0/8 ::/128"),
        ("loopback", "127.0.0.0/8 ::1/128"),
        ("private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"),
        ("shared by a carrier's customers", "100.64.0.0/10"),
        ("link-local", "169.254.0.0/16 fe80::/10"),
        ("for documentation", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"),
        ("for benchmarks", "198.18.0.0/15 2001:2::/48"),
        ("multicast", "224.0.0.0/4 ff00::/8"),
        ("broadcast", "255.255.255.255"),
        ("reserved", "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23"),
    )
    for network in networks.split()
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")  # all assigned addresses; the rest is special or unused
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")

# Users learn no more about a name than this: what it resolves to in private networks stays secret.
NOT_CALLED = "has only private or reserved addresses, and http_allow does not list them"

_METADATA = (ip_address("169.254.169.254"),)
_STANDS_FOR: dict[str, tuple[Address, ...]] = {
    "localhost": (ip_address("127.0.0.1"), ip_address("::1")),
    "metadata": _METADATA,
    "metadata.google.internal": _METADATA,
}


def parse_networks(allow: Sequence[str], path: str = "http_allow") -> Networks:
    """Parse the networks of a setting, like `10.1.0.0/16`; a single address is a network of one."""
    try:
        return tuple(ip_network(network) for network in allow)
    except ValueError as wrong:
        raise Invalid.of(path, "bad_network", f"{wrong}; write a network like 10.1.0.0/16 or fd12:3456::/32") from None


def refusal(address: Address, allow: Networks) -> str | None:
    """Return why this address may not be called; None: it may. Addresses in `allow` may always be called.

    An IPv6 address that a gateway translates to IPv4 is checked as that IPv4 address, also against `allow`.
    """
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return f"{address} has a zone, so it is valid only on this host's links"
        if inner := _inside(address):
            why = next(filter(None, (refusal(each, allow) for each in inner)), None)
            return f"{address} leads to an IPv4 address: {why}" if why else None
    if any(address in network for network in allow):
        return None
    for network, why in _REFUSED:
        if address in network:
            return f"{address} is {why}"
    if isinstance(address, IPv6Address) and address not in _GLOBAL_IPV6:
        return f"{address} is reserved"
    return None


def _inside(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that a packet may reach: mapped, NAT64, 6to4, Teredo (server and client)."""
    number = int(address)
    if address in _NAT64 or (address in _NAT64_LOCAL and not number >> 32 & 0xFFFF_FFFF):
        # Local prefixes may put the IPv4 address further left, where these 32 bits are not zero: these are reserved.
        return (IPv4Address(number & 0xFFFF_FFFF),)
    return address.teredo or tuple(filter(None, (address.ipv4_mapped, address.sixtofour)))


class CheckedUrl(msgspec.Struct, frozen=True):
    """A URL in parts, in the spelling that was checked. `host` is ASCII: a name, or an address without brackets."""

    scheme: str
    host: str
    port: int
    path: str
    query: str | None

    @property
    def target(self) -> str:
        """Return the target of the request line: path and query."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """Return the URL for messages: without the query, which may hold secrets."""
        return f"{self.scheme}://{self.authority}{self.path}"


_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(https?)://([^/?]*)([^?]*)(?:\?(.*))?", re.IGNORECASE | re.ASCII)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_LONGEST_NAME = 253
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_LOOKS_LIKE_A_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NUMBER = re.compile(r"0x(?P<hex>[0-9a-f]+)|0(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*)")
_KEPT_IN_TARGETS = "!$%&'()*+,/:;=?@[]~"


def check_url(url: str, allow: Networks, path: str = "payload.url") -> CheckedUrl:
    """Check a URL as far as possible without resolving its name. Invalid says why it may not be called."""
    if not url.isprintable() or " " in url or "\\" in url:
        _refuse(path, "has a space, a backslash or an invisible character; percent-encode it")
    if "#" in url:
        _refuse(path, "has a fragment (#…), which servers never receive; remove it")
    if not (found := _URL.fullmatch(url)):
        _refuse(path, "must start with http:// or https://")
    scheme, authority, rest, query = found.groups()
    if "@" in authority:
        _refuse(path, "has a user or password before the host; send them in a header")
    if not (parts := _AUTHORITY.fullmatch(authority)):
        _refuse(path, "has no valid host; write https://host/ or https://host:port/")
    port = int(parts[2]) if parts[2] else _PORTS[scheme.lower()]
    if not 1 <= port <= 65_535:
        _refuse(path, "has a port outside 1 to 65535")
    return CheckedUrl(
        scheme=scheme.lower(),
        host=_host(parts[1], allow, path),
        port=port,
        path=quote(rest or "/", safe=_KEPT_IN_TARGETS),
        query=None if query is None else quote(query, safe=_KEPT_IN_TARGETS),
    )


def _host(text: str, allow: Networks, path: str) -> str:
    """Normalise and check a host."""
    name = text if text.startswith("[") else _name(text, path)
    address = _literal(name, path)
    known = (address,) if address else _STANDS_FOR.get("localhost" if name.endswith(".localhost") else name, ())
    reasons = [refusal(each, allow) for each in known]
    if reasons and None not in reasons:
        if address is None:
            raise Invalid.of(path, "refused_address", f"the host of the URL {NOT_CALLED}")
        raise Invalid.of(path, "refused_address", f"{reasons[0]}, and http_allow does not list it")
    return str(address) if address else name


def _name(text: str, path: str) -> str:
    """Normalise a host without brackets: ASCII, lower case, no trailing dot."""
    name = (text.lower() if text.isascii() else _in_ascii(text)).removesuffix(".")
    if len(name) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        _refuse(path, "has a host that is not a valid DNS name")
    return name


def _in_ascii(text: str) -> str:
    """Encode `müller.de` for resolvers; digits and dots of other scripts become plain. '': the name is invalid."""
    import idna  # here, because its tables load slowly and few URLs need them

    try:
        return idna.encode(text, uts46=True).decode("ascii").lower()
    except idna.IDNAError:
        return ""


def _literal(name: str, path: str) -> Address | None:
    """Parse a host that is an address, in any notation that some resolver accepts; None: it is a name."""
    if name.startswith("["):
        try:
            return IPv6Address(name[1:-1])
        except ValueError:
            _refuse(path, "has brackets without a valid IPv6 address in them")
    parts = name.split(".")
    if not _LOOKS_LIKE_A_NUMBER.fullmatch(parts[-1]):
        return None
    numbers = [_number(part) for part in parts]
    *front, last = numbers
    if len(numbers) > 4 or any(number > 255 for number in front) or not 0 <= last < 256 ** (5 - len(numbers)):
        _refuse(path, "has a host that ends in a number but is not an IPv4 address")
    return IPv4Address(sum(number << 8 * (3 - place) for place, number in enumerate(front)) + last)


def _number(text: str) -> int:
    """Parse decimal, 0x… or octal, as inet_aton does; other text becomes a number that is too large."""
    match = _NUMBER.fullmatch(text)
    if not match:
        return 2**32
    if match["hex"]:
        return int(match["hex"], 16)
    return int(match["octal"], 8) if match["octal"] else int(match["decimal"])


def _refuse(path: str, why: str) -> NoReturn:
    raise Invalid.of(path, "bad_url", f"the URL {why}")
