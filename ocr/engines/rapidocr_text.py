"""Decodes the output of RapidOCR's recogniser into words.

The output has a row of probabilities for each eight pixels of a line: of a blank, and of each character (connectionist
temporal classification, Graves et al. 2006). The likeliest characters are the text. Spaces and apostrophes that the
network half saw are added to it, and doubtful words get their other readings, for a word model to choose from.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Probabilities: TypeAlias = NDArray[np.float32]

_BLANK = 0
# A space or apostrophe less likely than a blank, but not less than this, counts: between letters or digits, elsewhere,
# and between letters. Of those that likely on half of the real memes, nearly all are printed.
_SPACE_INSIDE, _SPACE_ELSEWHERE, _APOSTROPHE = 0.03, 0.1, 0.05
# A word is doubtful if one of its rows has no character with the probability `_CERTAIN`. A beam search of width `_BEAM`
# over characters of at least `_POSSIBLE` gives other readings, kept if at least `_WORTH_KEEPING` times as likely.
_CERTAIN, _POSSIBLE, _BEAM, _WORTH_KEEPING = 0.8, 0.03, 8, 0.001
_LONGEST = 24


@dataclass(frozen=True, slots=True)
class Piece:
    """A word of a line.

    start, end: position in the line, 0-1. confidence, least: mean and smallest probability of its characters, 0-1.
    gaps, others: as in `Word`.
    """

    text: str
    start: float
    end: float
    confidence: float
    least: float
    gaps: tuple[float, ...]
    others: tuple[tuple[str, float], ...]


def decode(probabilities: Probabilities, characters: str, *, with_others: bool = True) -> list[Piece]:
    """Return the words of a line.

    probabilities: shape (rows, 1 + characters), blank first. characters: space last. with_others: search for other
    readings of doubtful words.
    """
    best = probabilities.argmax(axis=1)
    fresh = np.flatnonzero((best != _BLANK) & np.concatenate(([True], best[1:] != best[:-1])))
    space = characters.rindex(" ") + 1
    words: list[list[int]] = [[]]
    gaps: list[list[float]] = [[]]
    for row in fresh:
        gap, least = 0.0, _SPACE_ELSEWHERE
        if words[-1]:
            before = words[-1][-1]
            gap = float(probabilities[before + 1 : row, space].max(initial=0.0))
            if characters[best[before] - 1].isalnum() and characters[best[row] - 1].isalnum():
                least = _SPACE_INSIDE
        if best[row] == space or gap > least:
            words.append([])
            gaps.append([])
        elif words[-1]:
            gaps[-1].append(gap)
        if best[row] != space:
            words[-1].append(int(row))
    return [
        _to_piece(word, between, probabilities, characters, with_others)
        for word, between in zip(words, gaps, strict=True)
        if word
    ]


def _to_piece(
    rows: Sequence[int], gaps: Sequence[float], probabilities: Probabilities, characters: str, with_others: bool
) -> Piece:
    """Return the word whose characters lie at `rows`, with the apostrophes between them."""
    best = probabilities[rows].argmax(axis=1)
    apostrophe = characters.index("'") + 1
    letters, between = [characters[best[0] - 1]], list[float]()
    for number, gap in enumerate(gaps, 1):
        character = characters[best[number] - 1]
        inside = probabilities[rows[number - 1] + 1 : rows[number], apostrophe]
        if letters[-1].isalpha() and character.isalpha() and inside.max(initial=0.0) > _APOSTROPHE:
            letters.append("'")
            between.append(0.0)
        letters.append(character)
        between.append(gap)
    text, own, likely = "".join(letters), probabilities[rows[0] : rows[-1] + 2], probabilities[rows, best]
    doubtful = with_others and len(rows) <= _LONGEST and own.max(axis=1).min() < _CERTAIN
    return Piece(
        text,
        start=rows[0] / len(probabilities),
        end=(rows[-1] + 1) / len(probabilities),
        confidence=float(likely.mean()),
        least=float(likely.min()),
        gaps=tuple(between),
        others=_others(text, own, characters) if doubtful else (),
    )


def _others(text: str, probabilities: Probabilities, characters: str) -> tuple[tuple[str, float], ...]:
    """Return the other readings of the word `text`, each with its probability relative to it, likeliest first."""
    found = defaultdict[str, float](float)
    for reading, probability in _readings(probabilities, characters):
        found[reading.strip()] += probability
    # The apostrophes in `text` may be unlikely ones.
    own = max((likely for other, likely in found.items() if _bare(other) == _bare(text)), default=0.0)
    return tuple(
        (other, likely / own)
        for other, likely in sorted(found.items(), key=lambda item: -item[1])
        if other and likely > _WORTH_KEEPING * own and _bare(other) != _bare(text) and own > 0
    )


def _bare(text: str) -> str:
    return text.replace("'", "")


def _readings(probabilities: Probabilities, characters: str) -> list[tuple[str, float]]:
    """Return the likeliest readings with their probabilities: a beam search over prefixes."""
    # For each prefix the probability of all ways to it that end in a blank, and of all that do not.
    beam: dict[str, tuple[float, float]] = {"": (1.0, 0.0)}
    for row in probabilities:
        ways = defaultdict[str, list[float]](lambda: [0.0, 0.0])
        for symbol in np.flatnonzero(row > _POSSIBLE):
            likely = float(row[symbol])
            for prefix, (blank, other) in beam.items():
                if symbol == _BLANK:
                    ways[prefix][0] += (blank + other) * likely
                    continue
                character = characters[symbol - 1]
                if prefix[-1:] == character:
                    # The same character goes on, or follows a blank.
                    ways[prefix][1] += other * likely
                    ways[prefix + character][1] += blank * likely
                else:
                    ways[prefix + character][1] += (blank + other) * likely
        beam = {prefix: (blank, other) for prefix, (blank, other) in nlargest(_BEAM, ways.items(), key=_total)}
    return [(prefix, blank + other) for prefix, (blank, other) in beam.items()]


def _total(way: tuple[str, list[float]]) -> float:
    return sum(way[1])
