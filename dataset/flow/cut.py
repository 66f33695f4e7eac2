"""Cuts the catalog into pieces of which a new meme changes one, seldom two.

A piece ends at a meme whose id has a certain hash, not after so many memes: what is added in one place moves no other
boundary (content-defined chunking, as in rsync and LBFS).
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_MEAN_MEMES = 4096
_MOST_MEMES = 3 * _MEAN_MEMES
_MOST_BYTES = 64 * 2**20


class Piece(NamedTuple):
    """Some memes that follow each other in the catalog, as JSON. key: a hash of them and of what will be done."""

    key: str
    records: list[bytes]


def cut(records: Iterable[tuple[str, bytes]], salt: str) -> Iterator[Piece]:
    """Yield the `records` (id and JSON, in order of id) in pieces; one in memory. salt: goes into the keys, too."""
    piece: list[bytes] = []
    size = 0
    for meme_id, record in records:
        piece.append(record)
        size += len(record)
        if zlib.crc32(meme_id.encode()) % _MEAN_MEMES == 0 or len(piece) == _MOST_MEMES or size >= _MOST_BYTES:
            yield _piece(piece, salt)
            piece, size = [], 0
    if piece:
        yield _piece(piece, salt)


def _piece(records: list[bytes], salt: str) -> Piece:
    key = hashlib.blake2b(salt.encode(), digest_size=16)
    for record in records:
        key.update(b"%d:" % len(record))
        key.update(record)
    return Piece(key.hexdigest(), records)
