"""How good readings are: words found, words that are there, characters that are wrong."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (left != right))
    return row[-1]
