"""Reddit's listings (`t3` posts as JSON): which of them are pictures, and where each picture is."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

from scrapers.pages.layout import LayoutChanged

SITE = "reddit"
BASE = "https://www.reddit.com"

_PICTURE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")
_VIDEO_HOSTS = frozenset({"v.redd.it", "youtube.com", "www.youtube.com", "youtu.be", "gfycat.com", "redgifs.com"})


@dataclass(frozen=True, slots=True)
class PostedImage:
    """One picture of a post. `id` is the post's, with `_<n>` behind it for the n-th place of a gallery."""

    id: str
    page_url: str
    image_url: str
    title: str
    author: str | None
    score: int | None
    over_18: bool | None
    posted_at: datetime | None


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a listing. `skipped` counts posts (or places of a gallery) that are no picture, by reason.

    after: the cursor of the next page; None at the end.
    posts: how many children the page had.
    """

    images: tuple[PostedImage, ...]
    after: str | None
    posts: int
    skipped: Mapping[str, int] = field(default_factory=dict)


class _Skip(Exception):
    """A post that is no picture; its text is the reason."""


def parse_listing(body: str | bytes, url: str) -> Listing:
    """One page of `/r/<sub>/<sort>`.

    Raises:
        LayoutChanged: not the JSON of a listing.
    """
    try:
        answer = json.loads(body)
        children, after = answer["data"]["children"], answer["data"]["after"]
        posts = [(child["kind"], child["data"]) for child in children]
    except (ValueError, KeyError, TypeError):
        raise LayoutChanged(SITE, "data.children[]", url) from None
    skipped: Counter[str] = Counter()
    images: list[PostedImage] = []
    for kind, post in posts:
        if kind != "t3":
            skipped["not a post"] += 1
            continue
        found, reasons = parse_post(post)
        images += found
        skipped.update(reasons)
    return Listing(tuple(images), after, len(posts), skipped)


def parse_post(post: Mapping[str, Any]) -> tuple[list[PostedImage], list[str]]:
    """The pictures of one `t3` object, and why others of its places (or all of it) were skipped.

    A crosspost stands for the post that it repeats: the picture keeps one id wherever it is posted.
    """
    try:
        while parents := post.get("crosspost_parent_list"):
            _check_kept(post)
            post = parents[0]
        _check_kept(post)
        if post.get("is_gallery"):
            return _gallery(post)
        return [_image(post, str(post["id"]), _single_url(post))], []
    except _Skip as reason:
        return [], [str(reason)]
    except (KeyError, TypeError, AttributeError, ValueError):
        return [], ["unreadable post"]


def _check_kept(post: Mapping[str, Any]) -> None:
    if post.get("removed_by_category") is not None or post.get("removed"):
        raise _Skip("removed")
    if post.get("author") in (None, "[deleted]"):
        raise _Skip("deleted")


def _single_url(post: Mapping[str, Any]) -> str:
    if post.get("is_self"):
        raise _Skip("text post")
    url = _unescape(post.get("url_overridden_by_dest") or post["url"])
    parts = urlsplit(url)
    if post.get("is_video") or parts.hostname in _VIDEO_HOSTS or parts.path.endswith((".gifv", ".mp4", ".webm")):
        raise _Skip("video")
    if parts.scheme not in ("http", "https") or not parts.path.lower().endswith(_PICTURE_ENDINGS):
        raise _Skip("link")
    return url


def _gallery(post: Mapping[str, Any]) -> tuple[list[PostedImage], list[str]]:
    items = (post.get("gallery_data") or {}).get("items") or ()
    media = post.get("media_metadata") or {}
    if not items or not media:
        raise _Skip("gallery without pictures")
    images, reasons = [], []
    for place, item in enumerate(items, start=1):
        entry = media.get(item["media_id"]) or {}
        source = entry.get("s") or {}
        if item.get("is_deleted") or entry.get("status") != "valid":
            reasons.append("removed gallery picture")
        elif entry.get("e") == "Image" and source.get("u"):
            images.append(_image(post, f"{post['id']}_{place}", _unescape(source["u"])))
        else:
            reasons.append("video")
    return images, reasons


def _image(post: Mapping[str, Any], image_id: str, url: str) -> PostedImage:
    created = post.get("created_utc")
    return PostedImage(
        id=image_id,
        page_url=urljoin(BASE, post["permalink"]),
        image_url=url,
        title=_unescape(post["title"]),
        author=post["author"],
        score=post.get("score"),
        over_18=post.get("over_18"),
        posted_at=datetime.fromtimestamp(float(created), UTC) if created else None,
    )


def _unescape(text: str) -> str:
    """Undo what Reddit escapes when it is not asked for `raw_json`: these three and no other entity."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
