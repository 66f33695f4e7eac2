"""What a filter step is: a caption in, a caption or `Drop(reason)` out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from memeloom.catalog.records import Image


class Caption(NamedTuple):
    """What the steps see of a meme. A step that changes it returns a changed copy.

    template, template_name, template_slug: of the template it is made on.
    image_key: of the picture that the dataset takes, else of its own; "" if there is none.
    width, height: of that picture, in pixels; 0 if there is none.
    box_count: texts that the template takes; None if nobody says.
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
        """This caption with other texts; twice as quick as `_replace`, and most captions need it."""
        return Caption._make((*self[:5], boxes, *self[6:]))

    def with_picture(self, picture: Image) -> "Caption":
        """This caption on `picture`."""
        return self._replace(image_key=picture.key, width=picture.width, height=picture.height)


class Drop(NamedTuple):
    """The caption goes.

    reason: a short fixed phrase that is counted. detail: what of a fixed list was found, to count beside the
        reason; "" for most. Neither ever quotes the caption.
    """

    reason: str
    detail: str = ""


Outcome: TypeAlias = Caption | Drop
Step: TypeAlias = Callable[[Caption], Outcome]


def keep(caption: Caption) -> Outcome:
    """The step that does nothing."""
    return caption


def apply_steps(steps: Sequence[Step], caption: Caption) -> Outcome:
    """`caption` after all `steps`, or the first drop."""
    for step in steps:
        outcome = step(caption)
        if isinstance(outcome, Drop):
            return outcome
        caption = outcome
    return caption
