"""What spiders yield: records, and notes for later crawls."""

from dataclasses import dataclass

from scrapy.exceptions import DropItem

from memeloom.catalog.records import Meme, Template


@dataclass(frozen=True, slots=True)
class Picture:
    """The result of the request for a record's picture.

    Attributes:
        data: the bytes; None if the request failed.
        declared: the content type that the host stated.
    """

    data: bytes | None
    declared: str | None = None


@dataclass(frozen=True, slots=True)
class MemeItem:
    """A meme, as a page shows it.

    Attributes:
        picture: None until `meme.image_url` was requested, as when a page yields the item.
        fallback_url: a smaller copy of the picture, requested if the picture itself fails.
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
    """A note for later crawls, such as the newest posts of a listing; stored once its page is finished."""

    name: str
    value: str


class NotLanded(DropItem):
    """An item dropped because the crawl stops; the request that yielded it returns to the queue."""
