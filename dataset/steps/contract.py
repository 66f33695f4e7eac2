"""What a filter step is: a caption in, `Keep(caption)` or `Drop(reason)` out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from catalog.records import Meme


class Caption(NamedTuple):
    """What the steps see of a meme. A step that changes it returns a changed copy.

    template, template_name, template_slug: of the template it is made on.
    image_key: of the picture that the dataset takes, else of its own; "" if there is none.
    """

    id: str
    source: str
    template: str
    template_name: str
    template_slug: str
    boxes: tuple[str, ...]
    over_18: bool
    image_key: str


class Keep(NamedTuple):
    """The caption stays, as it is here."""

    caption: Caption


class Drop(NamedTuple):
    """The caption goes. `reason` is a short fixed phrase that is counted; it never quotes the caption."""

    reason: str


Outcome: TypeAlias = Keep | Drop
Step: TypeAlias = Callable[[Caption], Outcome]


def caption_of(meme: Meme) -> Outcome:
    """The caption of a meme; ``no template`` if nobody knows what it is made on (a model is asked for one)."""
    if meme.template is None:
        return Drop("no template")
    return Keep(
        Caption(
            id=meme.id,
            source=meme.source,
            template=meme.template.id,
            template_name=meme.template.name,
            template_slug=meme.template.slug,
            boxes=meme.caption,
            over_18=bool(meme.over_18),
            image_key=meme.image.key if meme.image else "",
        )
    )


def apply_steps(steps: Sequence[Step], caption: Caption) -> Outcome:
    """`caption` after all `steps`, or the first drop."""
    for step in steps:
        outcome = step(caption)
        if isinstance(outcome, Drop):
            return outcome
        caption = outcome.caption
    return Keep(caption)
