"""What words a catalog's captions are made of: counts of words and of pairs of words, small enough for every worker."""

import math
import re
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from memeloom.catalog.english import COMMON_WORDS

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_MAGIC = b"memeloom words 1\n"
_HEADER = struct.Struct("<QQII")
# A word's row in the pairs; 2^20 words are more than are ever kept.
_ROW_BITS = 20
_MOST_WORDS, _MOST_PAIRS = 200_000, 200_000
_LEAST_WORD, _LEAST_PAIR = 2, 3
# Counts of common English, as if so many words had been read before the first caption.
_KNOWN_BEFORE = 20_000
# The share of words in a caption that the common ones do not cover.
_UNCOMMON = 0.25
# How much of a word's chance comes from the word before it, where the pair was seen.
_PAIR_SHARE = 0.7
_LOG_LONE_SHARE = math.log(1 - _PAIR_SHARE)


class WordModel:
    """How likely a word is in a caption, alone and after another one. Immutable.

    Words are case-folded letters and digits, with straight apostrophes inside (``don't``).
    """

    __slots__ = ("_counts", "_once", "_pair_counts", "_pairs", "_rows", "_surprise", "_total")

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
        self._surprise = array("d", (math.log(total / count) for count in counts))

    @classmethod
    def of(cls, captions: Iterable[str], most_words: int = _MOST_WORDS, most_pairs: int = _MOST_PAIRS) -> "WordModel":
        """Count `captions`, and a little common English for a catalog that holds few.

        Kept are the most frequent words seen twice and pairs seen three times. Memory stays bounded however many
        captions there are: when more than four times as many are counted as are kept, the rarest are forgotten.
        """
        words, pairs, total = _common_words(), Counter[str](), _KNOWN_BEFORE
        for caption in captions:
            found = caption_words(caption)
            total += len(found)
            words.update(found)
            pairs.update(f"{left} {right}" for left, right in pairwise(found))
            if len(words) > 4 * most_words:
                _forget_rarest(words, 2 * most_words)
            if len(pairs) > 4 * most_pairs:
                _forget_rarest(pairs, 2 * most_pairs)
        kept = _most_frequent(words, most_words, _LEAST_WORD)
        rows = {word: row for row, (word, _) in enumerate(kept)}
        keyed = sorted(_keyed(_most_frequent(pairs, most_pairs, _LEAST_PAIR), rows))
        return cls(
            total,
            round(_UNCOMMON * _KNOWN_BEFORE) + sum(count == 1 for count in words.values()),
            rows,
            array("I", (count for _, count in kept)),
            array("Q", (key for key, _ in keyed)),
            array("I", (count for _, count in keyed)),
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> "WordModel":
        """The model that `to_bytes` wrote. Raises ValueError if `content` is something else."""
        if not content.startswith(_MAGIC):
            raise ValueError("not a word model")
        try:
            plain = zlib.decompress(content[len(_MAGIC) :])
            total, once, words, pairs = _HEADER.unpack_from(plain)
            counts, end = _read_array("I", words, plain, _HEADER.size)
            keys, end = _read_array("Q", pairs, plain, end)
            pair_counts, end = _read_array("I", pairs, plain, end)
        except (zlib.error, struct.error) as error:
            raise ValueError(f"not a word model: {error}") from None
        names = plain[end:].decode().split("\n") if words else []
        if len(names) != words:
            raise ValueError("not a word model: it is cut short")
        return cls(total, once, names, counts, keys, pair_counts)

    def to_bytes(self) -> bytes:
        """The model, compressed; the same captions in the same order always give the same bytes."""
        names = "\n".join(self._rows).encode()
        arrays = b"".join(_little_endian(numbers) for numbers in (self._counts, self._pairs, self._pair_counts))
        header = _HEADER.pack(self._total, self._once, len(self._rows), len(self._pairs))
        return _MAGIC + zlib.compress(header + arrays + names, 6)

    def __len__(self) -> int:
        """The number of words it knows."""
        return len(self._rows)

    def __contains__(self, word: str) -> bool:
        """Whether the case-folded `word` was seen."""
        return word in self._rows

    def row(self, word: str) -> int | None:
        """The number of the case-folded `word` in the model; None if it is not known."""
        return self._rows.get(word)

    def surprise(self, row: int, after: int | None = None) -> float:
        """Minus the logarithm of the chance of the word `row`, after the word `after` if given."""
        alone = self._surprise[row]
        if after is None:
            return alone
        key = after << _ROW_BITS | row
        place = bisect_left(self._pairs, key)
        if place == len(self._pairs) or self._pairs[place] != key:
            return alone - _LOG_LONE_SHARE
        seen = self._pair_counts[place] / self._counts[after]
        return -math.log(_PAIR_SHARE * seen + (1 - _PAIR_SHARE) * math.exp(-alone))

    def chance(self, row: int) -> float:
        """The share of the word `row` in all words."""
        return self._counts[row] / self._total

    @property
    def unseen_surprise(self) -> float:
        """Minus the logarithm of the chance that the next word is not known.

        Good and Turing: it is as great as the share of words that were seen once.
        """
        return math.log(self._total / self._once)


def caption_words(caption: str) -> list[str]:
    """The words of `caption`, as the model counts them."""
    return _WORD.findall(caption.casefold().replace("’", "'"))


def _common_words() -> Counter[str]:
    """Common English by rank: a word's frequency falls with its rank (Zipf's law)."""
    harmonic = sum(1 / (rank + 3) for rank in range(len(COMMON_WORDS)))
    return Counter(
        {word: max(round(_KNOWN_BEFORE / harmonic / (rank + 3)), 2) for rank, word in enumerate(COMMON_WORDS)}
    )


def _most_frequent(counts: Counter[str], most: int, least: int) -> list[tuple[str, int]]:
    enough = [(text, count) for text, count in counts.items() if count >= least]
    return sorted(enough, key=lambda item: (-item[1], item[0]))[:most]


def _forget_rarest(counts: Counter[str], keep: int) -> None:
    for text, _ in counts.most_common()[keep:]:
        del counts[text]


def _keyed(pairs: Iterable[tuple[str, int]], rows: dict[str, int]) -> Iterator[tuple[int, int]]:
    for pair, count in pairs:
        left, right = pair.split(" ")
        if left in rows and right in rows:
            yield rows[left] << _ROW_BITS | rows[right], count


def _little_endian(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _read_array(code: str, length: int, content: bytes, start: int) -> "tuple[array[int], int]":
    numbers = array(code)
    end = start + length * numbers.itemsize
    if end > len(content):
        raise ValueError("not a word model: it is cut short")
    numbers.frombytes(content[start:end])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers, end
