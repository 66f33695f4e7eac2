"""Vectors on disk, by the picture's key and the encoder that made them.

A cache is the folder FOLDER/IDENTITY of an encoder. Files are added and never changed, each with the vectors of up to
a few hundred pictures: NumPy's ``.npz`` of `keys` and `vectors`, whose parts have checksums.
"""

import hashlib
import tokenize
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.outputs import atomic_file

# What a damaged file raises.
_BROKEN = (ValueError, KeyError, EOFError, zipfile.BadZipFile)
# Temporary errors such as too many open files, and damage too rare to delete a file for: a flipped bit in a header.
_UNREADABLE = (OSError, RuntimeError, SyntaxError, TypeError, tokenize.TokenError)


class VectorCache:
    """The vectors of one encoder. size: numbers of each vector.

    Damaged files are removed when the cache is opened; other unreadable files stay and are ignored.
    """

    def __init__(self, folder: Path, identity: str, size: int) -> None:
        self._folder, self._size = folder / identity, size
        self._places: dict[str, tuple[Path, int]] = {}
        for path in sorted(self._folder.glob("*.npz")):
            try:
                keys, _ = self._read(path)
            except _BROKEN:
                with suppress(OSError):  # harmless where the folder is read-only
                    path.unlink()
                continue
            except _UNREADABLE:
                continue
            self._place(path, keys)

    def __contains__(self, key: str) -> bool:
        """Return True if the vector of this picture is cached."""
        return key in self._places

    def add(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store `vectors`, (keys, size), as 16-bit floats, durably."""
        name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:32]
        path = self._folder / f"{name}.npz"
        with atomic_file(path) as stream:
            np.savez(stream, keys=np.array(keys), vectors=vectors.astype(np.float16), allow_pickle=False)
        self._place(path, keys)

    def take(self, keys: Sequence[str]) -> NDArray[np.float16]:
        """Return the vectors of `keys`, all of which are cached, (keys, size). One file is in memory at a time."""
        found = np.zeros((len(keys), self._size), np.float16)
        wanted: dict[Path, list[tuple[int, int]]] = defaultdict(list)
        for row, key in enumerate(keys):
            path, place = self._places[key]
            wanted[path].append((row, place))
        for path, pairs in wanted.items():
            rows, places = np.array(pairs).T
            found[rows] = self._read(path)[1][places]
        return found

    def _place(self, path: Path, keys: Sequence[str]) -> None:
        self._places |= {key: (path, row) for row, key in enumerate(keys)}

    def _read(self, path: Path) -> tuple[list[str], NDArray[np.float16]]:
        # Read at once: zipfile would take a disk error for a damaged archive.
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as held:
            keys, vectors = held["keys"].tolist(), held["vectors"]
        if vectors.shape != (len(keys), self._size) or vectors.dtype != np.float16:
            raise ValueError("not vectors of this encoder")
        return keys, vectors
