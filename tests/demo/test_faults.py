"""Each fault, as its bytes look on the wire; and that faults hit what they are told to hit, the same at every run."""

import re
import socket
import struct
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest
from parsel import Selector
from PIL import Image

from memeloom.configs.errors import ConfigError
from memeloom.demo.faults import FAULTS, Rule
from memeloom.demo.internet import Internet
from tests.demo.wire import raw

Fetch: TypeAlias = Callable[..., Any]
LISTING = "/meme/Proud-Toaster?sort=latest"
PICTURE = "/cactus.jpg"


def announced(head: bytes) -> int:
    lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return int({name.lower(): value for name, value in lines.items()}[b"content-length"])


def test_rate_limit_sends_retry_after_in_seconds(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("rate_limit", settings={"seconds": 7})])
    answer = fetch(faulty.url("imgflip", LISTING))
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert fetch(faulty.url("imgflip", LISTING)).status == 200


def test_rate_limit_can_send_retry_after_as_a_date(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("rate_limit", settings={"seconds": 60, "date": True})])
    answer = fetch(faulty.url("imgflip", LISTING))
    wait = parsedate_to_datetime(answer.headers["retry-after"]) - parsedate_to_datetime(answer.headers["date"])
    assert 55 <= wait.total_seconds() <= 61


@pytest.mark.parametrize("status", [500, 502, 503])
def test_server_error(faulty: Internet, fetch: Fetch, status: int) -> None:
    faulty.set_faults([Rule("server_error", times=2, settings={"status": status})])
    url = faulty.url("imgflip_api", "/get_memes")
    assert [fetch(url).status for _ in range(3)] == [status, status, 200]


def test_slow_bytes_sends_the_right_bytes_in_pieces(faulty: Internet, fetch: Fetch) -> None:
    url = faulty.url("imgflip_images", PICTURE)
    right = fetch(url).body
    faulty.set_faults([Rule("slow_bytes", settings={"pieces": 4, "pause": 0.05})])
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=20) as connection:
        connection.sendall(f"GET {PICTURE} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        pieces = list(iter(lambda: connection.recv(1 << 20), b""))
    assert len(pieces) >= 4
    assert b"".join(pieces).endswith(right)


def test_truncated_announces_more_bytes_than_it_sends(faulty: Internet, fetch: Fetch) -> None:
    right = fetch(faulty.url("imgflip_images", PICTURE)).body
    faulty.set_faults([Rule("truncated")])
    head, _, body = raw(faulty.url("imgflip_images", PICTURE)).partition(b"\r\n\r\n")
    assert announced(head) == len(right)
    assert body == right[: len(right) // 2]
    assert fetch(faulty.url("imgflip_images", PICTURE)).body == right


def test_cut_file_sends_half_a_picture_with_a_matching_length(faulty: Internet, fetch: Fetch) -> None:
    right = fetch(faulty.url("imgflip_images", PICTURE)).body
    faulty.set_faults([Rule("cut_file")])
    head, _, body = raw(faulty.url("imgflip_images", PICTURE)).partition(b"\r\n\r\n")
    assert announced(head) == len(body) == len(right) // 2
    with pytest.raises(OSError, match="truncated"):
        Image.open(BytesIO(body)).load()


def test_lying_type_sends_a_page_as_a_jpeg(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("lying_type")])
    answer = fetch(faulty.url("imgflip_images", PICTURE))
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    assert answer.body.startswith(b"<!DOCTYPE html>")


def test_bomb_is_a_tiny_png_that_claims_to_be_huge(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("bomb")])
    body = fetch(faulty.url("imgflip_images", PICTURE)).body
    assert body.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", body[16:24]) == (50_000, 50_000)
    assert len(body) < 1000


def test_changed_layout_keeps_the_text_and_none_of_the_selectors(faulty: Internet, fetch: Fetch) -> None:
    before = fetch(faulty.url("imgflip", LISTING)).text
    faulty.set_faults({"changed_layout": 1.0})
    for _ in range(3):
        page = Selector(fetch(faulty.url("imgflip", LISTING)).text)
        assert not page.css(".base-unit, img.base-img, .pager-next, a.meme-link")
        assert page.css("h2 a::text").getall() == Selector(before).css("h2 a::text").getall()


def test_endless_paging_always_has_a_next_page_and_repeats_itself(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults({"endless_paging": 1.0})
    first, beyond = (Selector(fetch(faulty.url("imgflip", f"{LISTING}&page={page}")).text) for page in (1, 5001))
    assert beyond.css("a.pager-next::attr(href)").get("").endswith("page=5002")
    assert beyond.css("h2 a::attr(href)").getall() == first.css("h2 a::attr(href)").getall()


def test_every_fault_is_documented() -> None:
    table = (Path(__file__).parents[2] / "docs" / "demo.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(FAULTS)
    assert all(fault.apply.__doc__ for fault in FAULTS.values())


def test_the_same_addresses_fail_in_every_run(faulty: Internet, fetch: Fetch) -> None:
    urls = [meme.image_url for meme in faulty.served() if meme.source == "imgflip"][:120]
    runs = []
    for _ in range(2):
        faulty.set_faults({"server_error": 0.2})
        runs.append([fetch(url).status for url in urls])
    assert runs[0] == runs[1]
    assert 10 <= runs[0].count(503) <= 40
    assert [fetch(url).status for url in urls] == [200] * 120, "each address fails once"


def test_a_path_limits_a_fault_to_some_addresses(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("server_error", path=r"^imgflip/meme/.*page=2")])
    assert fetch(faulty.url("imgflip", LISTING)).status == 200
    assert fetch(faulty.url("imgflip", f"{LISTING}&page=2")).status == 503


def test_rules_apply_in_order(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("rate_limit"), Rule("server_error")])
    assert [fetch(faulty.url("imgflip", LISTING)).status for _ in range(3)] == [429, 503, 200]


def test_faults_can_be_given_to_the_constructor(fetch: Fetch) -> None:
    with Internet(memes=12, faults={"rate_limit": 1.0}) as internet:
        assert fetch(internet.url("imgflip", "/memetemplates")).status == 429
        assert internet.log()["faults"] == {"rate_limit": 1}


def test_an_unknown_fault_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no such fault: 'earthquake'; known are rate_limit, "):
        Internet(faults={"earthquake": 1.0})
