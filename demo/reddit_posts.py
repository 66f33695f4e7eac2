"""The posts of the miniature Reddit, in the shape of the `t3` objects that its API sends."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeAlias

from memeloom.demo.corpus import Blank, Corpus, base36, invent_author
from memeloom.demo.options import Options

SITE = "https://www.reddit.com"

Kind: TypeAlias = Literal[
    "image", "gif", "gallery", "album", "crosspost", "removed", "deleted", "text", "link", "video"
]  # fmt: skip
State: TypeAlias = Literal["valid", "failed", "withdrawn", "lost"]

_FIRST_ID = int("1k00000", 36)
_NEWEST = 1_760_000_000  # Unix time; each older post is an hour older
_ODD_KINDS: Mapping[int, Kind] = {
    3: "gallery", 6: "text", 8: "removed", 12: "crosspost", 14: "video", 16: "deleted", 18: "link",
}  # fmt: skip
_VARIETY: Mapping[int, Kind] = {1: "album", 5: "gif"}
_CYCLE = 20
_NSFW_PLACE = 10
_SHAPES: Mapping[Kind, Sequence[State]] = {
    "gallery": ("valid", "withdrawn", "valid"),
    "album": ("valid", "lost", "valid", "failed", "withdrawn", "valid"),
}  # a withdrawn picture has two marks, a lost one has one, a failed one only its status
_WITHOUT_PICTURE: frozenset[Kind] = frozenset({"crosspost", "text", "link", "video"})
_MOST_PICTURES = 6
_MOST_FURTHER = 7  # pictures of galleries beyond the first in each turn of kinds: two and five
_TITLES = (
    "found this one today", "it do be like that", "my first post, be kind", "who made this & why",
    "I made this at work", "the last one is me", "stolen from my sister", "happy monday everyone",
    "<sigh>", "no context", "this took me two hours", "am I doing this right",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PostPicture:
    """A picture on the image host: its name, and its template and texts."""

    name: str
    blank: Blank
    boxes: tuple[str, ...]
    suffix: str = "jpg"


@dataclass(frozen=True, slots=True)
class Submission:
    """A post. `pictures` may be empty; a crosspost shows those of its `parent`."""

    id: str
    subreddit: str
    kind: Kind
    title: str
    author: str
    score: int
    created: int
    over_18: bool
    pictures: tuple[PostPicture, ...] = ()
    parent: "Submission | None" = None
    late: bool = False

    @property
    def fullname(self) -> str:
        """Return its name in listings."""
        return f"t3_{self.id}"

    @property
    def permalink(self) -> str:
        """Return its path on the site."""
        slug = "_".join(word for word in self.title.lower().split() if word.isalnum()) or "post"
        return f"/r/{self.subreddit}/comments/{self.id}/{slug}/"

    @property
    def states(self) -> Sequence[State]:
        """Return the state of each of its pictures."""
        return _SHAPES.get(self.kind) or ["valid"] * len(self.pictures)


class RedditPosts:
    """The posts of every subreddit, newest first; published posts continue the cycle of kinds."""

    def __init__(self, corpus: Corpus, options: Options) -> None:
        self._corpus = corpus
        self._options = options
        self._kinds = {**_ODD_KINDS, **(_VARIETY if options.variety else {})}
        self._step = max(97, len(options.subreddits) * 31)
        self.posts: dict[str, list[Submission]] = {}
        self.late = dict.fromkeys(options.subreddits, 0)
        for number, subreddit in enumerate(options.subreddits):
            self.posts[subreddit] = [self._submission(number, place) for place in range(options.posts)]
        self._parents = list(next(iter(self.posts.values()), []))

    def publish(self, late: Mapping[str, int]) -> list[Submission]:
        """Add new posts at the top and return them. late: how many, by subreddit."""
        fresh = []
        for number, subreddit in enumerate(self._options.subreddits):
            for _ in range(late.get(subreddit, 0)):
                self.late[subreddit] += 1
                fresh.append(self._submission(number, -self.late[subreddit]))
                self.posts[subreddit].insert(0, fresh[-1])
        return fresh

    def _submission(self, number: int, place: int) -> Submission:
        """Return the post at `place` of the `number`-th subreddit; places of late posts are negative."""
        rng = Random(f"{self._options.seed}/reddit/{number}/{place}")
        kind = self._kinds.get(place % _CYCLE, "image")
        parent = self._parent(number, place) if kind == "crosspost" else None
        if kind == "crosspost" and parent is None:
            kind = "image"
        extra = self._extra_captions(number, place, len(_SHAPES.get(kind, "?"))) if kind not in _WITHOUT_PICTURE else ()
        return Submission(
            id=base36(_FIRST_ID + (self._options.posts - place) * self._step + number * 31 + rng.randrange(30)),
            subreddit=self._options.subreddits[number],
            kind=kind,
            title=rng.choice(_TITLES),
            author="[deleted]" if kind == "deleted" else invent_author(rng) or "quiet_reader",
            score=int(rng.lognormvariate(5, 1.5)),
            created=_NEWEST - place * 3600,
            over_18=place % _CYCLE == _NSFW_PLACE,
            pictures=tuple(self._drawn(number, "gif" if kind == "gif" else "jpg") for number in extra),
            parent=parent,
            late=place < 0,
        )

    def _parent(self, number: int, place: int) -> Submission | None:
        """Return the post that a crosspost repeats: one of the first subreddit, present since the start."""
        first = self.posts.get(self._options.subreddits[0], []) if number else []
        if place < 0:
            first, place = self._parents, place % _CYCLE
        return first[place - 1] if 0 < place <= len(first) else None

    def _extra_captions(self, number: int, place: int, count: int) -> Sequence[int]:
        """Return the numbers of the captions of its `count` pictures; negative for late posts."""
        posts, subreddits = self._options.posts, len(self._options.subreddits)
        if place < 0:
            first = -((-place - 1) * subreddits + number + 1) * _MOST_PICTURES
            return range(first, first + count)
        cycle = number * (posts // _CYCLE + 1) + place // _CYCLE
        further = subreddits * posts + cycle * _MOST_FURTHER + (0 if count < _MOST_PICTURES else 2)
        return [number * posts + place, *range(further, further + count - 1)]

    def _drawn(self, number: int, suffix: str) -> PostPicture:
        blank, boxes = self._corpus.extra_caption(number)
        name = base36(int.from_bytes(hashlib.sha256(f"picture {number}".encode()).digest()[:9], "big"))
        return PostPicture(name[:13], blank, boxes, suffix)


def captions_used(options: Options) -> int:
    """Return the number of extra captions that `RedditPosts` uses before anything is published."""
    return len(options.subreddits) * (options.posts + _MOST_FURTHER * (options.posts // _CYCLE + 1))


def as_t3(post: Submission, images: str) -> dict[str, Any]:
    """Return `post` as the `data` of a `t3` object; `images` is the base URL of the image host."""
    parent: dict[str, Any] = {}
    if post.parent:
        parent = {"crosspost_parent": post.parent.fullname, "crosspost_parent_list": [as_t3(post.parent, images)]}
    gone = {"removed_by_category": "moderator", "selftext": "[removed]"} if post.kind == "removed" else {}
    return {
        "approved_at_utc": None, "subreddit": post.subreddit, "selftext": "", "saved": False, "gilded": 0,
        "title": post.title, "subreddit_name_prefixed": f"r/{post.subreddit}", "hidden": False, "downs": 0,
        "name": post.fullname, "quarantine": False, "upvote_ratio": 0.9, "ups": post.score, "score": post.score,
        "is_original_content": False, "is_reddit_media_domain": bool(post.pictures), "is_self": post.kind == "text",
        "created": float(post.created), "created_utc": float(post.created), "removed_by_category": None,
        "over_18": post.over_18, "spoiler": False, "locked": False, "stickied": False, "media": None,
        "subreddit_id": "t5_2qjpg", "id": post.id, "author": post.author, "num_comments": post.score // 9,
        "permalink": post.permalink, "url": f"{SITE}{post.permalink}", "is_video": post.kind == "video",
        **_content(post, images), **gone, **parent,
    }  # fmt: skip


def _content(post: Submission, images: str) -> dict[str, Any]:
    match post.kind:
        case "gallery" | "album":
            return {"is_gallery": True, "domain": "reddit.com", **_gallery(post, images)}
        case "text":
            return {"domain": f"self.{post.subreddit}", "selftext": "what is your favourite template?"}
        case "link":
            return _linked("example.com", "https://example.com/articles/memes")
        case "video":
            return _linked("v.redd.it", f"https://v.redd.it/{post.id}")
        case "crosspost" if post.parent:
            return _content(post.parent, images)
    address = picture_address(post.pictures[0], images)
    hint = {"post_hint": "image"} if int(post.id, 36) % 8 == 0 else {}
    return {**_linked("i.redd.it", address), **hint}


def _linked(domain: str, url: str) -> dict[str, Any]:
    return {"domain": domain, "url": url, "url_overridden_by_dest": url}


def _gallery(post: Submission, images: str) -> dict[str, Any]:
    """Return gallery fields, in the order of the items, not of the metadata; some pictures were withdrawn or lost."""
    items: list[dict[str, Any]] = []
    media: dict[str, Any] = {}
    for number, (drawn, state) in reversed(list(enumerate(zip(post.pictures, post.states, strict=True)))):
        extra: dict[str, Any] = {"caption": "swipe"} if number == len(post.pictures) - 1 else {}
        if state in ("withdrawn", "lost"):
            extra = {"is_deleted": True}
        items.insert(0, {"media_id": drawn.name, "id": int(post.id, 36) % 1_000_000 + number, **extra})
        if state == "lost":
            continue
        source = {"y": 400, "x": 500, "u": picture_address(drawn, images, preview=True)}
        media[drawn.name] = {
            "status": "valid" if state == "valid" else "failed", "e": "Image", "m": "image/jpg", "s": source, "p": [],
            "id": drawn.name,
        }  # fmt: skip
    return {"gallery_data": {"items": items}, "media_metadata": media, "url": f"{SITE}/gallery/{post.id}"}


def picture_address(drawn: PostPicture, images: str, *, preview: bool = False) -> str:
    """Return the URL of the picture; `images` is the base URL of the host, galleries show a `preview`."""
    address = f"{images}/{drawn.name}.{drawn.suffix}"
    return f"{address}?width=500&format=pjpg&auto=webp&s={drawn.name}" if preview else address
