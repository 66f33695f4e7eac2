"""Which template a caption is meant for, by its words alone: a judge that no model has seen.

Multinomial naive Bayes (McCallum and Nigam, "A Comparison of Event Models for Naive Bayes Text Classification", 1998).
A model whose captions are recognised as often as real ones writes what its templates are for.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

# What every word is counted beforehand on every template. One would drown the templates with few captions.
_BEFOREHAND = 0.1


class TemplateGuesser:
    """Learns which words stand on which template, and guesses the template of other captions.

    It holds a number for each pair of a word and a template that it stands on.
    """

    def __init__(self, templates: int) -> None:
        self._captions = np.zeros(templates)
        self._words = np.zeros(templates)
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def learn(self, template: int, words: Sequence[str]) -> None:
        """A caption on a template. All are to be learned before the first guess."""
        self._captions[template] += 1
        self._words[template] += len(words)
        for word in words:
            self._counts[word][template] += 1

    def guess(self, words: Sequence[str]) -> int:
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
