"""The miniature Reddit: nothing without a token, a rate limit that is told, and listings in the shape of saved ones."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memeloom.demo.internet import Internet
from tests.demo.reddit_client import all_posts, bearer_of, listing, token

Fetch: TypeAlias = Callable[..., Any]


@pytest.fixture(scope="module")
def bearer(internet: Internet, fetch: Fetch) -> dict[str, str]:
    answer = json.loads(token(internet, fetch).body)
    assert answer["token_type"] == "bearer"
    assert answer["expires_in"] == 3600
    return {"Authorization": f"Bearer {answer['access_token']}"}


def test_without_a_token_listings_are_refused(internet: Internet, fetch: Fetch) -> None:
    assert fetch(internet.url("reddit", "/r/memes/new.json")).status == 403
    assert fetch(internet.url("reddit_api", "/r/memes/new")).status == 401
    wrong = {"Authorization": "Bearer nonsense"}
    assert fetch(internet.url("reddit_api", "/r/memes/new"), headers=wrong).status == 401


def test_a_token_needs_the_right_secret_and_grant(internet: Internet, fetch: Fetch) -> None:
    assert token(internet, fetch, secret="wrong").status == 401
    assert json.loads(token(internet, fetch, grant="password").body) == {"error": "unsupported_grant_type"}
    assert fetch(internet.url("reddit", "/api/v1/access_token"), method="POST").status == 401


def test_a_token_expires(fetch: Fetch) -> None:
    with Internet(memes=12, token_seconds=0) as brief:
        answer = json.loads(token(brief, fetch).body)
        headers = {"Authorization": f"Bearer {answer['access_token']}"}
        assert fetch(brief.url("reddit_api", "/r/memes/new"), headers=headers).status == 401


def test_the_rate_limit_headers_count_down(internet: Internet, fetch: Fetch, bearer: dict[str, str]) -> None:
    url = internet.url("reddit_api", "/r/memes/new?limit=1")
    first, second = (fetch(url, headers=bearer).headers for _ in range(2))
    assert float(second["x-ratelimit-remaining"]) == float(first["x-ratelimit-remaining"]) - 1
    assert int(second["x-ratelimit-used"]) == int(first["x-ratelimit-used"]) + 1
    assert 0 <= int(first["x-ratelimit-reset"]) <= 600


def test_an_exhausted_rate_limit_is_a_429(fetch: Fetch) -> None:
    with Internet(memes=12, reddit_requests=2) as strict:
        headers = {"Authorization": f"Bearer {json.loads(token(strict, fetch).body)['access_token']}"}
        answers = [fetch(strict.url("reddit_api", "/r/memes/new"), headers=headers) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert answers[2].headers["x-ratelimit-remaining"] == "0.0"


@pytest.mark.parametrize("subreddit", ["memes", "dankmemes"])
def test_paging_gives_every_post_once_newest_first(
    internet: Internet, fetch: Fetch, bearer: dict[str, str], subreddit: str
) -> None:
    posts = list(all_posts(internet, fetch, bearer, subreddit))
    assert len({post["name"] for post in posts}) == len(posts) == 45
    assert [post["created_utc"] for post in posts] == sorted((post["created_utc"] for post in posts), reverse=True)
    numbers = [int(post["id"], 36) for post in posts]
    assert numbers == sorted(numbers, reverse=True)


def test_before_selects_posts_newer_than_a_known_one(internet: Internet, fetch: Fetch, bearer: dict[str, str]) -> None:
    names = [post["name"] for post in all_posts(internet, fetch, bearer, "memes")]
    page = listing(internet, fetch, bearer, f"/r/memes/new?limit=5&before={names[3]}")
    assert [child["data"]["name"] for child in page["children"]] == names[:3]


@pytest.mark.parametrize("sort", ["hot", "top", "rising"])
def test_other_orders_hold_posts_of_the_same_subreddit(
    internet: Internet, fetch: Fetch, bearer: dict[str, str], sort: str
) -> None:
    page = listing(internet, fetch, bearer, f"/r/memes/{sort}?limit=100")
    known = {post["name"] for post in all_posts(internet, fetch, bearer, "memes")}
    assert {child["data"]["name"] for child in page["children"]} <= known
    if sort == "top":
        scores = [child["data"]["score"] for child in page["children"]]
        assert scores == sorted(scores, reverse=True)


def test_posts_have_the_fields_of_the_saved_ones(
    internet: Internet, fetch: Fetch, bearer: dict[str, str], real_data: Path
) -> None:
    saved = json.loads((real_data / "pages" / "reddit" / "zeek00" / "bestDataExample.json").read_text())
    known = {name for child in saved["data"]["children"] for name in child["data"]}
    galleries = {"is_gallery", "gallery_data", "media_metadata", "crosspost_parent", "crosspost_parent_list"}
    for post in all_posts(internet, fetch, bearer, "memes"):
        assert set(post) - known <= galleries


def test_listings_hold_all_kinds_of_posts(internet: Internet, fetch: Fetch, bearer: dict[str, str]) -> None:
    kinds: Counter[str] = Counter()
    for post in all_posts(internet, fetch, bearer, "dankmemes"):
        kinds["hint"] += "post_hint" in post
        kinds["gallery"] += bool(post.get("is_gallery"))
        kinds["crosspost"] += bool(post.get("crosspost_parent_list"))
        kinds["removed"] += post["removed_by_category"] is not None
        kinds["deleted"] += post["author"] == "[deleted]"
        kinds["nsfw"] += post["over_18"]
        kinds["text"] += post["is_self"]
        kinds["video"] += post["is_video"]
    assert all(kinds[kind] >= 2 for kind in ("gallery", "crosspost", "removed", "deleted", "nsfw", "text", "video"))
    assert kinds["hint"] < 15


def test_captions_are_in_the_pictures_only_which_equal_the_ground_truth(
    internet: Internet, fetch: Fetch, bearer: dict[str, str]
) -> None:
    truth = [meme for meme in internet.served(hashes=True) if meme.source == "reddit"]
    assert len({meme.id for meme in truth}) == len(truth) > 60
    posts = {post["id"]: post for name in ("memes", "dankmemes") for post in all_posts(internet, fetch, bearer, name)}
    for meme in truth:
        post = posts[meme.id.removeprefix("reddit:").partition("_")[0]]
        assert (post["title"], post["score"], post["over_18"]) == (meme.title, meme.score, meme.over_18)
        assert meme.page_url.endswith(post["permalink"])
        text = json.dumps(post).lower()
        assert not any(box.lower() in text for box in meme.boxes if len(box) > 8)
    for meme in truth[::6]:
        assert hashlib.sha256(fetch(meme.image_url).body).hexdigest() == meme.sha256


def test_a_gallery_has_an_order_a_caption_and_a_removed_picture(
    internet: Internet, fetch: Fetch, bearer: dict[str, str]
) -> None:
    truth = {meme.id for meme in internet.served()}
    gallery = next(post for post in all_posts(internet, fetch, bearer, "memes") if post.get("is_gallery"))
    items = gallery["gallery_data"]["items"]
    states = [gallery["media_metadata"][item["media_id"]]["status"] for item in items]
    assert states == ["valid", "failed", "valid"]
    assert [item.get("is_deleted", False) for item in items] == [False, True, False]
    assert {f"reddit:{gallery['id']}_1", f"reddit:{gallery['id']}_3"} <= truth
    assert f"reddit:{gallery['id']}_2" not in truth


def test_a_crosspost_contains_its_parent(internet: Internet, fetch: Fetch, bearer: dict[str, str]) -> None:
    parents = {post["name"]: post for post in all_posts(internet, fetch, bearer, "memes")}
    cross = next(post for post in all_posts(internet, fetch, bearer, "dankmemes") if "crosspost_parent" in post)
    assert cross["crosspost_parent_list"] == [parents[cross["crosspost_parent"]]]
    assert f"reddit:{cross['id']}" not in {meme.id for meme in internet.served()}


def test_texts_are_escaped_unless_raw_json_is_asked_for(
    internet: Internet, fetch: Fetch, bearer: dict[str, str]
) -> None:
    raw, escaped = (
        json.dumps(listing(internet, fetch, bearer, f"/r/memes/new?limit=100{query}")) for query in ("&raw_json=1", "")
    )
    assert "&amp;" not in raw
    assert "format=pjpg&auto=webp" in raw
    assert "format=pjpg&amp;auto=webp" in escaped


def test_an_unknown_subreddit_is_a_404(internet: Internet, fetch: Fetch, bearer: dict[str, str]) -> None:
    answer = fetch(internet.url("reddit_api", "/r/nosuchplace/new"), headers=bearer)
    assert answer.status == 404
    assert json.loads(answer.body) == {"message": "Not Found", "error": 404}


def test_the_rate_limit_resets_after_its_window(fetch: Fetch) -> None:
    with Internet(memes=12, reddit_requests=1, reddit_window=0.3) as hasty:
        bearer, url = bearer_of(hasty, fetch), hasty.url("reddit_api", "/r/memes/new")
        first, second = fetch(url, headers=bearer), fetch(url, headers=bearer)
        assert (first.status, second.status) == (200, 429)
        assert first.headers["x-ratelimit-reset"] == "1", "never less than there is to wait"
        deadline = time.monotonic() + 10
        while fetch(url, headers=bearer).status == 429:
            assert time.monotonic() < deadline, "the window does not end"
            time.sleep(0.05)
