"""How different captions are from each other.

distinct-n: Li et al., "A Diversity-Promoting Objective Function for Neural Conversation Models", 2016.
self-BLEU: Zhu et al., "Texygen: A Benchmarking Platform for Text Generation Models", 2018, on BLEU of Papineni et
al., 2002. Words are what stands between spaces and separators, in lower case.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_ORDERS = 4
# A precision of nought would make the whole nought: it counts as a tenth of a match (Chen and Cherry, 2014, their
# first smoothing).
_NOUGHT = 0.1


def words_of(boxes: Iterable[str]) -> list[str]:
    """The words of a caption, box by box."""
    return [word for box in boxes for word in box.lower().split()]


def distinct(texts: Sequence[Sequence[str]], n: int) -> float:
    """Different n-grams among all n-grams of the texts, 0 to 1; nought if there are none."""
    grams = [gram for text in texts for gram in _grams(text, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def self_bleu(texts: Sequence[Sequence[str]]) -> float:
    """Mean BLEU-4 of each text against all the others, 0 to 1: the higher, the more they repeat each other.

    Texts without words are left out; fewer than two repeat nothing. It takes as long as the texts, not their square.
    """
    said = [text for text in texts if text]
    if len(said) < 2:
        return 0.0
    counts = [[Counter(_grams(text, n)) for n in range(1, _ORDERS + 1)] for text in said]
    most = _two_most(counts)
    lengths = sorted(map(len, said))
    return sum(_bleu(text, own, most, lengths) for text, own in zip(said, counts, strict=True)) / len(said)


def _grams(text: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    return zip(*(text[start:] for start in range(n)), strict=False)


def _two_most(counts: Sequence[Sequence[Counter[tuple[str, ...]]]]) -> dict[tuple[str, ...], tuple[int, int]]:
    """How often each n-gram stands in the two texts that have most of it.

    The most in any other text than one's own is the first, unless that is one's own: then it is the second.
    """
    most: dict[tuple[str, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for orders in counts:
        for order in orders:
            for gram, count in order.items():
                first, second = most[gram]
                most[gram] = (count, first) if count > first else (first, max(second, count))
    return most


def _bleu(
    text: Sequence[str],
    counts: Sequence[Counter[tuple[str, ...]]],
    most: dict[tuple[str, ...], tuple[int, int]],
    lengths: Sequence[int],
) -> float:
    """BLEU-4 of one text against all others; a text of fewer than four words has as many orders as words."""
    logs = []
    for order in counts[: len(text)]:
        matches = sum(min(count, _elsewhere(most[gram], count)) for gram, count in order.items())
        logs.append(math.log(max(matches, _NOUGHT) / order.total()))
    closest = _closest(len(text), lengths)
    brevity = min(0.0, 1 - closest / len(text))
    return math.exp(brevity + sum(logs) / len(logs))


def _elsewhere(two: tuple[int, int], own: int) -> int:
    """The most that another text has of an n-gram; if the text's own count is the most, the second says it."""
    first, second = two
    return second if own == first else first


def _closest(length: int, lengths: Sequence[int]) -> int:
    """The length nearest to that of one of the texts, among those of the others; the shorter of two."""
    at = bisect_left(lengths, length)
    others = [*lengths[max(at - 1, 0) : at], *lengths[at + 1 : at + 2]]
    return min(others, key=lambda each: (abs(each - length), each))


# What every word is counted beforehand on every template. One would drown the templates with few captions.
_BEFOREHAND = 0.1


class TemplateClassifier:
    """Learns which words stand on which template, and guesses the template of other captions.

    It holds a number for each pair of a word and a template that it stands on.
    """

    def __init__(self, templates: int) -> None:
        self._captions = np.zeros(templates)
        self._words = np.zeros(templates)
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def add(self, template: int, words: Sequence[str]) -> None:
        """A caption on a template. All are to be learned before the first guess."""
        self._captions[template] += 1
        self._words[template] += len(words)
        for word in words:
            self._counts[word][template] += 1

    def predict(self, words: Sequence[str]) -> int:
        """The template that the words are the likeliest on; words that it never learned say nothing."""
        known = [self._learned[word] for word in words if word in self._learned]
        scores = self._before - len(known) * self._per_word
        for rows, gains in known:
            scores[rows] += gains
        return int(scores.argmax())

    @cached_property
    def _before(self) -> NDArray[np.float64]:
        """How likely a template is before any word is read."""
        likely: NDArray[np.float64] = np.log(self._captions + _BEFOREHAND)
        return likely

    @cached_property
    def _per_word(self) -> NDArray[np.float64]:
        """What a word costs on each template, be it one that never stands there."""
        cost: NDArray[np.float64] = np.log(self._words + _BEFOREHAND * max(len(self._counts), 1))
        return cost

    @cached_property
    def _learned(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """What a word says for the templates that it stands on, beyond what it says for all others."""
        return {
            word: (np.array(list(counts)), np.log1p(np.array(list(counts.values())) / _BEFOREHAND))
            for word, counts in self._counts.items()
        }
