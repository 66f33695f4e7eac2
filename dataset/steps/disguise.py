"""Find disguised profanity: stretched ("fuuuck"), spaced ("f u c k") or starred ("f**k").

Only words that people do disguise are searched (`is_disguised`), to limit false positives: "if u can", "A.S.S.R.".
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

# Words that people disguise, alone and in compounds.
_STEMS = (
    "fuck", "shit", "asshole", "bitch", "damn", "dick", "puss", "cunt", "cock", "nigg", "faggot", "crap", "piss",
    "whore", "slut", "bastard", "retard", "boob", "porn", "biatch", "twat", "wank", "wtf", "stfu",
)  # fmt: skip
# Only as whole words: too many other words contain them.
_ALONE = ("ass", "asses", "cum", "fag", "fags", "fuk", "fuq", "niga", "rape", "tit", "tits")
# Readings of one letter and signs ("f***", "a**"), the most frequent first.
_USUAL = (
    "fuck", "fucking", "fucked", "fucker", "fucks", "shit", "shitty", "ass", "bitch", "bitches", "asshole", "damn",
    "dick", "pussy", "cunt", "cock", "nigger", "nigga", "motherfucker",
)  # fmt: skip
# Other words that doubling a letter gives: Shiite.
_OTHER_DOUBLED = frozenset({"shiite", "shiites"})
SIGNS = re.compile(r"[*#%$@&]")
_BETWEEN = (" ", ".", "-", "_", "*", ",", "/", "  ", ". ", ", ", " - ")
_STRETCHED = re.compile(r"[a-z]*([a-z])\1\1[a-z]*")
_SPACED = re.compile(r"(?<![^\W_])[^\W_](?:(?:[ .,*/_-]|  | - |[.,] )[^\W_]){2,}(?![^\W_])")
_STARRED = re.compile(r"(?<![^\W_])[a-z]+(?:[*#%$@!&]+[a-z]*)+")
_RUNS = re.compile(r"[a-z]+|[^a-z]+")
# Signs may outnumber the missing letters, up to a limit.
_MOST_WRITTEN = 64
# Single-letter words next to a spelled-out word: "u r a f u c k".
_MORE = 3


class Hidden(NamedTuple):
    """A disguised word: `text[start:end]` stands for `word`."""

    start: int
    end: int
    word: str


class Disguises:
    """Finds disguised forms of `words`. `fold` replaces signs and digits by letters, as in the text searched."""

    def __init__(self, words: Iterable[str], fold: Mapping[int, int]) -> None:
        self._words = sorted(words, key=_rank)
        self._known = frozenset(self._words)
        self._stretched: dict[str, list[tuple[str, list[int]]]] = {}
        self._folded = [(word.translate(fold), word) for word in self._words]
        for folded, word in self._folded:
            letters, runs = _runs(folded)
            self._stretched.setdefault(letters, []).append((word, runs))
        self._readings: dict[str, str | None] = {}

    def hints(self) -> Iterator[str]:
        """Yield substrings; folded text contains one if a word is stretched or spelled out."""
        yield from (letter * 3 for letter in sorted({letter for folded, _ in self._folded for letter in folded}))
        for start in sorted({folded[:3] for folded, _ in self._folded}):
            yield from (sign.join(start) for sign in _BETWEEN)

    def find(self, text: str, folded: str) -> Iterator[Hidden]:
        """Return the disguised words of a lower-case `text`; `folded` is `text` after `fold`, of the same length."""
        for match in _STRETCHED.finditer(folded):
            # A final "!" is folded to a letter.
            end = match.start() + len(text[match.start() : match.end()].rstrip("!"))
            if word := self._unstretched(folded[match.start() : end]):
                yield Hidden(match.start(), end, word)
        for match in _SPACED.finditer(folded):
            yield from self._spelled_out(match)
        for match in _STARRED.finditer(text):
            if word := self._unstarred(match.group()):
                yield Hidden(match.start(), match.end(), word)

    def _unstretched(self, written: str) -> str | None:
        letters, runs = _runs(written)
        for word, needed in self._stretched.get(letters, ()):
            if all(run >= least for run, least in zip(runs, needed, strict=True)):
                return word
        return None

    def _spelled_out(self, match: re.Match[str]) -> Iterator[Hidden]:
        places = [place for place in range(match.start(), match.end()) if match.string[place].isalnum()]
        letters = "".join(match.string[place] for place in places)
        for folded, word in self._folded:
            start = letters.find(folded)
            more = _MORE if len(word) > 3 else 0
            if 0 <= start <= more and len(letters) - start - len(word) <= more:
                yield Hidden(places[start], places[start + len(word) - 1] + 1, word)
                return

    def _unstarred(self, written: str) -> str | None:
        written = written.rstrip("!")
        if not 3 <= len(written) <= _MOST_WRITTEN or not has_signs(written):
            return None
        if written not in self._readings:
            if len(self._readings) > 10_000:
                self._readings.clear()
            self._readings[written] = self._nearest(written)
        return self._readings[written]

    def _nearest(self, written: str) -> str | None:
        shape = re.compile(_shape(written))
        # A sign between the letters: "f*uck".
        if (plain := SIGNS.sub("", written)) in self._known:
            return plain
        usual_only = sum(map(str.isalpha, written)) < 2
        fitting = [word for word in self._words if shape.fullmatch(word) and (word in _USUAL or not usual_only)]
        return min(fitting, key=lambda word: abs(len(word) - len(written)), default=None)


def has_signs(text: str) -> bool:
    """Return True if `text` may contain a starred word."""
    return SIGNS.search(text) is not None


def doubled(word: str) -> Iterator[str]:
    """Return `word` with each letter doubled in turn: "fuuck"."""
    written = (word[:at] + word[at - 1 :] for at in range(1, len(word) + 1))
    return (spelling for spelling in written if spelling not in _OTHER_DOUBLED)


def is_disguised(word: str) -> bool:
    """Return True if people disguise `word`, a list entry."""
    return word.isalpha() and (word in _ALONE or any(stem in word for stem in _STEMS))


def _rank(word: str) -> tuple[int, int, int, str]:
    usual = _USUAL.index(word) if word in _USUAL else len(_USUAL)
    stem = next((rank for rank, stem in enumerate(_STEMS) if stem in word), len(_STEMS))
    return usual, stem, len(word), word


def _runs(word: str) -> tuple[str, list[int]]:
    """Return the letters of `word` without repeats, and the length of each run."""
    groups = [(letter, len(list(group))) for letter, group in groupby(word)]
    return "".join(letter for letter, _ in groups), [length for _, length in groups]


def _shape(written: str) -> str:
    """Return a pattern of the words that `written` may stand for.

    Each sign at the end stands for one letter, any other for one or more ("f*ing").
    """
    pieces = _RUNS.findall(written)
    shape = []
    for at, piece in enumerate(pieces):
        if piece[0].isalpha():
            shape.append(piece)
        elif at == len(pieces) - 1:
            shape.append(f"[a-z]{{{len(piece)}}}")
        else:
            shape.append(f"[a-z]{{1,{len(piece) + 2}}}")
    return "".join(shape)
