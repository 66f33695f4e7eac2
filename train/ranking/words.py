"""Captions as sequences of hashed words, and the hashes of their runs of words."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
_TOKEN = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*|[^\w\s]")
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_BEGIN, _NEXT, _END = "\0begin", "\0box", "\0end"
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_TURN, _TURN_2 = np.uint64(31), np.uint64(29)


class Text(NamedTuple):
    """A caption. template: its id. boxes: the text of each box; empty ones at the end do not count."""

    template: str
    boxes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """Hashed words of captions, with the beginning, the boundaries of boxes and the end as words.

    hashes: uint64 (words,). caption: of each word, int64 (words,). real: False for punctuation and boundaries.
    templates: hashed ids, uint64 (captions,). boxes: number of boxes with text, int64 (captions,).
    """

    hashes: Hashes
    caption: NDArray[np.int64]
    real: NDArray[np.bool_]
    templates: Hashes
    boxes: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of captions."""
        return len(self.templates)


def folded_words(boxes: Iterable[str]) -> list[str]:
    """Return the words of a caption in lower case, without punctuation and boxes."""
    return _WORD.findall(" ".join(boxes).casefold())


def hash_words(texts: Sequence[Text]) -> Words:
    """Return the words of captions."""
    known: dict[str, int] = {}
    hashes: list[int] = []
    real: list[bool] = []
    lengths = []
    for text in texts:
        filled = [_TOKEN.findall(box.casefold()) for box in text.boxes]
        while filled and not filled[-1]:
            filled.pop()
        tokens = [_BEGIN]
        for number, box in enumerate(filled):
            tokens += [*([_NEXT] if number else []), *box]
        tokens.append(_END)
        lengths.append(len(tokens))
        for token in tokens:
            if token not in known:
                known[token] = hash_text(token)
            hashes.append(known[token])
            real.append(token[0].isalnum())
    return Words(
        np.array(hashes, np.uint64),
        np.repeat(np.arange(len(texts)), lengths),
        np.array(real, np.bool_),
        np.array([_known(text.template, known) for text in texts], np.uint64),
        np.array([sum(bool(box.strip()) for box in text.boxes) for text in texts], np.int64),
    )


def _known(template: str, known: dict[str, int]) -> int:
    key = f"\0template {template}"
    if key not in known:
        known[key] = hash_text(key)
    return known[key]


def hash_text(text: str) -> int:
    """Return 64 bits that are the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def combined(first: Hashes, second: Hashes) -> Hashes:
    """Return the hash of each pair."""
    mixed: Hashes = (first ^ (first >> _TURN)) * _MIX + second * _FACTOR
    mixed = (mixed ^ (mixed >> _TURN_2)) * _MIX_2
    mixed ^= mixed >> _TURN
    return mixed


class Runs(NamedTuple):
    """Runs of words, or pairs of words some way apart. caption: of each, int64 (runs,). hashes: uint64 (runs,)."""

    caption: NDArray[np.int64]
    hashes: Hashes


def runs(words: Words, length: int) -> Runs:
    """Return all runs of `length` words."""
    hashes = words.hashes
    for place in range(1, length):
        hashes = combined(hashes[:-1], words.hashes[place:])
    inside = _inside(words, length - 1)
    return Runs(words.caption[: len(hashes)][inside], hashes[inside])


def pairs(words: Words, distance: int) -> Runs:
    """Return all pairs of words `distance` apart; each distance has hashes of its own."""
    inside = _inside(words, distance)
    hashes = combined(words.hashes[: len(inside)], words.hashes[distance:] + np.uint64(distance))
    return Runs(words.caption[: len(inside)][inside], hashes[inside])


def on_template(found: Runs, words: Words) -> Runs:
    """Return the same runs, each together with the template of its caption."""
    return Runs(found.caption, combined(words.templates[found.caption], found.hashes))


def _inside(words: Words, distance: int) -> NDArray[np.bool_]:
    """Return for each word but the last ones whether the word `distance` behind is of the same caption."""
    same: NDArray[np.bool_] = words.caption[: len(words.caption) - distance] == words.caption[distance:]
    return same
