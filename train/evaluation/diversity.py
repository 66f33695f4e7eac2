"""How different captions are from each other.

distinct-n: Li et al., "A Diversity-Promoting Objective Function for Neural Conversation Models", 2016.
self-BLEU: Zhu et al., "Texygen: A Benchmarking Platform for Text Generation Models", 2018, on BLEU of Papineni et
al., 2002. Words are what stands between spaces and separators, in lower case.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

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
