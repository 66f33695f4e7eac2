"""The picture of a template that no site gives, from memes made on it: laid onto each other, words left out.

One meme is chosen to lay the others on: the one that most of them fit best. The frame is what most of them reach;
the size is what most of them have the pixels for. Words are masked where they were read, and outvoted where not.
Then all are laid once more, on what they have in common: a better ground than one meme with its words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import cv2
import numpy as np

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox
from memeloom.templates.align import SIDES, lay_on, refine
from memeloom.templates.inpaint import inpaint
from memeloom.templates.mask import Words, find_words
from memeloom.templates.median import Layer, Merged, merge
from memeloom.templates.placing import Affine, place
from memeloom.templates.sketch import Sketch, sketch

MOST_MEMBERS = 50
FEWEST_MEMBERS = 3
_CANDIDATES = 6  # members that the others are tried on
_LARGEST = 1_000_000  # pixels of the result, and of each member
_REACHED = 0.5  # share of the members that reach the frame's edge
_FINE = 0.5  # share of them with fewer pixels than the result
_AGREE_WITH_ONE, _AGREE_WITH_ALL = 0.35, 0.5  # of the edges of a meme, words and all; of the clean picture
_CONVINCING = 0.5  # agreement times share seen of a placing
_WHOLE = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
_HALO = 7  # pixels around words that no box told of
_WORDS = 40  # of 255: what differs from the common picture by more is words
_NOISE = 2.0  # of 255: the deviation of the best member


@dataclass(frozen=True)
class Member:
    """A meme made on the template. key: of its picture, which is BGR. boxes: where words were read, if they were."""

    key: str
    picture: Pixels
    boxes: tuple[OcrBox, ...] = ()


@dataclass(frozen=True)
class Ground:
    """What members are laid on. grey: (height, width)."""

    grey: Pixels
    drawn: Sketch

    @classmethod
    def of(cls, picture: Pixels) -> Self:
        """A BGR picture as ground."""
        grey = grey_of(picture)
        return cls(grey, sketch(grey))


@dataclass(frozen=True)
class Laid:
    """A member on the template.

    picture, words: the member's, mirrored if it is.
    affine: from its fractions of width and height to the template's.
    """

    member: Member
    mirrored: bool
    picture: Pixels
    words: Words
    affine: Affine


@dataclass(frozen=True)
class Recovered:
    """What members have in common.

    picture: BGR. laid: the members that it was made from. left_out: how many did not fit.
    guessed: share of the picture that no member shows, which was filled in from around.
    """

    picture: Pixels
    laid: tuple[Laid, ...]
    left_out: int
    guessed: float


def recover(members: Sequence[Member]) -> Recovered | None:
    """The clean picture of what `members` are made on; None if fewer than three fit together.

    Their order does not matter. No more than fifty are looked at, those with the smallest keys.
    """
    chosen = [_bounded(member) for member in sorted(members, key=lambda member: member.key)[:MOST_MEMBERS]]
    if not chosen:
        return None
    sketches = [sketch(grey_of(member.picture)) for member in chosen]
    laid = _lay_on_one(chosen, sketches)
    if len(laid) < FEWEST_MEMBERS:
        return None
    laid = _framed(laid)
    size = _size(laid)
    first = merge([layer_of(each, size) for each in laid])
    laid = _lay_on_common(chosen, sketches, laid, inpaint(first.pixels, _unknown(first)))
    if len(laid) < FEWEST_MEMBERS:
        return None
    second = merge([_judged(layer_of(each, size), first) for each in laid])
    return Recovered(
        picture=inpaint(second.pixels, _unknown(second)),
        laid=tuple(laid),
        left_out=len(chosen) - len(laid),
        guessed=float((second.support == 0).mean()),
    )


def lay(member: Member, drawn: Sketch, ground: Ground) -> Laid | None:
    """`member`, whose sketch is `drawn`, on the picture of `ground`; None if it does not fit."""
    return _lay(member, drawn, ground, SIDES, _AGREE_WITH_ALL)


def _lay(member: Member, drawn: Sketch, ground: Ground, sides: Sequence[int], least: float) -> Laid | None:
    """As `lay`. sides: as `refine` takes them. least: agreement."""
    grey = grey_of(member.picture)
    best: tuple[float, bool, Affine] | None = None
    for mirrored, affine in _starts(drawn, ground.drawn):
        found = refine(np.ascontiguousarray(grey[:, ::-1]) if mirrored else grey, ground.grey, affine, sides=sides)
        if found and found.agreement >= least:
            fit = found.agreement * _covered(found.affine)
            best = max(best or (fit, mirrored, found.affine), (fit, mirrored, found.affine), key=lambda each: each[0])
    if best is None:
        return None
    words = find_words(member.picture, member.boxes)
    if not best[1]:
        return Laid(member, False, member.picture, words, best[2])
    picture, mask = (np.ascontiguousarray(each[:, ::-1]) for each in (member.picture, words.mask))
    return Laid(member, True, picture, Words(mask, words.inks), best[2])


def _starts(picture: Sketch, template: Sketch) -> Iterator[tuple[bool, Affine]]:
    """About where a picture may lie, mirrored or not: the likelier first."""
    straight, turned = place(picture, template), place(picture.mirrored, template)
    for placing, mirrored in ((straight, False), (turned, True)):
        if placing:
            yield mirrored, placing.affine
    # A plain picture has few corners that agree. Most memes show the whole template.
    if max((each.agreement * each.seen for each in (straight, turned) if each), default=0.0) < _CONVINCING:
        yield False, _WHOLE


def _covered(affine: Affine) -> float:
    """Share of the template that a picture so laid on it covers."""
    shares = []
    for axis in (0, 1):
        low, high = affine[axis, 2], affine[axis, axis] + affine[axis, 2]
        shares.append(max(0.0, min(1.0, float(high)) - max(0.0, float(low))))
    return shares[0] * shares[1]


def _lay_on_one(members: Sequence[Member], sketches: Sequence[Sketch]) -> list[Laid]:
    """All on the one that most fit best."""
    by_size = sorted(range(len(members)), key=lambda n: (-members[n].picture.size, members[n].key))
    best = max(by_size[:_CANDIDATES], key=lambda n: sum(_fit(each, sketches[n]) for each in sketches))
    ground = Ground.of(members[best].picture)
    laid = (_lay(*each, ground, SIDES[:-1], _AGREE_WITH_ONE) for each in zip(members, sketches, strict=True))
    return [each for each in laid if each]


def _fit(picture: Sketch, template: Sketch) -> float:
    """Who faces the same way counts twice: the template's way is that of most."""
    straight, turned = place(picture, template), place(picture.mirrored, template)
    return max(
        2 * (straight.agreement * straight.seen) ** 2 if straight else 0.0,
        (turned.agreement * turned.seen) ** 2 if turned else 0.0,
    )


def _lay_on_common(
    members: Sequence[Member], sketches: Sequence[Sketch], before: Sequence[Laid], common: Pixels
) -> list[Laid]:
    ground = Ground.of(common)
    known = {each.member.key: each for each in before}
    laid = []
    for member, drawn in zip(members, sketches, strict=True):
        there = known.get(member.key)
        if there is None:
            again = lay(member, drawn, ground)
        else:
            found = refine(grey_of(there.picture), ground.grey, there.affine, sides=SIDES[1:])
            again = replace(there, affine=found.affine) if found and found.agreement >= _AGREE_WITH_ALL else None
        if again:
            laid.append(again)
    return laid


def _framed(laid: Sequence[Laid]) -> list[Laid]:
    """The same, in fractions of the frame that most of them reach."""
    low = np.array([[each.affine[axis, 2] for axis in (0, 1)] for each in laid])
    high = np.array([[each.affine[axis, axis] + each.affine[axis, 2] for axis in (0, 1)] for each in laid])
    # Edges that exist in the members: a mean of two would cut one of them.
    start = np.quantile(low, _REACHED, axis=0, method="higher")
    end = np.quantile(high, 1 - _REACHED, axis=0, method="lower")
    frame = np.array([[1, 0, -start[0]], [0, 1, -start[1]]]) / (end - start)[:, None]
    return [replace(each, affine=frame @ np.vstack([each.affine, (0, 0, 1)])) for each in laid]


def _size(laid: Sequence[Laid]) -> tuple[int, int]:
    """Width and height for which most members have the pixels."""
    sides = [
        float(np.quantile([each.picture.shape[1 - axis] / each.affine[axis, axis] for each in laid], _FINE))
        for axis in (0, 1)
    ]
    shrink = min(1.0, (_LARGEST / (sides[0] * sides[1])) ** 0.5)
    return max(1, round(sides[0] * shrink)), max(1, round(sides[1] * shrink))


def layer_of(each: Laid, size: tuple[int, int]) -> Layer:
    """A member as it lies on the template of `size` (width, height), without what was read in it."""
    pixels, there = lay_on(each.picture, each.affine, size)
    words, _ = lay_on(each.words.mask, each.affine, size)
    return Layer(pixels, np.where(words > 64, 0, there).astype(np.uint8))


def _judged(layer: Layer, common: Merged) -> Layer:
    """`layer` with the words that nobody read hidden, weighed by how near it is to what is common elsewhere."""
    difference = cv2.absdiff(layer.pixels, common.pixels).max(axis=2)
    words = (difference > _WORDS) & (common.support > 0)
    grown = cv2.dilate(words.astype(np.uint8), np.ones((_HALO, _HALO), np.uint8))
    shown = np.where(grown > 0, 0, layer.shown).astype(np.uint8)
    seen = difference[(shown > 0) & (common.support > 0)]
    noise = float((seen.astype(np.float32) ** 2).mean()) if len(seen) else 255.0**2
    return Layer(layer.pixels, shown, 1 / (noise + _NOISE**2))


def _unknown(merged: Merged) -> Pixels:
    return np.asarray(255 * (merged.support == 0), np.uint8)


def _bounded(member: Member) -> Member:
    height, width = member.picture.shape[:2]
    factor = (_LARGEST / (height * width)) ** 0.5
    if factor >= 1:
        return member
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return Member(
        member.key, np.asarray(cv2.resize(member.picture, size, interpolation=cv2.INTER_AREA), np.uint8), member.boxes
    )


def grey_of(picture: Pixels) -> Pixels:
    """The brightness of a BGR picture."""
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), np.uint8)
