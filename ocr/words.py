"""Word model of a catalog's captions: counts of words and word pairs, small enough for every worker."""

import math
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from memeloom.configs.extras import require

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Width of a row number in the keys of pairs; 2^20 is more than the model ever holds.
_ROW_BITS = 20
_MAX_WORDS, _MAX_PAIRS = 200_000, 200_000
_MIN_WORD_COUNT, _MIN_PAIR_COUNT = 2, 3
# Prior: English subtitles count as this many words read before the first caption, ...
_PRIOR_WORDS = 500_000
# ... and their words cover all but this share of the words in captions.
_UNCOMMON = 0.05
# The list counts words that it has from dictionaries alone this often.
_UNSEEN_COUNT = 50
# Shorter words are known in many languages.
_LONGER = 3
# Surprisal (nats) of each letter of an unknown word.
LETTER = 1.7
# Weight of the pair's probability in the interpolation, where the pair was seen.
_PAIR_SHARE = 0.7
_LOG_SINGLE_SHARE = math.log(1 - _PAIR_SHARE)


class WordModel:
    """Probabilities of words in captions, alone and after another word. Immutable.

    Words are case-folded letters and digits, with straight apostrophes inside (``don't``).
    """

    __slots__ = ("_counts", "_once", "_pair_counts", "_pairs", "_rows", "_surprisal", "_total")

    def __init__(
        self,
        total: int,
        once: int,
        words: Iterable[str],
        counts: "array[int]",
        pairs: "array[int]",
        pair_counts: "array[int]",
    ) -> None:
        self._total = total
        self._once = once
        self._rows = {word: row for row, word in enumerate(words)}
        self._counts = counts
        self._pairs = pairs
        self._pair_counts = pair_counts
        self._surprisal = array("d", (math.log(total / count) for count in counts))

    @classmethod
    def of(cls, captions: Iterable[str], max_words: int = _MAX_WORDS, max_pairs: int = _MAX_PAIRS) -> "WordModel":
        """Build a model from `captions` and a prior of common English, in bounded memory.

        It holds the most frequent words seen twice and pairs seen three times.

        Raises:
            MissingExtra: the package of the prior is not installed.
        """
        words, pairs, total = common_words(), Counter[str](), _PRIOR_WORDS
        for caption in captions:
            found = caption_words(caption)
            total += len(found)
            words.update(found)
            pairs.update(f"{left} {right}" for left, right in pairwise(found))
            if len(words) > 4 * max_words:
                _discard_rarest(words, 2 * max_words)
            if len(pairs) > 4 * max_pairs:
                _discard_rarest(pairs, 2 * max_pairs)
        kept = _most_frequent(words, max_words, _MIN_WORD_COUNT)
        rows = {word: row for row, (word, _) in enumerate(kept)}
        keyed = sorted(_keyed(_most_frequent(pairs, max_pairs, _MIN_PAIR_COUNT), rows))
        return cls(
            total,
            round(_UNCOMMON * _PRIOR_WORDS) + sum(count == 1 for count in words.values()),
            rows,
            array("I", (count for _, count in kept)),
            array("Q", (key for key, _ in keyed)),
            array("I", (count for _, count in keyed)),
        )

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self._rows)

    def __contains__(self, word: str) -> bool:
        """Return whether the case-folded `word` is known."""
        return word in self._rows

    def known_share(self, texts: Iterable[str]) -> float:
        """Return the share of known words among those of `texts` with three letters or more; 1 without any."""
        words = (word for text in texts for word in caption_words(text))
        known = [word in self for word in words if len(word) >= _LONGER and not word.isdecimal()]
        return sum(known) / len(known) if known else 1.0

    def row(self, word: str) -> int | None:
        """Return the row of the case-folded `word`; None if unknown."""
        return self._rows.get(word)

    def surprisal(self, row: int, after: int | None = None) -> float:
        """Return minus the log probability (nats) of the word `row`, after the word `after` if given."""
        alone = self._surprisal[row]
        if after is None:
            return alone
        key = after << _ROW_BITS | row
        place = bisect_left(self._pairs, key)
        if place == len(self._pairs) or self._pairs[place] != key:
            return alone - _LOG_SINGLE_SHARE
        seen = self._pair_counts[place] / self._counts[after]
        return -math.log(_PAIR_SHARE * seen + (1 - _PAIR_SHARE) * math.exp(-alone))

    def share(self, row: int) -> float:
        """Return the share of the word `row` in all words."""
        return self._counts[row] / self._total

    @property
    def unseen_surprisal(self) -> float:
        """Minus the log probability that the next word is unknown: the share of words seen once (Good-Turing)."""
        return math.log(self._total / self._once)


def caption_words(caption: str) -> list[str]:
    """Split `caption` into words as the model counts them."""
    return _WORD.findall(caption.casefold().replace("’", "'"))


def common_words() -> Counter[str]:
    """Count the words of English subtitles, from the list in pyspellchecker: 57,000 words, each at least twice.

    Raises:
        MissingExtra: the package is not installed.
    """
    require("ocr", "spellchecker")
    from spellchecker import SpellChecker

    known = SpellChecker("en", distance=1).word_frequency
    scale = _PRIOR_WORDS / known.total_words
    return Counter(
        {
            word: max(round(count * scale), _MIN_WORD_COUNT)
            for word, count in known.dictionary.items()
            if count > _UNSEEN_COUNT
        }
    )


def _most_frequent(counts: Counter[str], most: int, least: int) -> list[tuple[str, int]]:
    enough = [(text, count) for text, count in counts.items() if count >= least]
    return sorted(enough, key=lambda item: (-item[1], item[0]))[:most]


def _discard_rarest(counts: Counter[str], keep: int) -> None:
    for text, _ in counts.most_common()[keep:]:
        del counts[text]


def _keyed(pairs: Iterable[tuple[str, int]], rows: dict[str, int]) -> Iterator[tuple[int, int]]:
    for pair, count in pairs:
        left, right = pair.split(" ")
        if left in rows and right in rows:
            yield rows[left] << _ROW_BITS | rows[right], count
