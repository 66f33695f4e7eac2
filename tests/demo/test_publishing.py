"""What is published while the sites run: at the top of the listings, in the truth, and gone from no address."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from parsel import Selector

from memeloom.demo.internet import Internet
from tests.demo.reddit_client import all_posts, bearer_of, listing

Fetch: TypeAlias = Callable[..., Any]


@pytest.fixture
def growing() -> Iterator[Internet]:
    with Internet(memes=240, posts=45, pictures=20) as running:
        yield running


def listed(growing: Internet, fetch: Fetch, slug: str, pages: int) -> list[list[str]]:
    """The ids of the memes on each of the first pages of a template's listing."""
    urls = [growing.url("imgflip", f"/meme/{slug}?sort=latest&page={page}") for page in range(1, pages + 1)]
    hrefs = [Selector(fetch(url).text).css("h2 a::attr(href)").getall() for url in urls]
    return [[f"imgflip:{href.removeprefix('/i/')}" for href in page] for page in hrefs]


def test_new_memes_are_at_the_top_of_their_templates(growing: Internet, fetch: Fetch) -> None:
    before = listed(growing, fetch, "Proud-Toaster", 2)
    growing.publish(24)
    late = [meme for meme in growing.served(hashes=True) if meme.late]
    assert set(Counter(meme.template_id for meme in late).values()) == {2}
    assert len(late) == 24
    ours = [meme for meme in late if meme.template_slug == "Proud-Toaster"]
    after = listed(growing, fetch, "Proud-Toaster", 2)
    assert after[0] == [*(meme.id for meme in ours), *before[0][:13]]
    assert after[1][:2] == before[0][13:]
    keys = [int(key.removeprefix("imgflip:"), 36) for key in after[0] + after[1]]
    assert keys == sorted(keys, reverse=True)
    for meme in ours:
        assert hashlib.sha256(fetch(meme.image_url).body).hexdigest() == meme.sha256
        assert fetch(meme.page_url).status == 200


def test_publishing_again_keeps_earlier_memes(growing: Internet) -> None:
    growing.publish(5)
    first = {meme.id: meme for meme in growing.served() if meme.late}
    growing.publish(9)
    second = {meme.id: meme for meme in growing.served() if meme.late}
    assert (len(first), len(second)) == (5, 14)
    assert first.items() <= second.items()


def test_the_ground_truth_is_available_after_the_stop() -> None:
    with Internet(memes=24) as brief:
        brief.publish(3)
    assert len([meme for meme in brief.served() if meme.late]) == 3


def test_new_posts_come_before_the_newest_known_one(growing: Internet, fetch: Fetch) -> None:
    bearer = bearer_of(growing, fetch)
    before = [post["name"] for post in all_posts(growing, fetch, bearer, "memes")]
    growing.publish(0, posts=30)
    page = listing(growing, fetch, bearer, f"/r/memes/new?limit=100&before={before[0]}&raw_json=1")
    fresh = [child["data"] for child in page["children"]]
    posts = list(all_posts(growing, fetch, bearer, "memes"))
    assert [post["name"] for post in posts] == [*(post["name"] for post in fresh), *before]
    assert len(fresh) == 30
    assert [post["created_utc"] for post in posts] == sorted((post["created_utc"] for post in posts), reverse=True)
    truth = {meme.id: meme for meme in growing.served(hashes=True) if meme.late and meme.source == "reddit"}
    pictures = [post for post in fresh if f"reddit:{post['id']}" in truth]
    assert len(pictures) > 15
    for post in pictures[:5]:
        meme = truth[f"reddit:{post['id']}"]
        assert post["url"] == meme.image_url
        assert hashlib.sha256(fetch(meme.image_url).body).hexdigest() == meme.sha256


def test_published_memes_have_variety_too() -> None:
    with Internet(memes=12, posts=20, variety=True) as various:
        various.publish(130)
        kinds = Counter(meme.kind for meme in various.served() if meme.late)
    assert kinds == {"still": 110, "animated": 10, "several": 10}
