"""What spiders yield: a record and the address of its picture."""

from dataclasses import dataclass

from catalog.records import Meme, Template


@dataclass(frozen=True, slots=True)
class MemeItem:
    """A meme whose picture, at `meme.image_url`, is still to be fetched."""

    meme: Meme


@dataclass(frozen=True, slots=True)
class TemplateItem:
    """A template whose clean picture, at `template.image_url`, is still to be fetched."""

    template: Template
