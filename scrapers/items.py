"""What spiders yield: records, and notes for the next crawl."""

from dataclasses import dataclass

from scrapy.exceptions import DropItem

from memeloom.catalog.records import Meme, Template


@dataclass(frozen=True, slots=True)
class Picture:
    """What became of the request for a record's picture; `data` is None if it cannot be had.

    declared: the content type that the host stated.
    """

    data: bytes | None
    declared: str | None = None


@dataclass(frozen=True, slots=True)
class MemeItem:
    """A meme, as a page shows it.

    picture: None as long as `meme.image_url` was not asked for: a page yields it so.
    fallback_url: a smaller copy of the picture, for when the picture itself cannot be had.
    """

    meme: Meme
    picture: Picture | None = None
    fallback_url: str | None = None


@dataclass(frozen=True, slots=True)
class TemplateItem:
    """A template, as a page shows it; `picture` as in `MemeItem`."""

    template: Template
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A note that outlives the crawl, such as the newest posts of a listing; kept once its page is done."""

    name: str
    value: str


class NotLanded(DropItem):
    """An item that is not kept because the crawl stops; the request that brought it comes back."""
