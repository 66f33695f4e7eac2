"""Reddit's listings: pictures in order, crossposts once, and a counted reason for everything else."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from memeloom.scrapers.errors import LayoutChanged
from memeloom.scrapers.pages import reddit

URL = "https://oauth.reddit.com/r/memes/new"


def post(**facts: Any) -> dict[str, Any]:
    return {
        "id": "abc1", "permalink": "/r/memes/comments/abc1/a/", "url": "https://i.redd.it/x.jpg", "title": "A title",
        "author": "someone", "score": 12, "over_18": False, "created_utc": 1700000000.0, "is_self": False,
        "removed_by_category": None,
    } | facts  # fmt: skip


def listing(*posts: dict[str, Any], after: str | None = None, kind: str = "t3") -> reddit.Listing:
    children = [{"kind": kind, "data": facts} for facts in posts]
    return reddit.parse_listing(json.dumps({"kind": "Listing", "data": {"after": after, "children": children}}), URL)


def test_a_picture_is_read_without_post_hint() -> None:
    page = listing(post(), after="t3_abc1")
    (image,) = page.images
    assert (image.id, image.title, image.score, image.over_18) == ("abc1", "A title", 12, False)
    assert image.image_url == "https://i.redd.it/x.jpg"
    assert image.page_url == "https://www.reddit.com/r/memes/comments/abc1/a/"
    assert image.posted_at is not None
    assert image.posted_at.isoformat() == "2023-11-14T22:13:20+00:00"
    assert (page.after, page.posts) == ("t3_abc1", 1)


def test_escaped_addresses_are_unescaped_and_nothing_else_is_mistaken_for_an_entity() -> None:
    url = "https://preview.redd.it/x.png?width=640&amp;copy=1&amp;s=1"
    assert listing(post(url=url)).images[0].image_url == "https://preview.redd.it/x.png?width=640&copy=1&s=1"


def test_a_gallery_gives_its_pictures_in_order_and_counts_the_missing() -> None:
    media = {
        "m1": {
            "status": "valid",
            "e": "Image",
            "m": "image/jpg",
            "s": {"u": "https://preview.redd.it/1.jpg?a=1&amp;b=2"},
        },
        "m2": {"status": "failed"},
        "m3": {"status": "valid", "e": "AnimatedImage", "s": {"mp4": "https://preview.redd.it/3.mp4"}},
        "m4": {"status": "valid", "e": "Image", "m": "image/png", "s": {"u": "https://preview.redd.it/4.png"}},
        "m5": {"status": "valid", "e": "Image", "s": {"u": "https://preview.redd.it/5.png"}},
        "m6": {
            "status": "valid",
            "e": "AnimatedImage",
            "s": {"gif": "https://i.redd.it/6.gif", "mp4": "https://preview.redd.it/6.gif?format=mp4"},
        },
        "m7": {"status": "valid", "e": "RedditVideo", "dashUrl": "https://v.redd.it/7/DASHPlaylist.mpd"},
    }
    items: list[dict[str, Any]] = [{"media_id": name} for name in ("m4", "m2", "m1", "m3")]
    items += [{"media_id": "m5", "is_deleted": True}, {"media_id": "m6", "caption": " both &amp; "}]
    items += [{"media_id": "m7"}, {"media_id": "gone"}]
    page = listing(post(is_gallery=True, gallery_data={"items": items}, media_metadata=media))
    assert [(image.id, image.image_url) for image in page.images] == [
        ("abc1_1", "https://preview.redd.it/4.png"),
        ("abc1_3", "https://preview.redd.it/1.jpg?a=1&b=2"),
        ("abc1_4", "https://preview.redd.it/3.mp4"),
        ("abc1_6", "https://i.redd.it/6.gif"),
    ]
    assert page.skipped == {"removed gallery picture": 3, "video": 1}


@pytest.mark.parametrize(
    ("facts", "address"),
    [
        ({"url": "https://i.redd.it/x.gif"}, "https://i.redd.it/x.gif"),
        ({"url": "http://imgur.com/NyPnrCa.gifv"}, "https://i.imgur.com/NyPnrCa.mp4"),
        (
            {
                "is_video": True,
                "url": "https://v.redd.it/abc",
                "media": {
                    "reddit_video": {"is_gif": True, "fallback_url": "https://v.redd.it/abc/DASH_720.mp4?a&amp;b"}
                },
            },
            "https://v.redd.it/abc/DASH_720.mp4?a&b",
        ),
        (
            {
                "url": "https://gfycat.com/some",
                "preview": {
                    "reddit_video_preview": {"is_gif": True, "fallback_url": "https://v.redd.it/d/DASH_480.mp4"}
                },
            },
            "https://v.redd.it/d/DASH_480.mp4",
        ),
    ],
)
def test_what_was_posted_as_a_gif_is_a_picture(facts: dict[str, Any], address: str) -> None:
    (image,) = listing(post(**facts)).images
    assert image.image_url == address


def test_the_newest_post_is_known_whatever_the_order() -> None:
    page = listing(post(id="zz1"), post(id="100a", is_self=True), post(id="zzz", author="[deleted]"))
    assert page.names == ("t3_zz1", "t3_100a", "t3_zzz")
    assert page.newest == "t3_100a"
    assert listing().newest is None
    assert reddit.age_rank("t3_100a") > reddit.age_rank("zzz")


def test_a_crosspost_stands_for_the_post_that_it_repeats() -> None:
    original = post(id="orig", title="The original", permalink="/r/other/comments/orig/t/")
    (image,) = listing(post(crosspost_parent_list=[original])).images
    assert (image.id, image.title) == ("orig", "The original")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"removed_by_category": "moderator"}, "removed"),
        ({"author": "[deleted]"}, "deleted"),
        ({"is_self": True}, "text post"),
        ({"is_video": True, "url": "https://v.redd.it/abc"}, "video"),
        (
            {"is_video": True, "url": "https://v.redd.it/a", "media": {"reddit_video": {"fallback_url": "https://b"}}},
            "video",
        ),
        ({"url": "https://example.com/abc.gifv"}, "video"),
        ({"url": "https://example.com/abc.mp4", "media": None, "preview": None}, "video"),
        ({"banned_by": "a moderator"}, "removed"),
        ({"author": None}, "deleted"),
        ({"id": "not one"}, "unreadable post"),
        ({"created_utc": 1e30}, "unreadable post"),
        ({"url": "https://example.com/article"}, "link"),
        ({"url": "ftp://example.com/a.jpg"}, "link"),
        ({"is_gallery": True}, "gallery without pictures"),
        ({"is_gallery": True, "gallery_data": {"items": [1]}, "media_metadata": {"a": {}}}, "unreadable post"),
        ({"crosspost_parent_list": [post(removed_by_category="deleted")]}, "removed"),
        ({"title": None}, "unreadable post"),
    ],
)
def test_everything_that_is_no_picture_is_counted_by_reason(facts: dict[str, Any], reason: str) -> None:
    page = listing(post(**facts))
    assert page.images == ()
    assert page.skipped == {reason: 1}


def test_comments_among_the_posts_are_counted() -> None:
    assert listing({"body": "hi"}, kind="t1").skipped == {"not a post": 1}


@pytest.mark.parametrize(
    "body",
    ["", "<html>blocked</html>", "[]", "5", '{"data": {"children": {}}}', '{"message": "Forbidden", "error": 403}'],
)
def test_an_answer_of_another_form_is_refused(body: str) -> None:
    with pytest.raises(LayoutChanged, match="reddit"):
        reddit.parse_listing(body, URL)


@pytest.mark.parametrize("child", [None, 5, "t3", {}, {"kind": "t3"}, {"kind": "t3", "data": []}])
def test_a_child_that_cannot_be_read_costs_itself_only(child: object) -> None:
    good = {"kind": "t3", "data": post()}
    page = reddit.parse_listing(json.dumps({"data": {"children": [child, good], "after": None}}), URL)
    assert [image.id for image in page.images] == ["abc1"]
    assert page.skipped == {"unreadable post": 1}


def test_numbers_of_another_kind_are_left_out() -> None:
    (image,) = listing(post(score="many", over_18=None, created_utc="1700000000")).images
    assert (image.score, image.over_18) == (None, None)
    assert image.posted_at is not None
    assert image.posted_at.year == 2023


def test_real_listings_are_read_post_by_post(real_data: Path) -> None:
    posts, skipped = 0, Counter[str]()
    images: list[reddit.PostedImage] = []
    for path in sorted((real_data / "pages" / "reddit").glob("*/*.json")):
        body = path.read_bytes()
        answer = json.loads(body)
        if isinstance(answer, dict) and answer.get("kind") == "Listing":
            page = reddit.parse_listing(body, path.name)
            posts += page.posts
            images += page.images
            skipped.update(page.skipped)
    assert posts > 1300
    assert len(images) > 250
    assert skipped["unreadable post"] == 0
    assert {image.image_url.partition(":")[0] for image in images} <= {"http", "https"}
    assert "&amp;" not in "".join(image.image_url for image in images)
