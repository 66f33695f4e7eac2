"""The record that filter steps work on."""

from typing import NamedTuple, TypeAlias

from memeloom.catalog.records import Image
from memeloom.engine import steps
from memeloom.engine.steps import Keep


class Caption(NamedTuple):
    """What filter steps see of a meme.

    Attributes:
        template, template_name, template_slug: Of the template that the meme is made on.
        image_key: Key of the picture that goes into the dataset, else of the meme's own; empty without a picture.
        width, height: Of that picture, in pixels; 0 without a picture.
        box_count: Number of boxes that the template has; None if unknown.
    """

    id: str
    source: str
    template: str
    template_name: str
    template_slug: str
    boxes: tuple[str, ...]
    over_18: bool
    image_key: str
    width: int = 0
    height: int = 0
    box_count: int | None = None

    def with_boxes(self, boxes: tuple[str, ...]) -> "Caption":
        """Return this caption with other texts; twice as fast as `_replace`, and most captions need it."""
        return Caption._make((*self[:5], boxes, *self[6:]))

    def with_picture(self, picture: Image) -> "Caption":
        """Return this caption with `picture`."""
        return self._replace(image_key=picture.key, width=picture.width, height=picture.height)


Outcome: TypeAlias = steps.Outcome[Caption]
Step: TypeAlias = steps.Step[Caption]


def keep(caption: Caption) -> Outcome:
    """Keep every caption; stands for a step that the settings switch off."""
    return Keep(caption)
