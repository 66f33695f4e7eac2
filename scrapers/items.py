"""Items that spiders yield: records, and values for later crawls."""

from dataclasses import dataclass
from typing import TypeAlias

from scrapy.exceptions import DropItem

from memeloom.catalog.records import Meme, Template


@dataclass(frozen=True, slots=True)
class Picture:
    """A downloaded picture.

    Attributes:
        data: the bytes.
        declared: the Content-Type of the response.
    """

    data: bytes
    declared: str | None = None


@dataclass(frozen=True, slots=True)
class MemeItem:
    """A meme from a page.

    Attributes:
        fallback_url: a smaller copy, requested if the picture fails.
    """

    meme: Meme
    fallback_url: str | None = None


@dataclass(frozen=True, slots=True)
class MissingPicture:
    """The picture of memes that the catalog has without it.

    Attributes:
        meme: its id, source and picture's address only, so that facts stored meanwhile are kept.
        fallback_url: another address, requested if the picture fails.
        others: ids of more memes of that source with the same address.
    """

    meme: Meme
    fallback_url: str | None = None
    others: tuple[str, ...] = ()

    @property
    def memes(self) -> list[Meme]:
        """All memes with that picture."""
        return [self.meme, *(self.meme.model_copy(update={"id": each}) for each in self.others)]


@dataclass(frozen=True, slots=True)
class TemplateItem:
    """A template from a page.

    Attributes:
        missing: the catalog has the template, and only its picture is wanted.
    """

    template: Template
    missing: bool = False


# What waits for a picture.
PictureItem: TypeAlias = MemeItem | MissingPicture | TemplateItem


@dataclass(frozen=True, slots=True)
class Mark:
    """A value for later crawls, such as the newest posts of a listing; stored once its page is finished."""

    name: str
    value: str


class NotLanded(DropItem):
    """An item dropped because the crawl stops; the request that yielded it returns to the queue."""
