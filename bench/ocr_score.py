"""Scores of OCR: recall and precision of words, and character error rate."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.ocr_cases import Case, split
from bench.ocr_truth import Truth, forgive


@dataclass(frozen=True)
class Score:
    """Scores over all words of all pictures.

    recall: share of the true words that were read. precision: share of the read words that are true.
    error_rate: Levenshtein distance of the joined words over their length, in characters.
    """

    recall: float
    precision: float
    error_rate: float


def score(readings: Sequence[str], cases: Sequence[Case], *, corrected: bool) -> Score:
    """Score the readings. corrected: against the corrected truth instead of the original transcripts."""
    truths = [case.truth if corrected else Truth(case.transcript) for case in cases]
    read = [forgive(split(text), truth, split) for text, truth in zip(readings, truths, strict=True)]
    true = [split(truth.text) for truth in truths]
    found = sum((Counter(a) & Counter(b)).total() for a, b in zip(true, read, strict=True))
    wrong = sum(distance(" ".join(a), " ".join(b)) for a, b in zip(true, read, strict=True))
    return Score(
        recall=found / sum(map(len, true)),
        precision=found / max(sum(map(len, read)), 1),
        error_rate=wrong / sum(len(" ".join(words)) for words in true),
    )


def distance(a: str, b: str) -> int:
    """Return the Levenshtein distance of `a` and `b`."""
    letters = np.array(list(map(ord, b)), np.int64)
    places = np.arange(len(b) + 1)
    row = places.copy()
    for number, letter in enumerate(map(ord, a), 1):
        new = np.minimum(row + 1, np.concatenate(([number], row[:-1] + (letters != letter))))
        # Insertions: each cell is the minimum over all cells before it, plus their distance.
        row = np.minimum.accumulate(new - places) + places
    return int(row[-1])
