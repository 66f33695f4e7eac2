"""Words as numbers, and the spaces between them."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from memeloom.dataset.vocabulary import split_words

END, UNKNOWN = 0, 1
_SPECIAL = 2
_NO_SPACE_BEFORE = frozenset(".,!?:;)]}%…-/'’_")
_NO_SPACE_BEHIND = frozenset("([{#@$-/'’_")
# The first opens, the second closes, and so on.
_PAIRED = frozenset('"*')


@dataclass(frozen=True)
class Words:
    """A model's vocabulary; `words[i]` is number i + 2.

    0 ends a caption (Memefly's ``endseq``). 1 is any unknown word and is never written. The number after the last word
    begins a caption (``startseq``) and is never written. The separator is a word.
    """

    words: tuple[str, ...]
    separator: str

    @classmethod
    def of(cls, counted: Iterable[tuple[str, int]], most: int, separator: str) -> "Words":
        """Return the first `most` of `counted` words, sorted by frequency, always with the separator."""
        words = [word for word, _ in counted if word != separator]
        return cls((separator, *words[: most - 1]), separator)

    @classmethod
    def of_texts(cls, texts: Iterable[str], most: int, separator: str) -> "Words":
        """Return the `most` most frequent words of `texts`; ties by code point."""
        tally = Counter(word for text in texts for word in split_words(text))
        return cls.of(sorted(tally.items(), key=lambda item: (-item[1], item[0])), most, separator)

    def __len__(self) -> int:
        """Return the size of the output: the words, the end and the unknown word."""
        return len(self.words) + _SPECIAL

    @property
    def start(self) -> int:
        """The number that begins a caption."""
        return len(self)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=_SPECIAL)}

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the words of `text`, without start and end."""
        known = self._numbers
        return [known.get(word, UNKNOWN) for word in split_words(text)]

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of `numbers` with the usual spaces, including one before the first word."""
        words = [self.words[number - _SPECIAL] for number in numbers if number >= _SPECIAL]
        spaces = spaced(words, self.separator)
        return "".join(f" {word}" if space else word for word, space in zip(words, spaces, strict=True))

    def unknown_letters(self, text: str) -> list[int]:
        """Return the lengths of the unknown words of `text`."""
        return [len(word) for word in split_words(text) if word not in self._numbers]


def spaced(words: Sequence[str], separator: str) -> Iterator[bool]:
    """Yield True for each of `words` that usually has a space before it, also for the first."""
    open_pairs: set[str] = set()
    glued = False
    for word in words:
        if word == separator:
            open_pairs.clear()
            glued = True
            yield False
            continue
        closes = word in open_pairs
        yield not (glued or closes or word in _NO_SPACE_BEFORE)
        glued = word in _NO_SPACE_BEHIND or (word in _PAIRED and not closes)
        if word in _PAIRED:
            open_pairs ^= {word}


def unusual_spaces(text: str, separator: str) -> tuple[int, int]:
    """Return the number of gaps between words of `text` with unusual spaces, and of all gaps."""
    words = split_words(text)
    at = unusual = 0
    for place, (word, space) in enumerate(zip(words, spaced(words, separator), strict=True)):
        found = text.index(word, at)
        unusual += place > 0 and (found > at) != space
        at = found + len(word)
    return unusual, max(len(words) - 1, 0)


def spacing_nats(unusual: int, places: int, share: float) -> float:
    """Return the nats to code which of `places` are `unusual`, each with probability `share`; 0 < share < 1."""
    return -unusual * math.log(share) - (places - unusual) * math.log1p(-share)
