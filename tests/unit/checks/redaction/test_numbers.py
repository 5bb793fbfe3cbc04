"""Addresses change, and what belonged together still does."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdchecks.redaction.numbers import Numbers
from pdchecks.redaction.redactor import Redactor

NOBODYS = [
    "127.0.0.1",
    "0.0.0.0",
    "255.255.255.0",
    "224.0.0.1",
    "::1",
    "::",
    "ff02::1",
    "fe80::/64",
    "00:00:00:00:00:00",
    "33:33:00:00:00:01",
    "fe80:0000:0000:0000",
    "28.39.1002",
    "12:34:56",
    "0000:5e:00.0",
    "1.2.3.4.5",
]
NUMBERS = Numbers(b"k" * 32)
RAILS = st.integers(0x0A000000, 0x0AFFFFFF)


@given(a=RAILS, b=RAILS)
def test_two_addresses_share_as_many_bits_as_before(a: int, b: int) -> None:
    c, d = (int(NUMBERS.ipv4(IPv4Address(value))) for value in (a, b))
    assert (a ^ b).bit_length() == (c ^ d).bit_length()


@given(value=st.integers(0, 0xFFFFFF), other=st.integers(0, 0xFFFFFF))
def test_no_two_identifiers_become_one(value: int, other: int) -> None:
    assert (value == other) == (NUMBERS.low24(value) == NUMBERS.low24(other))


@pytest.mark.parametrize(
    "address", ["10.1.2.3", "172.20.1.1", "192.168.7.9", "169.254.3.3", "100.70.0.1", "198.18.5.6"]
)
def test_an_address_keeps_its_kind_and_is_another(address: str) -> None:
    before, after = IPv4Address(address), NUMBERS.ipv4(IPv4Address(address))
    assert before != after
    kinds = ("is_private", "is_link_local", "is_loopback", "is_multicast")
    assert [getattr(before, kind) for kind in kinds] == [getattr(after, kind) for kind in kinds]


@pytest.mark.parametrize("text", NOBODYS)
def test_what_is_nobodys_own_stays(text: str) -> None:
    assert Redactor(b"k" * 32)(text) == text


def test_a_gid_stays_the_gid_of_its_address_and_of_its_mac() -> None:
    redact = Redactor(b"k" * 32)
    address, full, short = (
        redact(text) for text in ("10.1.2.3", "0000:0000:0000:0000:0000:ffff:0a01:0203", "::ffff:10.1.2.3")
    )
    assert IPv6Address(full).ipv4_mapped == ip_address(address) == IPv6Address(short).ipv4_mapped
    mac, gid, guid = (
        redact(text) for text in ("b8:ce:f6:12:ab:34", "fe80:0000:0000:0000:bace:f6ff:fe12:ab34", "b8ce:f603:0012:ab34")
    )
    assert mac[:9] == "b8:ce:f6:"
    low = mac[9:].replace(":", "")
    assert gid == f"fe80:0000:0000:0000:bace:f6ff:fe{low[:2]}:{low[2:]}"
    assert guid == f"b8ce:f603:00{low[:2]}:{low[2:]}"


@pytest.mark.parametrize("network", ["10.1.2.0/24", "10.1.0.0/16", "172.16.4.0/22", "2001:db8:7::/48"])
def test_a_network_stays_a_network_that_holds_its_hosts(network: str) -> None:
    redact = Redactor(b"k" * 32)
    within = ip_network(network)
    mapped = ip_network(redact(network))
    assert mapped != within
    for host in (5, 77, 201):
        assert ip_address(redact(str(within[host]))) in mapped


def test_both_ends_of_a_point_to_point_link_stay_on_it() -> None:
    redact = Redactor(b"k" * 32)
    ends = [redact(text) for text in ("10.9.9.0/31", "10.9.9.1/31")]
    assert len({ip_network(end, strict=False) for end in ends}) == 1
    assert redact("10.9.9.0") == ends[0].partition("/")[0]
