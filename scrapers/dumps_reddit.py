"""Reddit's monthly dumps: one submission a line, the same `t3` objects that its API sends, and the same rules."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from memeloom.catalog.records import Meme
from memeloom.scrapers.pages.reddit import SITE, PostedImage, parse_post


class Passed(NamedTuple):
    """A record that was understood and is no meme: counted by its reason, and no problem."""

    reason: str


def read_submission(
    post: Mapping[str, Any], hash_author: Callable[[str | None], str | None]
) -> Iterator[Meme | Passed]:
    """The pictures of a submission as memes whose bytes are still to be fetched, and why others were passed over.

    Raises:
        ValidationError: a fact that no store could hold.
    """
    images, reasons = parse_post(post)
    seen = _time(post.get("retrieved_on") or post.get("retrieved_utc"))
    for image in images:
        yield _meme(image, hash_author(image.author), seen)
    yield from map(Passed, reasons)


def _meme(image: PostedImage, author: str | None, seen: datetime | None) -> Meme:
    return Meme(
        id=f"{SITE}:{image.id}",
        source=SITE,
        page_url=image.page_url,
        image_url=image.image_url,
        title=image.title,
        score=image.score,
        over_18=image.over_18,
        posted_at=image.posted_at,
        author=author,
        fetched_at=seen,
    )


def _time(seconds: object) -> datetime | None:
    """When the dump's maker looked, if the dump says so."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < 2**33:
        return datetime.fromtimestamp(seconds, UTC)
    return None
