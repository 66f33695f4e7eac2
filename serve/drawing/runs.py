"""Text cut into letters as a reader sees them, and into runs that one font can draw.

Letters follow the extended grapheme clusters of Unicode (UAX 29) as far as captions need them; the order of runs on a
line follows its bidirectional algorithm (UAX 9) without explicit marks.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from memeloom.serve.drawing.fonts import Font, font_for

Kind: TypeAlias = Literal["plain", "shaped", "emoji"]
Direction: TypeAlias = Literal["left", "right", "number", "neutral"]

_JOINER, _AS_TEXT, _AS_EMOJI, _KEYCAP = "\u200d", "\ufe0e", "\ufe0f", "\u20e3"
_FLAG_LETTERS: Final = range(0x1F1E6, 0x1F200)
_SKIN: Final = range(0x1F3FB, 0x1F400)
_TAGS: Final = range(0xE0020, 0xE0080)
_VIRAMA: Final = 9  # combining class: joins two consonants to one letter
# Emoji below U+1F000 that are coloured without a variation selector.
_EMOJI: Final = frozenset(
    "⌚⌛⏩⏪⏫⏬⏰⏳◽◾☔☕♈♉♊♋♌♍♎♏♐♑♒♓♿⚓⚡⚪⚫⚽⚾⛄⛅⛎⛔⛪⛲⛳⛵⛺⛽✅✊✋✨❌❎❓❔❕❗➕➖➗➰➿⬛⬜⭐⭕"
)
# Scripts whose letters join, stack or run from the right.
_SHAPED: Final = (
    *(range(0x590, 0x10A0), range(0x1100, 0x1200), range(0x1700, 0x1C80), range(0xA800, 0xAC00)),
    *(range(0xFB1D, 0xFE00), range(0xFE70, 0xFF00), range(0x10800, 0x12000), range(0x1E800, 0x1F000)),
)
_UNSPACED: Final = (range(0xE00, 0xF00), range(0x1000, 0x10A0), range(0x1780, 0x1800))  # Thai, Lao, Burmese, Khmer
_MIRRORED: Final = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_NO_BREAK_BEFORE: Final = frozenset("、。，．！？：；）」』】〕》〉ー…ぁぃぅぇぉっゃゅょァィゥェォッャュョ")


class Run(NamedTuple):
    """Text that one font draws in one way and direction, in reading order.

    kind: ``plain`` letter by letter, ``shaped`` as a whole, ``emoji`` one coloured picture.
    """

    text: str
    font: Font
    kind: Kind
    direction: Direction = "left"


class Runs(NamedTuple):
    """The runs of a word. missing: letters that no font has, left out."""

    runs: tuple[Run, ...]
    missing: tuple[str, ...]


def clusters(text: str) -> Iterator[str]:
    """Yield the letters of `text` as a reader sees them: with marks, joined emoji, flags."""
    held = ""
    for character in text:
        if held and not _continues(held, character):
            yield held
            held = ""
        held += character
    if held:
        yield held


def code_points(letter: str) -> str:
    """Return how to name a letter that cannot be shown: ``U+0915 U+094D``."""
    return " ".join(f"U+{ord(character):04X}" for character in letter)


def break_points(word: str) -> tuple[str, ...]:
    """Cut a word where its script allows a line to end: between ideographs, which have no spaces."""
    if not any(map(_is_wide, word)):
        return (word,)
    parts: list[str] = []
    for cluster in clusters(word):
        together = not (_is_wide(cluster[0]) or (parts and _is_wide(parts[-1][-1])))
        if parts and (together or cluster[0] in _NO_BREAK_BEFORE):
            parts[-1] += cluster
        else:
            parts.append(cluster)
    return tuple(parts)


def is_unspaced(text: str) -> bool:
    """Return whether any letter is of a script without spaces between words, such as Thai; ideographs aside."""
    return not text.isascii() and any(ord(each) in block for each in text for block in _UNSPACED)


def has_right_to_left(text: str) -> bool:
    """Return whether any letter of `text` runs from the right."""
    return not text.isascii() and any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def starts_right(text: str) -> bool:
    """Return whether the first letter with a direction runs from the right, and so the lines of the text."""
    strong = (unicodedata.bidirectional(character) for character in text)
    return next((kind for kind in strong if kind in ("L", "R", "AL")), "L") != "L"


@lru_cache(maxsize=8192)
def runs_of(word: str, font: Font, *, directed: bool = False) -> Runs:
    """Cut a word into runs.

    Args:
        word: text without spaces, composed (NFC).
        font: the font to prefer.
        directed: the text around it has letters that run from the right, so the direction of each run matters.
    """
    missing: list[str] = []
    letters: list[Run] = []
    for cluster in clusters(word):
        run = _letter(cluster, font, letters[-1] if letters else None, directed=directed)
        if run is None:
            missing.append(cluster)
        else:
            letters.append(run)
    joined = []
    for (kind, drawn, direction), group in groupby(letters, key=lambda run: (run.kind, run.font, run.direction)):
        if kind == "emoji":
            joined += list(group)
        else:
            joined.append(Run("".join(run.text for run in group), drawn, kind, direction))
    return Runs(tuple(joined), tuple(missing))


def in_visual_order(runs: Sequence[Run], *, rightwards: bool) -> list[Run]:
    """Return the runs of a line from left to right.

    Args:
        runs: in reading order; spaces are runs, too.
        rightwards: the paragraph runs from the left.
    """
    base = 0 if rightwards else 1
    levels = _levels([run.direction for run in runs], base)
    turned = [_turned(run) if level % 2 else run for run, level in zip(runs, levels, strict=True)]
    order = list(range(len(runs)))
    for level in range(max(levels, default=0), 0, -1):
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and levels[order[end]] >= level:
                end += 1
            order[start:end] = order[start:end][::-1]
            start = end + 1
    return [turned[place] for place in order]


def _levels(directions: Sequence[Direction], base: int) -> list[int]:
    """Return the embedding level of each run: odd levels run from the right."""
    own: Direction = "right" if base else "left"
    known, last = list[Direction](), own
    for direction in directions:
        if direction in ("left", "right"):
            last = direction
        # Numbers after letters from the left are part of them (rule W7).
        known.append("left" if direction == "number" and last == "left" and not base else direction)
    strong: list[Direction] = ["right" if direction == "number" else direction for direction in known]
    rise: dict[Direction, int] = {"left": 2 if base else 0, "right": 1, "number": 2}
    levels = []
    for place, direction in enumerate(known):
        if direction == "neutral":
            before = next((each for each in reversed(strong[:place]) if each != "neutral"), own)
            after = next((each for each in strong[place + 1 :] if each != "neutral"), own)
            direction = before if before == after else own  # noqa: PLW2901 rules N1 and N2
        levels.append(rise[direction])
    return levels


def _turned(run: Run) -> Run:
    """Return a plain run of neutral characters as seen from the right; shaped runs are turned by their shaper."""
    if run.kind != "plain" or run.direction != "neutral":
        return run
    return run._replace(text=run.text[::-1].translate(_MIRRORED))


def _continues(held: str, character: str) -> bool:
    """Return whether `character` belongs to the letter `held`."""
    code = ord(character)
    if code < 0x300:
        return False
    last = held[-1]
    if unicodedata.category(character)[0] == "M" or character in (_JOINER, "\u200c") or code in _SKIN or code in _TAGS:
        return True
    if last == _JOINER:
        return True
    if code in _FLAG_LETTERS:
        return ord(last) in _FLAG_LETTERS and len(held) == 1
    return unicodedata.combining(last) == _VIRAMA and unicodedata.category(character) == "Lo"


def _letter(cluster: str, font: Font, before: Run | None, *, directed: bool) -> Run | None:
    if _is_emoji(cluster):
        drawn = font_for(cluster, font, colour=True)
        if drawn and drawn.colour:
            return Run(cluster, drawn, "emoji", "neutral")
        cluster = cluster.replace(_AS_EMOJI, "")
    if unicodedata.category(cluster[0])[0] in "MC":  # a mark without a letter, a control
        return None
    direction = _direction(cluster) if directed else "left"
    # Marks and signs of several scripts stay in the font of the letter before them.
    steady = before is not None and before.kind == "shaped" and not font.has(cluster) and before.font.has(cluster)
    drawn = before.font if before and steady else font_for(cluster, font, colour=False)
    if drawn is None or drawn.colour:
        return _base_letter(cluster, font, directed=directed)
    shaped = len(cluster) > 1 or any(ord(cluster) in block for block in _SHAPED)
    return Run(cluster, drawn, "shaped" if shaped else "plain", direction)


def _base_letter(cluster: str, font: Font, *, directed: bool) -> Run | None:
    """Draw a letter without the marks that no font combines with it."""
    return _letter(cluster[0], font, None, directed=directed) if len(cluster) > 1 else None


def _is_emoji(cluster: str) -> bool:
    code = ord(cluster[0])
    if len(cluster) > 1 and (_AS_TEXT in cluster or code < 0x80):
        return cluster[-1] == _KEYCAP
    return 0x1F000 <= code < 0x1FB00 or cluster[0] in _EMOJI or _AS_EMOJI in cluster


def _direction(cluster: str) -> Direction:
    kind = unicodedata.bidirectional(cluster[0])
    if kind in ("R", "AL"):
        return "right"
    if kind in ("EN", "AN"):
        return "number"
    return "left" if kind == "L" else "neutral"


def _is_wide(character: str) -> bool:
    return (
        ord(character) >= 0x2E80 and unicodedata.east_asian_width(character) in ("W", "F") and ord(character) < 0x1F000
    )
