"""The cleaning rules of the Imgflip article, one step each.

https://towardsdatascience.com/meme-text-generation-with-a-deep-convolutional-network-in-keras-tensorflow-a57c6f218e85
"""

import re
from typing import Literal

from memeloom.dataset.steps.contract import Caption, Drop, Outcome, Step
from memeloom.dataset.steps.screened import Screened, places

# Control characters and lone surrogates: nothing that a person typed, or that UTF-8 can hold.
_NOT_ASCII = re.compile(r"[^\x20-\x7e]")
_UNTYPED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def collapse_whitespace(caption: Caption) -> Outcome:
    """Trim each box and make every run of whitespace in it one space."""
    boxes = tuple([" ".join(box.split()) for box in caption.boxes])
    # Most are clean already, and a copy costs more than the look.
    return caption if boxes == caption.boxes else caption.with_boxes(boxes)


def lower_case(caption: Caption) -> Outcome:
    """Lower-case each box."""
    return caption.with_boxes(tuple([box.lower() for box in caption.boxes]))


def require_text(caption: Caption) -> Outcome:
    """Drop ``no caption`` (nobody knows its boxes) and ``empty caption`` (all of them are blank).

    A blank box beside one with text stays: it says that the box was left out.
    """
    if not caption.boxes:
        return Drop("no caption")
    if not "".join(caption.boxes).strip():
        return Drop("empty caption")
    return caption


def forbid_empty_boxes(caption: Caption) -> Outcome:
    """Drop ``empty box``: the caption leaves one of its boxes blank."""
    return caption if all(map(str.strip, caption.boxes)) else Drop("empty box")


def require_box_count(caption: Caption) -> Outcome:
    """Drop ``box count``: more or fewer boxes than its template has. Where nobody says how many, any number is fine."""
    fits = caption.box_count is None or len(caption.boxes) == caption.box_count
    return caption if fits else Drop("box count")


def forbid_separator(separator: str) -> Step:
    """Drop ``separator``: a box holds the character that ends boxes."""

    def step(caption: Caption) -> Outcome:
        return Drop("separator") if separator in "".join(caption.boxes) else caption

    return Screened(step, places(re.compile(re.escape(separator))))


def require_ascii(caption: Caption) -> Outcome:
    """Drop ``characters``: something else than printable ASCII."""
    return Drop("characters") if _NOT_ASCII.search("".join(caption.boxes)) else caption


def forbid_control_characters(caption: Caption) -> Outcome:
    """Drop ``characters``: a control character or half a surrogate pair."""
    return Drop("characters") if _UNTYPED.search("".join(caption.boxes)) else caption


def only_characters(which: Literal["ascii", "any"]) -> Step:
    """`require_ascii`, or `forbid_control_characters` only."""
    if which == "ascii":
        return Screened(require_ascii, places(_NOT_ASCII))
    return Screened(forbid_control_characters, places(_UNTYPED))


def limit_length(minimum: int, maximum: int) -> Step:
    """Drop ``too short`` and ``too long``: the characters of all boxes together, separators not counted."""

    def step(caption: Caption) -> Outcome:
        length = sum(map(len, caption.boxes))
        if length < minimum:
            return Drop("too short")
        return Drop("too long") if length > maximum else caption

    return step


def limit_picture(least_side: int, most_aspect: float) -> Step:
    """Drop ``picture too small`` and ``picture too long``: of the picture that goes into the record.

    least_side: pixels of its shorter side. most_aspect: its longer side by its shorter one.
    """

    def step(caption: Caption) -> Outcome:
        short, long = sorted((caption.width, caption.height))
        if short < least_side:
            return Drop("picture too small")
        return Drop("picture too long") if long > most_aspect * short else caption

    return step


def forbid_over_18(caption: Caption) -> Outcome:
    """Drop ``nsfw``: its site marks it as not safe for work."""
    return Drop("nsfw") if caption.over_18 else caption
