"""What stands on the miniature Reddit: posts by subreddit, in the shape of the `t3` objects that its API sends."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeAlias

from demo.corpus import Blank, Corpus, base36, invent_author

SUBREDDITS = ("memes", "dankmemes")
SITE = "https://www.reddit.com"

Kind: TypeAlias = Literal["image", "gallery", "crosspost", "removed", "deleted", "text", "link", "video"]

_FIRST_ID = int("1k00000", 36)
_NEWEST = 1_760_000_000  # seconds since 1970; each older post is an hour older
_ODD_KINDS: Mapping[int, Kind] = {
    3: "gallery", 6: "text", 8: "removed", 12: "crosspost", 14: "video", 16: "deleted", 18: "link",
}  # fmt: skip
_CYCLE = 20
_NSFW_PLACE = 10
_GALLERY_PICTURES = 3
_TITLES = (
    "found this one today", "it do be like that", "my first post, be kind", "who made this & why",
    "I made this at work", "the last one is me", "stolen from my sister", "happy monday everyone",
    "<sigh>", "no context", "this took me two hours", "am I doing this right",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture on the image host: its name there, and what it is drawn from."""

    name: str
    blank: Blank
    boxes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Submission:
    """A post. `pictures` is empty for what shows none; a crosspost shows those of its `parent`."""

    id: str
    subreddit: str
    kind: Kind
    title: str
    author: str
    score: int
    created: int
    over_18: bool
    pictures: tuple[Drawn, ...] = ()
    parent: "Submission | None" = None

    @property
    def fullname(self) -> str:
        """Its name in listings."""
        return f"t3_{self.id}"

    @property
    def permalink(self) -> str:
        """Its path on the site."""
        slug = "_".join(word for word in self.title.lower().split() if word.isalnum()) or "post"
        return f"/r/{self.subreddit}/comments/{self.id}/{slug}/"


def make_submissions(corpus: Corpus, count: int, seed: int) -> dict[str, list[Submission]]:
    """`count` posts in each subreddit, newest first."""
    found: dict[str, list[Submission]] = {}
    for number, subreddit in enumerate(SUBREDDITS):
        others = found.get(SUBREDDITS[0], [])
        found[subreddit] = [_submission(corpus, number, place, count, seed, others) for place in range(count)]
    return found


def spares_used(count: int) -> int:
    """How many of the corpus's spare captions `make_submissions` draws."""
    total = len(SUBREDDITS) * count
    return total + (_GALLERY_PICTURES - 1) * (total // _CYCLE + 1)


def _submission(
    corpus: Corpus, number: int, place: int, count: int, seed: int, others: Sequence[Submission]
) -> Submission:
    chance = Random(f"{seed}/reddit/{number}/{place}")
    kind = _ODD_KINDS.get(place % _CYCLE, "image")
    parent = others[place - 1] if kind == "crosspost" and others else None
    if kind == "crosspost" and parent is None:
        kind = "image"
    turn = number * count + place
    spares = [turn] if kind in ("image", "gallery", "removed", "deleted") else []
    if kind == "gallery":
        further = len(SUBREDDITS) * count + turn // _CYCLE * (_GALLERY_PICTURES - 1)
        spares += range(further, further + _GALLERY_PICTURES - 1)
    return Submission(
        id=base36(_FIRST_ID + (count - place) * 97 + number * 31 + chance.randrange(30)),
        subreddit=SUBREDDITS[number],
        kind=kind,
        title=chance.choice(_TITLES),
        author="[deleted]" if kind == "deleted" else invent_author(chance) or "quiet_reader",
        score=int(chance.lognormvariate(5, 1.5)),
        created=_NEWEST - place * 3600,
        over_18=place % _CYCLE == _NSFW_PLACE,
        pictures=tuple(_drawn(corpus, spare) for spare in spares),
        parent=parent,
    )


def _drawn(corpus: Corpus, spare: int) -> Drawn:
    blank, boxes = corpus.spare(spare)
    name = base36(int.from_bytes(hashlib.sha256(f"picture {spare}".encode()).digest()[:9], "big"))
    return Drawn(name[:13], blank, boxes)


def pictures(submissions: Mapping[str, Sequence[Submission]]) -> Iterator[Drawn]:
    """Every picture of every post."""
    for posts in submissions.values():
        for post in posts:
            yield from post.pictures


def as_t3(post: Submission, images: str) -> dict[str, Any]:
    """`post` as the `data` of a `t3` object; `images` is the base address of the image host."""
    parent: dict[str, Any] = {}
    if post.parent:
        parent = {"crosspost_parent": post.parent.fullname, "crosspost_parent_list": [as_t3(post.parent, images)]}
    gone = {"removed_by_category": "moderator", "selftext": "[removed]"} if post.kind == "removed" else {}
    return {
        "approved_at_utc": None, "subreddit": post.subreddit, "selftext": "", "saved": False, "gilded": 0,
        "title": post.title, "subreddit_name_prefixed": f"r/{post.subreddit}", "hidden": False, "downs": 0,
        "name": post.fullname, "quarantine": False, "upvote_ratio": 0.9, "ups": post.score, "score": post.score,
        "is_original_content": False, "is_reddit_media_domain": post.kind == "image", "is_self": post.kind == "text",
        "created": float(post.created), "created_utc": float(post.created), "removed_by_category": None,
        "over_18": post.over_18, "spoiler": False, "locked": False, "stickied": False, "media": None,
        "subreddit_id": "t5_2qjpg", "id": post.id, "author": post.author, "num_comments": post.score // 9,
        "permalink": post.permalink, "url": f"{SITE}{post.permalink}", "is_video": post.kind == "video",
        **_content(post, images), **gone, **parent,
    }  # fmt: skip


def _content(post: Submission, images: str) -> dict[str, Any]:
    match post.kind:
        case "gallery":
            return {"is_gallery": True, "domain": "reddit.com", **_gallery(post, images)}
        case "text":
            return {"domain": f"self.{post.subreddit}", "selftext": "what is your favourite template?"}
        case "link":
            return _linked("example.com", "https://example.com/articles/memes")
        case "video":
            return _linked("v.redd.it", f"https://v.redd.it/{post.id}")
        case "crosspost" if post.parent:
            return _content(post.parent, images)
    address = f"{images}/{post.pictures[0].name}.jpg"
    hint = {"post_hint": "image"} if int(post.id, 36) % 8 == 0 else {}
    return {**_linked("i.redd.it", address), **hint}


def _linked(domain: str, url: str) -> dict[str, Any]:
    return {"domain": domain, "url": url, "url_overridden_by_dest": url}


def _gallery(post: Submission, images: str) -> dict[str, Any]:
    """Three pictures, one of which its author took back."""
    items: list[dict[str, Any]] = []
    media: dict[str, Any] = {}
    for number, drawn in enumerate(post.pictures):
        item = {"media_id": drawn.name, "id": int(post.id, 36) % 1_000_000 + number}
        items.append(item | ({"is_deleted": True} if number == 1 else {"caption": "swipe"} if number else {}))
        source = {"y": 400, "x": 500, "u": f"{images}/{drawn.name}.jpg?width=500&format=pjpg&auto=webp&s={drawn.name}"}
        media[drawn.name] = {
            "status": "failed" if number == 1 else "valid", "e": "Image", "m": "image/jpg", "s": source, "p": [],
            "id": drawn.name,
        }  # fmt: skip
    return {"gallery_data": {"items": items}, "media_metadata": media, "url": f"{SITE}/gallery/{post.id}"}
