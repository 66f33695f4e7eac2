"""Faults of answers: bursts, redirects, empty and moving listings, tokens that die, types that lie."""

import json
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

import pytest
from parsel import Selector
from PIL import Image

from memeloom.demo.context import Host
from memeloom.demo.faults import Rule
from memeloom.demo.internet import Internet
from tests.demo.reddit_client import bearer_of, listing

Fetch: TypeAlias = Callable[..., Any]
LISTING = "/meme/Proud-Toaster?sort=latest"
PICTURE = "/cactus.jpg"


def test_a_burst_fails_consecutive_requests_to_a_host(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("server_errors", times=4, after=1, path="^imgflip/")])
    paths = ("/memetemplates", LISTING, "/robots.txt", LISTING, "/memetemplates", LISTING, "/memetemplates")
    assert [fetch(faulty.url("imgflip", path)).status for path in paths] == [200, 503, 503, 503, 503, 200, 200]
    assert fetch(faulty.url("imgflip_images", PICTURE)).status == 200


def test_bursts_are_counted_for_each_host(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults({"server_errors": 1.0})
    hosts: tuple[Host, ...] = ("imgflip", "imgflip_images")
    for host in hosts:
        statuses = [fetch(faulty.url(host, f"/robots.txt?{number}")).status for number in range(7)]
        assert statuses == [503] * 5 + [200] * 2


def test_bursts_can_recur(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("server_errors", times=2, every=4, settings={"status": 502})])
    statuses = [fetch(faulty.url("bing", f"/robots.txt?{number}")).status for number in range(9)]
    assert statuses == [502, 502, 200, 200, 502, 502, 200, 200, 502]


def test_redirect_private_redirects_to_a_metadata_service(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("redirect_private", times=None)])
    answer = fetch(faulty.url("imgflip_images", PICTURE))
    assert (answer.status, answer.headers["location"]) == (302, "http://169.254.169.254/latest/meta-data/")
    faulty.set_faults([Rule("redirect_private", settings={"to": "file:///etc/passwd"})])
    assert fetch(faulty.url("imgflip_images", PICTURE)).headers["location"] == "file:///etc/passwd"


@pytest.mark.parametrize("form", ["name", "decimal", "hex", "octal", "short", "mapped"])
def test_redirect_private_can_write_loopback_in_other_forms(faulty: Internet, fetch: Fetch, form: str) -> None:
    faulty.set_faults([Rule("redirect_private", settings={"form": form})])
    target = urlsplit(fetch(faulty.url("pictures", "/robots.txt")).headers["location"])
    assert target.hostname != "127.0.0.1"
    assert target.port == int(faulty.addresses["inside"].rpartition(":")[2])
    with socket.create_connection((target.hostname or "", target.port), timeout=10) as connection:
        connection.sendall(f"GET {target.path} HTTP/1.0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.endswith(b"the keys to everything")


def test_requests_to_the_private_host_are_logged(fetch: Fetch) -> None:
    with Internet(memes=12) as internet:
        fetch(internet.url("imgflip", "/robots.txt"))
        assert "inside" not in internet.log()["requests"]
        fetch(internet.url("inside", "/latest/meta-data/"))
        assert sum(internet.log()["requests"]["inside"]["/{path}"].values()) == 1


def follow(fetch: Fetch, url: str, times: int) -> list[str]:
    """The addresses that redirects lead to."""
    found = []
    for _ in range(times):
        answer = fetch(url)
        assert answer.status == 302
        url = urljoin(url, answer.headers["location"])
        found.append(url)
    return found


def test_redirect_loop_leads_back(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults({"redirect_loop": 1.0})
    url = faulty.url("imgflip", LISTING)
    other = f"{url}&hop=1"
    assert follow(fetch, url, 4) == [other, url, other, url]


def test_redirect_loop_can_chain_new_addresses(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("redirect_loop", times=None, settings={"chain": True})])
    found = follow(fetch, faulty.url("pictures", "/robots.txt"), 60)
    assert len(set(found)) == 60


@pytest.mark.parametrize(
    ("path", "frame", "unit"),
    [
        (("imgflip", LISTING), 'a.meme-link[href^="/memetemplate/"] img', ".base-unit"),
        (("imgflip", "/memetemplates"), "#mt-boxes-wrap", ".mt-box"),
        (("bing", "/images/search?q=cats"), ".dgControl_list", "a.iusc"),
        (("google", "/search?q=cats&udm=2"), "#islrg", "script:contains('/p/')"),
    ],
)
def test_an_empty_page_has_no_memes(
    faulty: Internet, fetch: Fetch, path: tuple[Any, str], frame: str, unit: str
) -> None:
    full = Selector(fetch(faulty.url(*path)).text)
    faulty.set_faults([Rule("empty_page")])
    empty = Selector(fetch(faulty.url(*path)).text)
    assert full.css(frame)
    assert full.css(unit)
    assert empty.css(frame)
    assert not empty.css(unit)
    assert not empty.css(".pager-next")


def test_an_empty_reddit_listing_has_no_posts(faulty: Internet, fetch: Fetch) -> None:
    bearer = bearer_of(faulty, fetch)
    faulty.set_faults([Rule("empty_page")])
    page = listing(faulty, fetch, bearer, "/r/memes/new")
    assert (page["children"], page["after"]) == ([], None)


def test_a_moving_listing_repeats_memes_on_the_next_page(fetch: Fetch) -> None:
    with Internet(memes=540, faults=[Rule("moving_listing", settings={"items": 4})]) as moving:
        memes = [meme for meme in moving.served() if meme.source == "imgflip"]
        before = [meme.id for meme in memes if meme.template_slug == "Proud-Toaster"]
        url = moving.url("imgflip", f"{LISTING}&page=1")
        found: list[str] = []
        while url:
            page = Selector(fetch(url).text)
            found += [f"imgflip:{href[3:]}" for href in page.css("h2 a::attr(href)").getall()]
            href = page.css(".pager-next").attrib.get("href")
            url = urljoin(url, href) if href else ""
        assert found[11:19] == [*before[11:15], *before[11:15]], "four at the end of a page begin the next one"
        assert Counter(found).most_common(1)[0][1] >= 2
        assert set(found) == set(before), "all that were there from the start are met"
        late = [meme for meme in moving.served() if meme.late]
        assert len(late) == 12
        assert {meme.template_slug for meme in late} == {"Proud-Toaster"}


def test_a_moving_reddit_listing_repeats_posts_and_adds_new_ones(fetch: Fetch) -> None:
    with Internet(memes=12, posts=30, faults=[Rule("moving_listing", settings={"items": 2})]) as moving:
        bearer = bearer_of(moving, fetch)
        first = listing(moving, fetch, bearer, "/r/memes/new?limit=10")
        second = listing(moving, fetch, bearer, f"/r/memes/new?limit=10&after={first['after']}")
        names = [[child["data"]["name"] for child in page["children"]] for page in (first, second)]
        assert names[0][-2:] == names[1][:2]
        top = listing(moving, fetch, bearer, "/r/memes/new?limit=10")
        assert [child["data"]["name"] for child in top["children"]][2:] == names[0][:8]
        assert any(meme.late for meme in moving.served() if meme.source == "reddit")


def test_expired_token_refuses_a_valid_token(faulty: Internet, fetch: Fetch) -> None:
    bearer, url = bearer_of(faulty, fetch), faulty.url("reddit_api", "/r/memes/new")
    faulty.set_faults({"expired_token": 1.0})
    answer = fetch(url, headers=bearer)
    assert (answer.status, json.loads(answer.body)["error"]) == (401, 401)
    assert fetch(url, headers=bearer).status == 200


def test_a_token_can_expire_after_some_requests(faulty: Internet, fetch: Fetch) -> None:
    faulty.set_faults([Rule("expired_token", per="token", after=3, times=None)])
    url = faulty.url("reddit_api", "/r/memes/new?limit=1")
    for bearer in (bearer_of(faulty, fetch), bearer_of(faulty, fetch)):
        assert [fetch(f"{url}&n={n}", headers=bearer).status for n in range(6)] == [200, 200, 200, 401, 401, 401]


def test_lying_type_can_send_a_picture_with_another_type(
    faulty: Internet, fetch: Fetch, decode: Callable[[bytes], Image.Image]
) -> None:
    faulty.set_faults([Rule("lying_type", settings={"type": "image/png"})])
    answer = fetch(faulty.url("imgflip_images", PICTURE))
    assert answer.headers["content-type"] == "image/png"
    assert decode(answer.body).format == "JPEG"


def test_changed_layout_leaves_no_arrays_in_google_s_scripts(faulty: Internet, fetch: Fetch) -> None:
    url = faulty.url("google", "/search?q=cats&udm=2")
    before = fetch(url).text
    faulty.set_faults({"changed_layout": 1.0})
    after = fetch(url).text
    assert '.jpg",' in before
    assert '.jpg",' in after
    assert '["http' in before
    assert '["http' not in after
