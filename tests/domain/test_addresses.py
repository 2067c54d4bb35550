"""Which URLs and addresses may be called on a user's behalf."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.addresses import CheckedUrl, check_url, parse_networks, refusal
from oncue.domain.errors import Invalid

NOTHING = parse_networks(())

REFUSED_IPV4 = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "168.63.129.16/32", "100.100.100.200/32"),
)
REFUSED_IPV6 = (
    *("::/128", "::1/128", "::/96", "::ffff:0:0:0/96", "100::/64", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    *("2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "3fff::/20", "4000::/3", "fd00:ec2::254/128"),
)


def addresses_in(*networks: str) -> st.SearchStrategy[int]:
    """Any number that is an address of these networks, their first and last ones more often than others."""
    ranges = [ip_network(network) for network in networks]
    return st.sampled_from(ranges).flatmap(
        lambda n: (
            st.integers(int(n.network_address), int(n.broadcast_address))
            | st.sampled_from([int(n.network_address), int(n.broadcast_address)])
        )
    )


def problem_of(url: str, *allow: str) -> str:
    with pytest.raises(Invalid) as refused:
        check_url(url, parse_networks(allow))
    [problem] = refused.value.problems
    assert problem.path == "payload.url"
    return problem.code


def spellings(address: IPv4Address) -> list[str]:
    """Every way to write an IPv4 address that some program takes."""
    number, parts = int(address), list(address.packed)
    a, b, c, d = parts
    wide, high, low = int.from_bytes(address.packed[1:]), number >> 16, number & 0xFFFF
    return [
        *(f"{a}.{b}.{c}.{d}", f"{a}.{b}.{c}.{d}.", f"{number}", f"{a}.{wide}", f"{a}.{b}.{low}"),
        *(f"{number:#x}", f"{number:#X}", f"0{number:o}", f"0x{number:016x}", ".".join(f"{part:#x}" for part in parts)),
        *(".".join(f"0{part:o}" for part in parts), ".".join(f"000{part:03o}" for part in parts), f"{a:#x}.{wide}"),
        *(f"{a}。{b}．{c}｡{d}", "".join(chr(0xFF10 + int(i)) if i.isdigit() else i for i in str(address))),
        *(
            f"[::ffff:{address}]",
            f"[0:0:0:0:0:FFFF:{high:x}:{low:x}]",
            f"[64:ff9b::{address}]",
            f"[64:ff9b:1::{address}]",
        ),
        *(f"[64:ff9b:1:abcd::{address}]", f"[2002:{high:x}:{low:x}::1]", f"[::{address}]", f"[::ffff:0:{address}]"),
        f"[2001:0:808:808:0:0:{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}]",
        f"[2001:0:{high:x}:{low:x}:0:0:{0x0808 ^ 0xFFFF:x}:{0x0808 ^ 0xFFFF:x}]",
    ]


class TestAnAddress:
    @given(addresses_in(*REFUSED_IPV4).map(IPv4Address))
    def test_of_a_refused_ipv4_network_is_refused(self, address: IPv4Address) -> None:
        assert (refusal(address, NOTHING) or "").startswith(str(address))

    @given(addresses_in(*REFUSED_IPV6).map(IPv6Address))
    def test_of_a_refused_ipv6_network_is_refused(self, address: IPv6Address) -> None:
        assert (refusal(address, NOTHING) or "").startswith(str(address))

    @pytest.mark.parametrize(
        ("address", "why"),
        [
            ("169.254.169.254", "a metadata service"),
            ("fd00:ec2::254", "a metadata service"),
            ("168.63.129.16", "a metadata service"),
            ("100.100.100.200", "a metadata service"),
            ("127.0.0.1", "loopback"),
            ("10.1.2.3", "private"),
            ("fd12::1", "private"),
            ("fec0::1", "private"),
            ("100.64.0.1", "shared by a carrier's customers"),
            ("169.254.1.1", "link-local"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("5f00::1", "reserved"),
        ],
    )
    def test_is_refused_with_the_reason(self, address: str, why: str) -> None:
        assert refusal(ip_address(address), NOTHING) == f"{address} is {why}"

    @pytest.mark.parametrize(
        "address",
        [
            *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
            *("128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255"),
            *("192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
            *("223.255.255.255", "168.63.129.15", "168.63.129.17", "2606:4700::1111", "2001:4860:4860::8888"),
            *("2001:200::1", "2a00::1", "3ffe::1", "2001:db7::1", "2001:db9::1"),
            *(
                "::ffff:8.8.8.8",
                "64:ff9b::8.8.8.8",
                "64:ff9b:1::8.8.8.8",
                "2002:808:808::1",
                "2001:0:808:808::f7f7:f7f7",
            ),
        ],
    )
    def test_of_the_internet_is_not_refused(self, address: str) -> None:
        assert refusal(ip_address(address), NOTHING) is None

    def test_with_a_zone_is_refused_whatever_is_allowed(self) -> None:
        assert "has a zone" in (refusal(IPv6Address("fe80::1%eth0"), parse_networks(["fe80::/10"])) or "")

    def test_inside_another_is_named_with_the_one_that_was_dialled(self) -> None:
        why = refusal(ip_address("64:ff9b::a9fe:a9fe"), NOTHING)

        assert why == "64:ff9b::a9fe:a9fe leads to an IPv4 address: 169.254.169.254 is a metadata service"

    @pytest.mark.parametrize("further_left", ["64:ff9b:1:7f00:0:100:808:808", "64:ff9b:1:a9fe:a9:fe00:808:808"])
    def test_that_a_local_nat64_gateway_may_read_in_another_way_is_refused(self, further_left: str) -> None:
        assert refusal(ip_address(further_left), NOTHING) is not None


class TestAllowing:
    @given(addresses_in(*REFUSED_IPV4, *REFUSED_IPV6).map(ip_address))
    def test_a_network_allows_its_addresses_whatever_they_are(self, address: IPv4Address | IPv6Address) -> None:
        assert refusal(address, parse_networks([str(address)])) is None

    def test_a_network_allows_no_others(self) -> None:
        allow = parse_networks(["10.1.0.0/16"])
        edges = [ip_address(edge) for edge in ("10.0.255.255", "10.1.0.0", "10.1.255.255", "10.2.0.0")]

        assert [refusal(edge, allow) is None for edge in edges] == [False, True, True, False]

    def test_all_of_ipv6_does_not_allow_the_ipv4_addresses_inside(self) -> None:
        assert refusal(ip_address("::ffff:127.0.0.1"), parse_networks(["::/0"])) is not None
        assert refusal(ip_address("::1"), parse_networks(["::/0"])) is None

    def test_an_ipv4_network_allows_its_addresses_inside_ipv6_ones(self) -> None:
        assert refusal(ip_address("::ffff:10.1.2.3"), parse_networks(["10.1.0.0/16"])) is None

    def test_a_url_in_an_allowed_network_may_be_called(self) -> None:
        assert check_url("http://10.1.2.3/", parse_networks(["10.1.0.0/16"])).host == "10.1.2.3"
        assert check_url("http://169.254.169.254/", parse_networks(["169.254.169.254"])).host == "169.254.169.254"

    @pytest.mark.parametrize("allow", ["127.0.0.1/32", "::1"])
    def test_localhost_is_allowed_with_either_of_its_addresses(self, allow: str) -> None:
        assert check_url("http://localhost:8000/", parse_networks([allow])).host == "localhost"

    def test_nothing_is_allowed_but_addresses(self) -> None:
        everything = ("0.0.0.0/0", "::/0")

        assert problem_of("http://me:secret@10.0.0.1/", *everything) == "bad_url"
        assert problem_of("ftp://10.0.0.1/", *everything) == "bad_url"
        assert problem_of("http://[fe80::1%25eth0]/", *everything) == "refused_address"

    @pytest.mark.parametrize("network", ["10.1.2.3/16", "10.0.0.0/33", "intranet", "", "10.0.0.0-10.0.0.9"])
    def test_what_is_not_a_network_is_refused_by_name(self, network: str) -> None:
        with pytest.raises(Invalid) as refused:
            parse_networks(["127.0.0.1", network])

        [problem] = refused.value.problems
        assert (problem.path, problem.code) == ("http_allow", "bad_network")


class TestAUrl:
    @given(addresses_in(*REFUSED_IPV4).map(IPv4Address))
    def test_with_a_refused_address_is_refused_in_every_spelling(self, address: IPv4Address) -> None:
        for spelling in spellings(address):
            assert problem_of(f"http://{spelling}/") == "refused_address", spelling

    @given(addresses_in(*REFUSED_IPV6).map(IPv6Address))
    def test_with_a_refused_ipv6_address_is_refused_in_every_spelling(self, address: IPv6Address) -> None:
        for spelling in (address.compressed, address.exploded, address.compressed.upper()):
            assert problem_of(f"https://[{spelling}]:8443/") == "refused_address", spelling

    @pytest.mark.parametrize("spelling", spellings(IPv4Address("8.8.4.4"))[:15])
    def test_with_an_address_of_the_internet_is_called_by_its_plain_spelling(self, spelling: str) -> None:
        assert check_url(f"http://{spelling}/", NOTHING).host == "8.8.4.4"

    @pytest.mark.parametrize(
        "host",
        [
            *("127.1", "0x7f.1", "0177.0.0.1", "2130706433", "017700000001", "0x7f000001", "①②⑦.0.0.1", "127。0。0。1"),
            *("0", "0x0", "00", "localhost", "LOCALHOST", "localhost.", "a.localhost", "ⓛocalhost", "a.b.LocalHost."),
            *(
                "metadata",
                "metadata.google.internal",
                "Metadata.Google.Internal.",
                "169.254.169.254",
                "[fd00:ec2::254]",
            ),
            *("[::1]", "[::]", "[fe80::1%eth0]", "[fe80::1%25eth0]", "[2606:4700::1%25eth0]", "[::ffff:7f00:1]"),
        ],
    )
    def test_that_leads_inside_is_refused(self, host: str) -> None:
        assert problem_of(f"http://{host}/") == "refused_address"
        assert problem_of(f"https://{host}:8443?x=1") == "refused_address"

    @pytest.mark.parametrize(
        "url",
        [
            *(
                "",
                "example.org",
                "//example.org/",
                "/path",
                "http:",
                "http:/",
                "http://",
                "http:///path",
                "http:example.org",
            ),
            *(
                "ftp://example.org/",
                "file:///etc/passwd",
                "gopher://example.org/",
                "javascript:alert(1)",
                "httpſ://a.org/",
            ),
            *(
                "http://me@example.org/",
                "http://me:pw@example.org/",
                "http://:@example.org/",
                "http://8.8.8.8@127.0.0.1/",
            ),
            *("http://example.org\\@127.0.0.1/", "http:\\\\example.org/", "http://example.org/a\\b"),
            *("http://example.org/ ", " http://example.org/", "http://exa mple.org/", "http://example.org/\r\nX: y"),
            *(
                "http://example.org/\x00",
                "http://example.org/\t",
                "http://exam\u00adple.org/",
                "http://example.org/\u202e",
            ),
            *("http://example.org/\ud800", "http://example.org\u3000/", "http://example.org/\x7f"),
            *("http://example.org/#x", "http://example.org#@127.0.0.1/", "http://?x", "http://:80/"),
            *(
                "http://example.org:/",
                "http://example.org:0/",
                "http://example.org:65536/",
                "http://example.org:99999999/",
                f"http://example.org:{'9' * 5_000}/",
            ),
            *(
                "http://example.org:80:80/",
                "http://example.org:-1/",
                "http://example.org:８０/",
                "http://example.org：80/",
            ),
            *(
                "http://example.org:8o/",
                "http://[::1/",
                "http://::1/",
                "http://[]/",
                "http://[1.1.1.1]/",
                "http://[v1.a]/",
            ),
            *("http://[2606:4700::1]x/", "http://[２606:4700::1]/", "http://[::1]]/", "http://x[::1]/"),
            *("http://1.2.3.4.5/", "http://256.1.1.1/", "http://1.1.1.256/", "http://4294967296/", "http://08.8.8.8/"),
            *(
                "http://0x/",
                "http://1.2.3.0x/",
                "http://0xg.1.1.1/",
                "http://example.1/",
                "http://1..1/",
                "http://1.1.65536/",
            ),
            *("http://example..org/", "http://.example.org/", "http://./", "http://example.org../", "http://-a.org/"),
            *("http://a-.org/", "http://127%2e0.0.1/", "http://ex%61mple.org/", "http://a,b.org/", "http://a*b.org/"),
            *("http://ex／ample.org/", "http://a＠b.org/", "http://℀.org/", "http://。/", f"http://{'a' * 64}.org/"),
            *(
                f"http://{'a.' * 127}org/",
                f"http://{'9' * 5_000}/",
                f"http://{'ü' * 5_000}.org/",
                f"http://{'ü' * 60}.org/",
            ),
        ],
    )
    def test_that_cannot_be_trusted_is_refused(self, url: str) -> None:
        assert problem_of(url) == "bad_url"

    @pytest.mark.parametrize(
        ("url", "host", "port", "target"),
        [
            ("http://example.org", "example.org", 80, "/"),
            ("HTTPS://Example.ORG", "example.org", 443, "/"),
            ("https://example.org.:8443/a/b?c=d&e", "example.org", 8443, "/a/b?c=d&e"),
            ("http://example.org?", "example.org", 80, "/?"),
            ("http://example.org?a=/@:?b", "example.org", 80, "/?a=/@:?b"),
            ("http://example.org/@me:you//x/../y", "example.org", 80, "/@me:you//x/../y"),
            ("http://example.org/ä/%C3%A4?ü=€", "example.org", 80, "/%C3%A4/%C3%A4?%C3%BC=%E2%82%AC"),
            ('http://example.org/"<>?`{}|^', "example.org", 80, "/%22%3C%3E?%60%7B%7D%7C%5E"),
            ("http://müller.example/", "xn--mller-kva.example", 80, "/"),
            ("http://ＥＸＡＭＰＬＥ。org/", "example.org", 80, "/"),
            ("http://my_service.internal:8080/", "my_service.internal", 8080, "/"),
            ("http://intranet/", "intranet", 80, "/"),
            ("http://notlocalhost/", "notlocalhost", 80, "/"),
            ("http://1.example.org/", "1.example.org", 80, "/"),
            ("http://0x7f.example.org/", "0x7f.example.org", 80, "/"),
            ("https://[2606:4700:0::1111]:443/x", "2606:4700::1111", 443, "/x"),
            (f"http://{'a' * 63}.org/", f"{'a' * 63}.org", 80, "/"),
        ],
    )
    def test_that_is_fine_comes_back_in_parts(self, url: str, host: str, port: int, target: str) -> None:
        checked = check_url(url, NOTHING)

        assert (checked.host, checked.port, checked.target) == (host, port, target)
        assert checked.scheme == url.lower().partition(":")[0]

    @pytest.mark.parametrize(
        ("url", "authority", "shown"),
        [
            ("http://example.org:80/a?token=x", "example.org", "http://example.org/a"),
            ("https://example.org:80/?", "example.org:80", "https://example.org:80/"),
            ("https://[2606:4700::1]?token=x", "[2606:4700::1]", "https://[2606:4700::1]/"),
            ("http://[2606:4700::1]:8080/b", "[2606:4700::1]:8080", "http://[2606:4700::1]:8080/b"),
        ],
    )
    def test_is_shown_without_its_query(self, url: str, authority: str, shown: str) -> None:
        checked = check_url(url, NOTHING)

        assert (checked.authority, checked.shown) == (authority, shown)

    @given(st.text())
    def test_of_any_kind_is_either_fine_or_invalid(self, text: str) -> None:
        for url in (text, f"http://{text}/", f"http://example.org/{text}"):
            try:
                checked = check_url(url, NOTHING)
            except Invalid:
                continue
            assert isinstance(checked, CheckedUrl)
            assert (checked.host + checked.target).isascii()
            assert check_url(f"{checked.scheme}://{checked.authority}{checked.target}", NOTHING) == checked

    def test_with_a_password_is_refused_without_repeating_it(self) -> None:
        with pytest.raises(Invalid, match="has a user or password before the host") as refused:
            check_url("http://me:secret@example.org/", NOTHING)

        assert "secret" not in str(refused.value)

    def test_is_named_by_the_path_it_came_from(self) -> None:
        with pytest.raises(Invalid) as refused:
            check_url("http://10.0.0.1/?token=secret", NOTHING, "webhook.url")

        assert str(refused.value) == "webhook.url: 10.0.0.1 is private, and http_allow does not list it"
