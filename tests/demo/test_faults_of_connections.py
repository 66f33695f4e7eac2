"""Faults of connections and bodies, as a socket sees them; none of them keeps the server from closing."""

import gzip
import http.client
import socket
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from memeloom.demo.faults import ALL_HOSTS, Rule
from memeloom.demo.internet import Internet
from tests.demo.wire import asked, raw, until_reset

Fetch: TypeAlias = Callable[..., Any]
LISTING = "/meme/Proud-Toaster?sort=latest"
PICTURE = "/cactus.jpg"


def test_reset_can_come_before_the_response(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("reset")])
    assert until_reset(faulty.url("imgflip", LISTING)) == b""
    assert fetch(faulty.url("imgflip", LISTING)).status == 200


def test_reset_can_come_within_the_body(faulty: Internet, fetch: Fetch) -> None:
    right = fetch(faulty.url("imgflip_images", PICTURE)).body
    faulty.set_faults([Rule("reset", settings={"part": 0.25})])
    head, _, body = until_reset(faulty.url("imgflip_images", PICTURE)).partition(b"\r\n\r\n")
    assert f"content-length: {len(right)}".encode() in head.lower()
    assert body == right[: len(right) // 4]


@pytest.mark.parametrize("host", sorted(ALL_HOSTS))
def test_every_host_can_reset_connections(faulty: Internet, host: Any) -> None:
    faulty.set_faults([Rule("reset")])
    assert until_reset(faulty.url(host, "/robots.txt")) == b""


@pytest.mark.parametrize(("sends", "headers", "bodies"), [("nothing", 0, 0), ("headers", 1, 0), ("part", 1, 1)])
def test_a_stalled_response_never_ends(faulty: Internet, fetch: Fetch, sends: str, headers: int, bodies: int) -> None:
    right = fetch(faulty.url("imgflip_images", PICTURE)).body
    faulty.set_faults([Rule("stall", settings={"sends": sends})])
    with asked(faulty.url("imgflip_images", PICTURE)) as connection:
        connection.settimeout(0.5)
        received = until_silent(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert (head.count(b"HTTP/1.1 200 OK"), body) == (headers, right[: len(right) // 2 * bodies])
    assert fetch(faulty.url("imgflip_images", PICTURE)).body == right


def until_silent(connection: socket.socket) -> bytes:
    """What arrives until nothing more does; AssertionError if the connection ends."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except TimeoutError:
        return received
    raise AssertionError("closed, not silent")


def test_the_server_stops_during_stalled_slow_and_endless_responses(fetch: Fetch) -> None:
    rules = [
        Rule("stall", path="imgflip/meme/"),
        Rule("stall", path="imgflip/i/", settings={"sends": "headers"}),
        Rule("slow_bytes", path="imgflip_images/", settings={"pause": 1000}),
        Rule("endless_body", path="imgflip/memetemplates"),
    ]
    internet = Internet(memes=12, faults=rules)
    internet.start()
    meme = next(internet.served())
    endless = internet.url("imgflip", "/memetemplates")
    urls = (internet.url("imgflip", LISTING), meme.page_url, meme.image_url, endless)
    with asked(urls[0]) as one, asked(urls[1]) as two, asked(urls[2]) as three, asked(urls[3]) as four:
        assert four.recv(12) == b"HTTP/1.1 200"
        assert two.recv(12) == b"HTTP/1.1 200"
        assert fetch(internet.url("control", "/stop"), method="POST").status == 200
        internet.wait()
        assert internet._process is not None
        assert internet._process.exitcode == 0
        assert ended(one)
        assert ended(three)
    internet.stop()


def ended(connection: socket.socket) -> bool:
    """Whether the server closed or reset the connection; it waits for that."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_broken_connections_do_not_affect_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    with Internet(memes=12, faults=[Rule("endless_body"), Rule("reset"), Rule("stall")]) as internet:
        url = internet.url("imgflip", LISTING)
        with asked(url) as connection:
            connection.recv(10_000)
        assert until_reset(url) == b""
        with asked(url):
            pass
        assert raw(url).startswith(b"HTTP/1.1 200 OK")
        assert internet.log()["faults"] == {"endless_body": 1, "reset": 1, "stall": 1}
    assert capfd.readouterr().err == ""


def test_an_endless_body_begins_with_the_right_bytes_and_has_no_length(faulty: Internet, fetch: Fetch) -> None:
    right = fetch(faulty.url("imgflip_images", PICTURE)).body
    faulty.set_faults([Rule("endless_body")])
    connection = http.client.HTTPConnection(faulty.addresses["imgflip_images"], timeout=20)
    connection.request("GET", PICTURE)
    response = connection.getresponse()
    assert response.getheader("Content-Length") is None
    assert response.getheader("Content-Type") == "image/jpeg"
    body = response.read(len(right) + 5_000_000)
    assert len(body) == len(right) + 5_000_000, "there is always more"
    assert body.startswith(right)
    connection.close()


def test_huge_headers_exceed_the_limit_of_clients(faulty: Internet) -> None:
    faulty.set_faults([Rule("huge_headers", settings={"count": 150, "size": 2000})])
    head, _, body = raw(faulty.url("imgflip", LISTING)).partition(b"\r\n\r\n")
    assert len(head) > 300_000
    assert b"base-unit" in body
    faulty.set_faults([Rule("huge_headers")])
    connection = http.client.HTTPConnection(faulty.addresses["imgflip"], timeout=20)
    connection.request("GET", LISTING)
    with pytest.raises(http.client.HTTPException, match="got more than 100 headers"):
        connection.getresponse()
    connection.close()


def test_a_gzip_bomb_is_small_and_valid_gzip(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("gzip_bomb", settings={"bytes": 50_000_000})])
    answer = fetch(faulty.url("imgflip", LISTING))
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    assert answer.headers["content-type"].startswith("text/html")
    assert len(answer.body) < 60_000
    assert gzip.decompress(answer.body) == bytes(48 * 1024 * 1024), "whole mebibytes"


def test_a_gzip_bomb_unpacks_to_gigabytes(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("gzip_bomb")])
    body = fetch(faulty.url("imgflip_images", PICTURE)).body
    assert len(body) < 3_000_000
    announced = int.from_bytes(body[-4:], "little")
    assert announced >= 2_000_000_000
    assert zlib.decompressobj(31).decompress(body, 10_000_000) == bytes(10_000_000)
