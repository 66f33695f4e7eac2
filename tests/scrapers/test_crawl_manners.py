"""How a crawl behaves towards sites that are slow, broken, hostile or strict; each on a website of the test's own."""

import shutil
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from memeloom.catalog.records import Meme, author_hash
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import ConfigError
from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.errors import CrawlFailed
from tests.services.website import Answer, Asked, Website

TOKEN = {"access_token": "t0k3n", "token_type": "bearer", "expires_in": 3600}


@pytest.fixture
def subreddit(website: Website, crawl_config: Callable[..., Config]) -> Callable[..., Config]:
    """Makes a subreddit whose posts show the given pictures, two a page; returns the settings that crawl it."""

    def build(*addresses: str, headers: dict[str, str] | None = None, **more: object) -> Config:
        website.json("/api/v1/access_token", TOKEN)
        website.pages.setdefault("/robots.txt", (200, {}, b""))
        pages = [addresses[start : start + 2] for start in range(0, len(addresses), 2)]
        for number, page in enumerate(pages):
            after = f"&after=t3_{number}" if number else ""
            children = [{"kind": "t3", "data": post(address)} for address in page]
            cursor = f"t3_{number + 1}" if number + 1 < len(pages) else None
            path = f"/r/memes/new?limit=100&raw_json=1{after}"
            website.json(path, {"kind": "Listing", "data": {"after": cursor, "children": children}})
            status, own, body = website.pages[path]  # type: ignore[misc]
            website.pages[path] = (status, own | (headers or {}), body)
        reddit = {
            "site": website.url, "api": website.url, "client_id": "me", "client_secret": "secret",
            "subreddits": ("memes",), "posts_per_subreddit": 100000,
        }  # fmt: skip
        return crawl_config(sources=("reddit",), reddit=reddit, **more)

    return build


def post(address: str) -> dict[str, object]:
    name = f"{zlib.crc32(address.encode()):x}"
    return {
        "id": name, "permalink": f"/r/memes/comments/{name}/", "url": address, "title": name, "author": "someone",
        "created_utc": 1700000000, "score": 1, "over_18": False,
    }  # fmt: skip


def memes_of(config: Config) -> list[Meme]:
    return list(open_documents(config.store).scan())


def refusing_once(website: Website, path: str, header: Callable[[], str], data: bytes) -> None:
    """The first request for `path` is answered with 429 and the Retry-After that `header` makes."""

    def answer(asked: Asked) -> Answer:
        if len(website.times(path)) == 1:
            return 429, {"Retry-After": header()}, b""
        return 200, {}, data

    website.pages[path] = answer


def in_two_seconds() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)


@pytest.mark.parametrize(("header", "least"), [(lambda: "1", 1.0), (in_two_seconds, 1.0)], ids=["seconds", "date"])
def test_a_host_that_asks_for_a_rest_gets_it(
    website: Website, subreddit: Callable[..., Config], picture: Callable[[int], bytes],
    header: Callable[[], str], least: float,
) -> None:  # fmt: skip
    refusing_once(website, "/a.jpg", header, picture(1))
    config = subreddit(f"{website.url}/a.jpg")
    summary = crawl(config, Silent())
    first, second = website.times("/a.jpg")
    assert second - first >= least
    assert (summary.counts["retries"], summary.counts["images"], summary.reasons) == (1, 1, {})


def test_pictures_that_cannot_be_had_are_counted_by_reason_and_never_stored(
    website: Website, subreddit: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    site = website.url
    website.image("/good.jpg", picture(1))
    website.image("/large.jpg", picture(2) + bytes(200_000))
    website.pages["/liar.jpg"] = (200, {"Content-Length": "50000"}, picture(3))
    website.pages["/busy.jpg"] = (503, {"Retry-After": "86400"}, b"")
    website.pages["/inside.jpg"] = (302, {"Location": "http://10.0.0.1/secret.jpg"}, b"")
    website.pages["/name.jpg"] = (302, {"Location": site.replace("127.0.0.1", "localhost") + "/good.jpg"}, b"")
    website.pages["/file.jpg"] = (302, {"Location": "file:///etc/passwd"}, b"")
    website.pages["/round.jpg"] = (302, {"Location": "/round.jpg"}, b"")
    website.pages["/robots.txt"] = (200, {}, b"User-agent: memeloom\nDisallow: /private/\n")
    website.image("/private/x.jpg", picture(4))
    names = ("good", "large", "liar", "busy", "inside", "name", "file", "round", "private/x", "missing")
    config = subreddit(
        *(f"{site}/{name}.jpg" for name in names), "http://169.254.169.254/a.jpg", max_image_bytes=150_000, retries=1
    )
    summary = crawl(config, Silent())
    (meme,) = memes_of(config)
    assert meme.image_url == f"{site}/good.jpg"
    assert len(list(open_blobs(config.store).keys())) == 1
    assert summary.reasons == {
        "dropped: neither picture nor caption": 10,
        "image: address refused": 3,
        "image: too many bytes": 1,
        "image: cut off": 1,
        "image: HTTP 503": 1,
        "site asks for a wait of more than ten minutes": 1,
        "image: HTTP 302": 1,
        "image: too many redirects": 1,
        "image: forbidden by robots.txt": 1,
        "image: HTTP 404": 1,
    }
    assert website.times("/private/x.jpg") == []


def test_a_server_error_is_retried_and_then_given_up(
    website: Website, subreddit: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    website.image("/good.jpg", picture(1))
    website.pages["/bad.jpg"] = (500, {}, b"")
    summary = crawl(subreddit(f"{website.url}/good.jpg", f"{website.url}/bad.jpg", retries=2), Silent())
    assert len(website.times("/bad.jpg")) == 3
    assert (summary.counts["retries"], summary.reasons["image: HTTP 500"]) == (2, 1)


def test_every_request_says_who_asks_and_a_used_up_budget_is_waited_for(
    website: Website, subreddit: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    addresses = [f"{website.url}/{number}.jpg" for number in range(4)]
    for number in range(4):
        website.image(f"/{number}.jpg", picture(number))
    budget = {"x-ratelimit-remaining": "0.0", "x-ratelimit-reset": "2", "x-ratelimit-used": "100"}
    config = subreddit(*addresses, headers=budget, contact="mailto:me@example.org")
    crawl(config, Silent())
    (first,) = website.times("/r/memes/new?limit=100&raw_json=1")
    (second,) = website.times("/r/memes/new?limit=100&raw_json=1&after=t3_1")
    assert second - first >= 2
    assert len(memes_of(config)) == 4
    assert all(asked.headers["User-Agent"].startswith("memeloom/") for asked in website.asked)
    assert all(asked.headers["User-Agent"].endswith(" (+mailto:me@example.org)") for asked in website.asked)
    assert not any("Cookie" in asked.headers for asked in website.asked)
    tokens = {asked.headers.get("Authorization") for asked in website.asked if asked.path.startswith("/r/")}
    assert tokens == {"Bearer t0k3n"}
    assert not any("Authorization" in asked.headers for asked in website.asked if asked.path.endswith(".jpg"))


@pytest.mark.parametrize("keep", [True, False])
def test_author_names_are_kept_as_a_salted_hash_or_not_at_all(
    website: Website, subreddit: Callable[..., Config], picture: Callable[[int], bytes], keep: bool
) -> None:
    website.image("/a.jpg", picture(1))
    config = subreddit(f"{website.url}/a.jpg", keep_author_hash=keep, author_salt="pepper")
    crawl(config, Silent())
    (meme,) = memes_of(config)
    assert meme.author == (author_hash("someone", "pepper") if keep else None)
    assert "someone" not in meme.model_dump_json()


def test_a_refused_application_is_one_clear_error(website: Website, subreddit: Callable[..., Config]) -> None:
    config = subreddit(f"{website.url}/a.jpg")
    website.pages["/api/v1/access_token"] = (401, {}, b'{"message": "Unauthorized"}')
    with pytest.raises(CrawlFailed, match=r"check crawl\.reddit\.client_id"):
        crawl(config, Silent())


def test_a_fresh_token_that_is_refused_too_is_an_error_not_a_loop(
    website: Website, subreddit: Callable[..., Config]
) -> None:
    config = subreddit(f"{website.url}/a.jpg")
    website.pages["/r/memes/new?limit=100&raw_json=1"] = (401, {}, b"{}")
    with pytest.raises(CrawlFailed, match="rejects a new token"):
        crawl(config, Silent())
    assert len(website.times("/api/v1/access_token")) == 2


def test_max_minutes_ends_a_crawl_in_the_middle_of_a_long_wait(
    website: Website, subreddit: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    website.image("/a.jpg", picture(1))
    website.pages["/b.jpg"] = (503, {"Retry-After": "500"}, b"")
    config = subreddit(f"{website.url}/a.jpg", f"{website.url}/b.jpg", max_minutes=0.05)
    began = time.monotonic()
    summary: Summary = crawl(config, Silent())
    assert time.monotonic() - began < 60
    assert summary.counts["retries"] == 1, "it waits in the frontier"
    assert summary.counts["memes"] == len(memes_of(config)) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sources": ()}, "crawl.sources"),
        ({"keep_author_hash": True}, "crawl.author_salt"),
        ({"sources": ("reddit",)}, "crawl.reddit.client_id"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_at_once(
    crawl_config: Callable[..., Config], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        crawl(crawl_config(**settings), Silent())


def test_a_store_that_fails_ends_the_crawl_with_its_own_error(
    website: Website, subreddit: Callable[..., Config], picture: Callable[[int], bytes]
) -> None:
    config = subreddit(f"{website.url}/a.jpg")

    def wreck(asked: Asked) -> Answer:
        blobs = Path(config.store.blobs)
        shutil.rmtree(blobs, ignore_errors=True)
        blobs.write_text("no folder any more")
        return 200, {}, picture(1)

    website.pages["/a.jpg"] = wreck
    with pytest.raises(CrawlFailed, match=config.store.blobs):
        crawl(config, Silent())
    assert memes_of(config) == []
