"""Finds what a newcomer and the strangers have in common: memes that share one picture and nothing else.

A group is worth a template when enough of its memes are no copies of each other and *each* two of them show one
picture, whole. Chains of likenesses are not enough: a collage of two templates is like memes on either, and
would tie them together.
"""

from dataclasses import dataclass, replace

from memeloom.templates.kept import Kept
from memeloom.templates.placing import place
from memeloom.templates.strangers import Near, Strangers
from memeloom.templates.whole import are_whole

# A stranger stands in the index once for each meme that is no copy, and few of one picture stay strangers.
_MOST_NEAR = 12
# Two memes that agree so well have one caption: they are copies, cropped or framed in another way.
_COPY_AGREEMENT = 0.97


@dataclass(frozen=True, slots=True)
class Founder:
    """A meme that a new template is made from. agreement: with the newcomer that made the group complete."""

    meme_id: str
    kept: Kept
    agreement: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of comparing a newcomer with the strangers.

    kept: the newcomer as it was remembered; None if it was not (too plain, or remembered before).
    founders: of a new template, the newcomer first, if it made a group complete; they are strangers still.
    """

    kept: Kept | None = None
    founders: tuple[Founder, ...] = ()


def compare(meme_id: str, kept: Kept, strangers: Strangers, least: int, min_agreement: float) -> Comparison:
    """Compare a meme with the strangers, and let it become one of them.

    least: members that a new template needs, no two of them copies.
    """
    if meme_id in strangers:
        return Comparison()
    found = strangers.find(kept, _MOST_NEAR)
    near = [other for other in found if are_whole(kept.sketch, other.kept.sketch, other.placing)]
    for other in near:
        if kept.copies(other.kept) or other.placing.agreement >= _COPY_AGREEMENT:
            strangers.add_copy(meme_id, other.meme_id)
            return Comparison(replace(kept, copy_of=other.meme_id))
    if not strangers.add(meme_id, kept):
        return Comparison()
    group: list[Near] = []
    for other in sorted(near, key=lambda each: -each.placing.agreement):
        if all(_alike(other, one, min_agreement) for one in group):
            group.append(other)
    if len(group) + 1 < least:
        for other in near:
            strangers.keep_longer(other.meme_id)
            strangers.keep_longer(meme_id)
        return Comparison(kept)
    founders = [Founder(other.meme_id, other.kept, other.placing.agreement) for other in group]
    return Comparison(kept, (Founder(meme_id, kept, founders[0].agreement), *founders))


def _alike(one: Near, other: Near, min_agreement: float) -> bool:
    """Whether two memes that are like a third are like each other, and no copies."""
    if one.kept.copies(other.kept):
        return False
    there = other.kept.sketch
    # Both were compared with the third: as it stands, or mirrored.
    here = one.kept.sketch.mirrored if one.placing.mirrored != other.placing.mirrored else one.kept.sketch
    for picture, template in ((here, there), (there, here)):
        placing = place(picture, template)
        if placing and placing.agreement >= _COPY_AGREEMENT:
            return False
        if placing and placing.agreement >= min_agreement and are_whole(picture, template, placing):
            return True
    return False
