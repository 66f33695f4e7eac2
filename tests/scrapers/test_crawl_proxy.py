"""Crawls through a proxy: everything goes through it, and what a name gives away is refused all the same."""

from collections.abc import Callable

import pytest

from memeloom.catalog.stores import open_documents
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.guard import AddressGuard, AddressRefused, is_proxied
from tests.services.website import Website


def test_a_proxy_is_asked_for_everything_and_its_password_is_kept_from_the_frontier(
    website: Website, crawl_config: Callable[..., Config], picture: Callable[[int], bytes], spawned: None
) -> None:
    site = "http://reddit.example.com"
    addresses = ["http://pictures.example.com/a.jpg", "http://10.0.0.1/b.jpg", "http://intranet/c.jpg"]
    addresses += ["http://0x7f.1/d.jpg", "http://192.168.1.257/e.jpg", "http://127.0.0.1/f.jpg"]
    children = [
        {"kind": "t3", "data": {"id": f"a{number}", "permalink": f"/a{number}/", "url": address, "title": "t",
                                "author": "x", "created_utc": 1700000000, "score": 1, "over_18": False}}
        for number, address in enumerate(addresses)
    ]  # fmt: skip
    website.json(f"{site}/api/v1/access_token", {"access_token": "t", "expires_in": 3600})
    website.json(f"{site}/r/memes/new?limit=100&raw_json=1", {"data": {"after": None, "children": children}})
    for host in ("reddit", "pictures"):
        website.pages[f"http://{host}.example.com/robots.txt"] = (200, {}, b"")
    website.image(addresses[0], picture(1))
    reddit = {"site": site, "api": site, "client_id": "i", "client_secret": "s", "subreddits": ("memes",)}
    proxy = website.url.replace("http://", "http://me:s3cret@")
    config = crawl_config(sources=("reddit",), reddit=reddit, allow_hosts=(), proxy=proxy)
    summary = crawl(config, Silent())
    (meme,) = open_documents(config.store).scan()
    assert meme.image_url == addresses[0]
    assert summary.reasons["image: address refused"] == 5
    assert all(asked.path.startswith("http://") for asked in website.asked)
    assert all("Basic" in asked.headers["Proxy-Authorization"] for asked in website.asked)
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize("name", ["intranet", "localhost", "localhost.", "1.2.3.0x7f", "10.1", "proxy.example.com"])
def test_names_that_a_proxy_would_take_into_private_space_are_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.com:3128")
    monkeypatch.setenv("no_proxy", "direct.example.com")
    assert is_proxied("http", "some.example.com")
    assert not is_proxied("http", "direct.example.com")
    with pytest.raises(AddressRefused):
        AddressGuard(frozenset())._check_name(name)


def test_an_ordinary_name_is_left_to_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.com:3128")
    AddressGuard(frozenset())._check_name("i.imgflip.com")
