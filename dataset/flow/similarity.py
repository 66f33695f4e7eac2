"""Similarity of captions, and MinHash keys to find similar ones.

Similarity is the Jaccard index J of the sets of four-byte shingles of both texts, letters and digits only. Candidates
share a band key of MinHash (Broder 1997; Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, ch. 3): two captions
share a band's key with probability J^8, so one of 16 keys with 1 - (1 - J^8)^16. Copy keys are shared whatever the
group, one of 24 with 1 - (1 - J^5)^24.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]

BANDS: Final = 16
_ROWS = 8
COPY_KEYS: Final = 24
_PIECE = 4  # bytes
# Longer texts are cut, to bound memory.
_LONGEST = 4096
# Captions hashed at once; their shingles fit the processor's cache.
_AT_ONCE = 256
_SKETCH_WORDS = 4
# Largest underestimate by a sketch; 0.045 on 24,000 pairs of real captions.
SKETCH_ERROR: Final = 0.06
_WORD = re.compile(r"[^\W_]+")
_TO_SPACES = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) != "\n"}
# Permutations of the 16-bit numbers, one per row of each band: an XOR and an odd factor.
_random = np.random.default_rng(0)
_FLIPS = _random.integers(0, 2**16, BANDS * _ROWS).astype(np.uint16)
_FACTORS = (_random.integers(0, 2**15, BANDS * _ROWS) * 2 + 1).astype(np.uint16)
# Multiplication by an odd number is a permutation.
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
# Keep equal minima of different keys apart.
_KEY_NUMBERS = np.arange(COPY_KEYS, dtype=np.uint32) * np.uint32(0x9E3779B1)


def normalise(boxes: Sequence[str]) -> str:
    """Return the words of a caption in lower case, each between single spaces."""
    return f" {' '.join(_WORD.findall(' '.join(boxes).casefold()))} "


def normalise_all(captions: Sequence[Sequence[str]]) -> list[str]:
    """Return `normalise` of each caption's boxes, in a fraction of the time if they are ASCII."""
    texts = [" ".join(boxes) for boxes in captions]
    joined = "\n".join(texts)
    if not joined.isascii() or joined.count("\n") != len(texts) - 1:
        return [normalise(boxes) for boxes in captions]
    joined = joined.lower().translate(_TO_SPACES)
    while "  " in joined:
        joined = joined.replace("  ", " ")
    return [f" {text.strip()} " for text in joined.split("\n")]


def similarity(one: str, other: str) -> float:
    """Return the Jaccard index of two normalised texts: 1 for equal sets of shingles, 0 for disjoint ones."""
    if one == other:
        return 1.0
    ours, theirs = _set(one), _set(other)
    common = len(ours & theirs)
    return common / (len(ours) + len(theirs) - common)


# Cached: a text is compared with many neighbours in a row.
@lru_cache(maxsize=4096)
def differ_in_one_letter(one: str, other: str) -> bool:
    """Return True if texts differ by one inserted or replaced letter, or two swapped ones.

    A replaced digit does not count: it is another number. Short texts with such a typo share few shingles.
    """
    if abs(len(one) - len(other)) > 1:
        return False
    at = _common(one, other)
    if one[at + 1 :] == other[at + 1 :]:
        return not (one[at : at + 1].isdigit() and other[at : at + 1].isdigit())
    swapped = one[at : at + 2] == other[at : at + 2][::-1] and one[at + 2 :] == other[at + 2 :]
    return swapped or one[at + 1 :] == other[at:] or one[at:] == other[at + 1 :]


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix, by bisection since comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _set(text: str) -> frozenset[bytes]:
    data = text.encode().ljust(_PIECE)
    return frozenset([data[at : at + _PIECE] for at in range(len(data) - _PIECE + 1)])


class Signatures(NamedTuple):
    """What finds n similar texts, and compares them.

    Attributes:
        keys: shared by similar texts of one group, (`BANDS`, n).
        sketches: 256 bits, of which each shingle sets one, (n, 4).
        copies: shared by similar texts of any group, (n, `COPY_KEYS`).
    """

    keys: Words
    sketches: Words
    copies: NDArray[np.uint32]


def signatures(texts: Sequence[str], groups: Words) -> Signatures:
    """Return the signatures of n normalised texts, and their groups, (n,): hashes of their templates."""
    keys = np.empty((BANDS, len(texts)), np.uint64)
    sketches = np.empty((len(texts), _SKETCH_WORDS), np.uint64)
    copies = np.empty((len(texts), COPY_KEYS), np.uint32)
    encoded = [text.encode()[:_LONGEST].ljust(_PIECE) for text in texts]
    by_length = sorted(range(len(encoded)), key=lambda at: len(encoded[at]))
    for at in range(0, len(texts), _AT_ONCE):
        batch = by_length[at : at + _AT_ONCE]
        pieces = _pieces([encoded[each] for each in batch])
        smallest = _smallest(pieces)
        keys[:, batch] = _banded(smallest, groups[batch])
        sketches[batch] = _sketched(pieces)
        copies[batch] = _copies(smallest)
    return Signatures(keys, sketches, copies)


def _pieces(texts: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return a hash of each shingle of each text, (shingles, n); shorter texts repeat their last one."""
    longest = len(texts[-1])
    data = np.frombuffer(b"".join([text.ljust(longest) for text in texts]), np.uint8).reshape(-1, longest).T
    data = data.astype(np.uint32)
    pieces = data[:-3] | data[1:-2] << 8 | data[2:-1] << 16 | data[3:] << 24
    last = np.array([len(text) for text in texts]) - _PIECE
    rows = np.minimum(np.arange(len(pieces))[:, None], last)
    return _mixed(pieces[rows, np.arange(len(texts))])


def _smallest(pieces: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return the minimum over all shingles in each permutation, (n, permutations)."""
    short = (pieces >> np.uint32(16)).astype(np.uint16)
    smallest: NDArray[np.uint16] = (short[0][:, None] ^ _FLIPS) * _FACTORS
    number = np.empty_like(smallest)
    for row in short[1:]:
        np.bitwise_xor(row[:, None], _FLIPS, out=number)
        np.multiply(number, _FACTORS, out=number)
        np.minimum(smallest, number, out=smallest)
    return smallest


def _mixed(pieces: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Apply the finaliser of MurmurHash3, so that similar shingles get unrelated hashes."""
    pieces = (pieces ^ pieces >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    pieces = (pieces ^ pieces >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return pieces ^ pieces >> np.uint32(16)


def _banded(smallest: NDArray[np.uint16], groups: Words) -> Words:
    """Return a key of the minima of each band and the group, (bands, n)."""
    halves = np.ascontiguousarray(smallest).view(np.uint64).reshape(len(smallest), BANDS, _ROWS // 4)
    keys = np.broadcast_to(groups[:, None], halves.shape[:2])
    for each in range(_ROWS // 4):
        keys = (keys ^ halves[:, :, each]) * MIX
        keys ^= keys >> np.uint64(29)
    return keys.T


def _copies(smallest: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Return keys of five minima each, four in a row and one from the end, (n, `COPY_KEYS`)."""
    fours = np.ascontiguousarray(smallest).view(np.uint64)[:, :COPY_KEYS]
    # The last 32 minima are in none of the fours.
    keys = (fours * MIX) ^ smallest[:, -COPY_KEYS:]
    keys = (keys ^ keys >> np.uint64(29)) * MIX
    return (keys >> np.uint64(32)).astype(np.uint32) ^ _KEY_NUMBERS


def _sketched(pieces: NDArray[np.uint32]) -> Words:
    bits = np.uint64(1) << (pieces & np.uint32(63)).astype(np.uint64)
    word = pieces >> np.uint32(6) & np.uint32(_SKETCH_WORDS - 1)
    parts = [np.bitwise_or.reduce(np.where(word == each, bits, np.uint64(0))) for each in range(_SKETCH_WORDS)]
    return np.stack(parts, axis=1)


def fold(columns: Iterable[NDArray[Any]]) -> Words:
    """Return a hash of each row, (n,), given its columns, (n,) each."""
    hashes = np.zeros(1, np.uint64)
    for column in columns:
        hashes = (hashes ^ column.astype(np.uint64)) * MIX
        hashes ^= hashes >> np.uint64(32)
    return hashes


class KeyTable:
    """Finds those of many keys that are among n ascending ones of the same type: most are not.

    Two tables, of the first and the last bits of the keys, reject 99 of 100; `isin` would look up each.
    """

    def __init__(self, keys: NDArray[Any]) -> None:
        self._keys = keys
        bits = min(len(keys).bit_length() + 3, 28)
        self._shift = keys.dtype.type(8 * keys.itemsize - bits)
        self._low = keys.dtype.type((1 << bits) - 1)
        self._begins, self._ends = np.zeros((2, 1 << bits), np.bool_)
        self._begins[keys >> self._shift] = self._ends[keys & self._low] = True

    def find(self, keys: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the places in `keys` of those found, ascending, and of each the first place among the n."""
        at = np.flatnonzero(self._begins[keys >> self._shift])
        at = at[self._ends[keys[at] & self._low]]
        if not len(at):
            return at, at
        first = np.minimum(np.searchsorted(self._keys, keys[at]), len(self._keys) - 1)
        there = self._keys[first] == keys[at]
        return at[there], first[there]


def sketch_similarity(one: Words, other: Words) -> NDArray[np.float64]:
    """Estimate the Jaccard index of n pairs of sketches, (n, 4) each; tends to overestimate."""
    common = np.bitwise_count(one & other).sum(axis=1, dtype=np.int64)
    either = np.bitwise_count(one | other).sum(axis=1, dtype=np.int64)
    return np.asarray(common / either, np.float64)
