"""What is public, and which addresses can be read in one way only: one table for all that connect."""

import pytest

from memeloom.scrapers.addresses import allowed, host_and_port, is_public
from tests.scrapers.hostile import AMBIGUOUS, NOT_PUBLIC, NUMBERS, PUBLIC


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_no_special_address_is_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_global_unicast_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_in_another_notation_is_no_address_and_no_host(number: str) -> None:
    assert not is_public(number)
    with pytest.raises(ValueError, match=r"."):
        host_and_port(f"http://{number}/a.jpg")


@pytest.mark.parametrize("url", AMBIGUOUS)
def test_an_address_that_clients_may_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        host_and_port(url)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://i.imgflip.com/30b1gx.jpg", "i.imgflip.com", 80),
        ("HTTPS://I.Imgflip.com:/a b", "i.imgflip.com", 443),
        ("https://bücher.example:8443/ä?q=a@b:c", "xn--bcher-kva.example", 8443),
        ("http://[2606:4700:0::1]:8080/", "2606:4700::1", 8080),
        ("http://[::ffff:127.0.0.1]/", "::ffff:7f00:1", 80),
        ("http://１２７。0.0.1/", "127.0.0.1", 80),
        ("http://my_host.example./", "my_host.example.", 80),
    ],
)  # fmt: skip
def test_the_host_and_port_of_an_address(url: str, host: str, port: int) -> None:
    assert host_and_port(url) == (host, port)


def test_allowed_hosts_are_written_as_hosts_of_addresses() -> None:
    assert allowed(["LocalHost", "[::1]", "0:0::2", "127.0.0.1"]) == {"localhost", "::1", "::2", "127.0.0.1"}
