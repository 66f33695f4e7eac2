"""A crawl that mostly fails, or whose parsers find nothing, ends and says why: the rules, and a few whole crawls."""

from collections.abc import Callable, Sequence

import pytest

from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.health import PAGES, PICTURES, Health, why_nothing_found
from tests.services.website import Website

Subreddits = Callable[..., Config]
LISTING = "/r/{}/new?limit=100&raw_json=1"


@pytest.fixture
def subreddits(website: Website, crawl_config: Callable[..., Config]) -> Subreddits:
    """Settings that crawl the named subreddits; the website answers for those that a test fills."""

    def build(*names: str, **more: object) -> Config:
        website.json("/api/v1/access_token", {"access_token": "t"})
        website.pages["/robots.txt"] = (200, {}, b"")
        reddit = {
            "site": website.url, "api": website.url, "client_id": "i", "client_secret": "s", "subreddits": names
        }  # fmt: skip
        return crawl_config(sources=("reddit",), reddit=reddit, retries=0, breaker_failures=10_000, **more)

    return build


def fill(website: Website, name: str, addresses: Sequence[str], **facts: object) -> None:
    """Answer for a subreddit with one post a picture."""
    children = [
        {"kind": "t3", "data": {
            "id": f"{name}{number}", "permalink": f"/{name}{number}/", "url": address, "title": "t", "author": "a",
            "created_utc": 1700000000 - number, **facts,
        }}
        for number, address in enumerate(addresses)
    ]  # fmt: skip
    website.json(LISTING.format(name), {"data": {"after": None, "children": children}})


def good(website: Website, picture: Callable[[int], bytes]) -> str:
    """A subreddit with one post, so that something lands."""
    website.image("/good.jpg", picture(0))
    fill(website, "good", [f"{website.url}/good.jpg"])
    return "good"


def health(**thresholds: object) -> Health:
    settings = load_config(environment={}).crawl
    return Health("imgflip", settings.model_copy(update=thresholds))


def dead(n: int) -> list[str]:
    return [f"dead{number}" for number in range(n)]


def test_more_failures_than_allowed_in_a_full_window_are_told_with_their_reasons_and_hosts() -> None:
    doctor = health(max_error_rate=0.5)
    said = [doctor.ended("pages", "a.example", None if place % 2 else "timed out") for place in range(PAGES)]
    assert said == [None] * PAGES, "exactly half may fail"
    assert doctor.ended("pages", "a.example", "HTTP 403") is None, "it takes the place of an older failure"
    assert doctor.ended("pages", "b.example", "HTTP 403") == (
        "imgflip: 51 of the last 100 pages failed, more than crawl.max_error_rate (50%) allows: "
        "timed out (49), HTTP 403 (2); from a.example (50), b.example (1)"
    )


@pytest.mark.parametrize(("kind", "window"), [("pages", PAGES), ("pictures", PICTURES)])
def test_a_window_that_is_not_full_is_not_judged(kind: str, window: int) -> None:
    doctor = health()
    assert [doctor.ended(kind, "a", "timed out") for _ in range(window - 1)] == [None] * (window - 1)
    assert doctor.ended(kind, "a", "timed out")


@pytest.mark.parametrize(("kind", "key"), [("pages", "max_error_rate"), ("pictures", "max_picture_error_rate")])
def test_no_threshold_no_judgement(kind: str, key: str) -> None:
    doctor = health(**{key: None, "max_empty_pages": None})
    assert all(doctor.ended(kind, "a", "timed out") is None for _ in range(2 * PICTURES))
    assert all(doctor.read("parse_listing", "u", empty=True) is None for _ in range(1000))


def test_a_page_with_memes_breaks_a_row_of_empty_ones_of_its_own_kind_only() -> None:
    doctor = health(max_empty_pages=3)
    for _ in range(2):
        assert doctor.read("parse_listing", "u", empty=True) is None
    doctor.read("parse_meme", "u", empty=False)
    said = doctor.read("parse_listing", "https://site/3", empty=True)
    assert said is not None
    assert "parse_listing found no meme on 3 pages in a row" in said
    assert "https://site/3" in said
    doctor.read("parse_listing", "u", empty=False)
    assert doctor.read("parse_listing", "u", empty=True) is None


def test_a_source_most_of_whose_pages_fail_ends_and_says_why(
    subreddits: Subreddits, website: Website, picture: Callable[[int], bytes]
) -> None:
    config = subreddits(good(website, picture), *dead(200))
    with pytest.raises(CrawlFailed) as failed:
        crawl(config, Silent())
    host = website.url.removeprefix("http://")
    assert "of the last 100 pages failed, more than crawl.max_error_rate (50%) allows: HTTP 404 (" in str(failed.value)
    assert f"from {host} (" in str(failed.value)
    assert "kept: 1 memes" in str(failed.value)
    assert open_documents(config.store).count() == 1
    asked = [asked for asked in website.asked if asked.path.startswith("/r/dead")]
    assert PAGES - 1 <= len(asked) < 200, "it does not go on to the bitter end"


def test_what_was_set_aside_may_fail_again(
    subreddits: Subreddits, website: Website, picture: Callable[[int], bytes]
) -> None:
    names = dead(101)
    for name in names:
        website.pages[LISTING.format(name)] = (503, {}, b"")
    off = subreddits(good(website, picture), *names, max_error_rate=None)
    assert crawl(off, Silent()).counts["requests set aside"] == 101
    again = crawl(subreddits("good", *names), Silent(), retry_failed=True)
    assert (again.counts["requests tried again"], again.reasons["page: HTTP 503"]) == (101, 101)


def posts(website: Website, picture: Callable[[int], bytes], n: int, alive: int) -> list[str]:
    """Subreddits with `n` posts in all, 100 each, evenly mixed; the pictures of `alive` of them are there."""
    every = n // alive if alive else n + 1
    for number in range(alive):
        website.image(f"/{number * every}.jpg", picture(number))
    addresses = [f"{website.url}/{number}.jpg" for number in range(n)]
    names = [f"sub{place}x" for place in range(n // 100)]
    for place, name in enumerate(names):
        fill(website, name, addresses[100 * place : 100 * (place + 1)])
    return names


def test_walls_instead_of_pictures_are_failures_too(
    subreddits: Subreddits, website: Website, picture: Callable[[int], bytes]
) -> None:
    names = posts(website, picture, 700, alive=0)
    for number in range(700):
        website.html(f"/{number}.jpg", "<!doctype html><title>Log in to see this</title>")
    with pytest.raises(CrawlFailed, match=r"a page instead of a picture \(\d+\)"):
        crawl(subreddits(*names), Silent())


def test_a_parser_that_finds_nothing_any_more_ends_its_source_and_names_the_page(
    subreddits: Subreddits, website: Website, picture: Callable[[int], bytes]
) -> None:
    names = dead(20)
    for name in names:
        fill(website, name, [])
    with pytest.raises(CrawlFailed) as failed:
        crawl(subreddits(good(website, picture), *names, max_empty_pages=3), Silent())
    assert "reddit: parse_listing found no meme on 3 pages in a row" in str(failed.value)
    assert f"the last of them {website.url}/r/dead" in str(failed.value)
    assert len([asked for asked in website.asked if asked.path.startswith("/r/dead")]) < 20


def test_pages_with_known_memes_or_skipped_posts_only_are_not_empty(
    subreddits: Subreddits, website: Website, picture: Callable[[int], bytes]
) -> None:
    for name in dead(5):
        fill(website, name, ["https://site/text"], is_self=True)
    config = subreddits(good(website, picture), *dead(5), max_empty_pages=2)
    first, second = crawl(config, Silent()), crawl(config, Silent())
    assert first.reasons == second.reasons == {"skipped: text post": 5}
    assert (first.counts["new"], second.counts["unchanged"]) == (1, 1)


def test_empty_pages_among_others_are_counted(
    subreddits: Subreddits, website: Website, picture: Callable[[int], bytes]
) -> None:
    for name in dead(5):
        fill(website, name, [])
    summary = crawl(subreddits(good(website, picture), *dead(5)), Silent())
    assert summary.reasons == {"skipped: page without a meme": 5}


def test_a_source_without_memes_says_why() -> None:
    reasons = {"page: unknown host": 2, "page: timed out": 1}
    assert why_nothing_found("images", "a.iusc", 0, reasons) == (
        "images: no page could be reached: page: unknown host (2), page: timed out (1); "
        "is this machine connected to the network?"
    )
    assert why_nothing_found("images", "a.iusc", 0, {"page: forbidden by robots.txt": 1}) == (
        "images: not one meme found: 'a.iusc' matched nothing on 0 pages; page: forbidden by robots.txt (1)"
    )
    assert why_nothing_found("reddit", "x", 3, {}) == "reddit: not one meme found: 'x' matched nothing on 3 pages"


def test_a_machine_without_a_network_is_told_so(crawl_config: Callable[..., Config]) -> None:
    gone = {"site": "http://nowhere.invalid", "api": "http://nowhere.invalid"}
    config = crawl_config(sources=("imgflip",), imgflip=gone, retries=0)
    with pytest.raises(CrawlFailed, match=r"imgflip: no page could be reached: page: unknown host .*network\?"):
        crawl(config, Silent())
