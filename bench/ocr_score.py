"""How good readings are: words found, words that are there, characters that are wrong."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.ocr_cases import Case, split
from bench.ocr_truth import Truth, forgive


@dataclass(frozen=True)
class Score:
    """Over all words of all pictures.

    recall: the share of the true words that was read. precision: the share of the read words that is true.
    error_rate: of characters, the Levenshtein distance of the joined words over their length.
    """

    recall: float
    precision: float
    error_rate: float


def score(readings: Sequence[str], cases: Sequence[Case], *, corrected: bool) -> Score:
    """corrected: against the truth with its corrections, instead of the transcripts as they came."""
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
    """Insertions, deletions and substitutions between `a` and `b` (Levenshtein)."""
    letters = np.array(list(map(ord, b)), np.int64)
    places = np.arange(len(b) + 1)
    row = places.copy()
    for number, letter in enumerate(map(ord, a), 1):
        new = np.minimum(row + 1, np.concatenate(([number], row[:-1] + (letters != letter))))
        # An insertion costs one more than the cell before it: the least of all before, as far away as they are.
        row = np.minimum.accumulate(new - places) + places
    return int(row[-1])
