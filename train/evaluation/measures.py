"""Diversity of captions, and how well they suit their templates.

distinct-n: Li et al., "A Diversity-Promoting Objective Function for Neural Conversation Models", 2016.
self-BLEU: Zhu et al., "Texygen: A Benchmarking Platform for Text Generation Models", 2018, on BLEU of Papineni et
al., 2002. Words are separated by spaces and caption separators, and lower-cased.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_ORDERS = 4
# A precision of zero would make the whole score zero: it counts as a tenth of a match (Chen and Cherry, 2014, their
# first smoothing).
_MIN_MATCHES = 0.1
# Added to the count of every word on every template. One would drown the templates with few captions.
_SMOOTHING = 0.1


def words_of(boxes: Iterable[str]) -> list[str]:
    """Return the words of a caption, box by box."""
    return [word for box in boxes for word in box.lower().split()]


def distinct(texts: Sequence[Sequence[str]], n: int) -> float:
    """Return the share of different n-grams among all n-grams of the texts; zero if there are none."""
    grams = [gram for text in texts for gram in _grams(text, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def self_bleu(texts: Sequence[Sequence[str]]) -> float:
    """Return the mean BLEU-4 of each text against all others, 0 to 1: the higher, the more they repeat each other.

    Empty texts are left out; fewer than two repeat nothing. The time grows with the texts, not with their square.
    """
    full = [text for text in texts if text]
    if len(full) < 2:
        return 0.0
    counts = [[Counter(_grams(text, n)) for n in range(1, _ORDERS + 1)] for text in full]
    highest = _two_highest(counts)
    lengths = sorted(map(len, full))
    return sum(_bleu(text, own, highest, lengths) for text, own in zip(full, counts, strict=True)) / len(full)


def _grams(text: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    return zip(*(text[start:] for start in range(n)), strict=False)


def _two_highest(counts: Sequence[Sequence[Counter[tuple[str, ...]]]]) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return the counts of each n-gram in the two texts that have it most often.

    The highest count in any text but one is the first, unless it is that text's own: then it is the second.
    """
    highest: dict[tuple[str, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for orders in counts:
        for order in orders:
            for gram, count in order.items():
                first, second = highest[gram]
                highest[gram] = (count, first) if count > first else (first, max(second, count))
    return highest


def _bleu(
    text: Sequence[str],
    counts: Sequence[Counter[tuple[str, ...]]],
    highest: dict[tuple[str, ...], tuple[int, int]],
    lengths: Sequence[int],
) -> float:
    """Return BLEU-4 of a text against all others; texts of fewer than four words use lower orders only."""
    logs = []
    for order in counts[: len(text)]:
        matches = 0
        for gram, count in order.items():
            first, second = highest[gram]
            matches += min(count, second if count == first else first)
        logs.append(math.log(max(matches, _MIN_MATCHES) / order.total()))
    brevity = min(0.0, 1 - _closest(len(text), lengths) / len(text))
    return math.exp(brevity + sum(logs) / len(logs))


def _closest(length: int, lengths: Sequence[int]) -> int:
    at = bisect_left(lengths, length)
    others = [*lengths[max(at - 1, 0) : at], *lengths[at + 1 : at + 2]]
    return min(others, key=lambda each: (abs(each - length), each))


class TemplateClassifier:
    """Predicts the template of a caption from its words, independently of all models.

    Multinomial naive Bayes (McCallum and Nigam, "A Comparison of Event Models for Naive Bayes Text Classification",
    1998). A model whose captions are recognised as often as real ones writes what its templates are for. It holds a
    number for each pair of a word and a template on which it occurs.
    """

    def __init__(self, templates: int) -> None:
        self._captions = np.zeros(templates)
        self._words = np.zeros(templates)
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def add(self, template: int, words: Sequence[str]) -> None:
        """Learn a caption. All must be added before the first prediction."""
        self._captions[template] += 1
        self._words[template] += len(words)
        for word in words:
            self._counts[word][template] += 1

    def predict(self, words: Sequence[str]) -> int:
        """Return the likeliest template for the words; unknown words are ignored."""
        known = [self._gains[word] for word in words if word in self._gains]
        scores = self._prior - len(known) * self._cost_per_word
        for rows, gains in known:
            scores[rows] += gains
        return int(scores.argmax())

    @cached_property
    def _prior(self) -> NDArray[np.float64]:
        prior: NDArray[np.float64] = np.log(self._captions + _SMOOTHING)
        return prior

    @cached_property
    def _cost_per_word(self) -> NDArray[np.float64]:
        cost: NDArray[np.float64] = np.log(self._words + _SMOOTHING * max(len(self._counts), 1))
        return cost

    @cached_property
    def _gains(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        return {
            word: (np.array(list(counts)), np.log1p(np.array(list(counts.values())) / _SMOOTHING))
            for word, counts in self._counts.items()
        }
