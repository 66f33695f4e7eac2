"""An on-disk cache of picture vectors, by picture key and encoder.

The cache of an encoder is FOLDER/IDENTITY. Files are only added: ``.npz`` archives, which have checksums, of `keys` and
`vectors` of up to a few hundred pictures.
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

_BROKEN = (ValueError, KeyError, EOFError, zipfile.BadZipFile)
# Temporary errors, such as too many open files, and rare damage, such as a flipped bit in a header.
_UNREADABLE = (OSError, RuntimeError, SyntaxError, TypeError, tokenize.TokenError)


class VectorCache:
    """The cached vectors of one encoder, of `size` numbers each.

    Opening the cache removes damaged files and ignores other unreadable ones.
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
        """Return True if the picture is cached."""
        return key in self._places

    def add(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store `vectors`, (keys, size), as 16-bit floats, durably."""
        name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:32]
        path = self._folder / f"{name}.npz"
        with atomic_file(path) as stream:
            np.savez(stream, keys=np.array(keys), vectors=vectors.astype(np.float16), allow_pickle=False)
        self._place(path, keys)

    def take(self, keys: Sequence[str]) -> NDArray[np.float16]:
        """Return the cached vectors of `keys`, (keys, size), with one file in memory at a time."""
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
        # Read the file first: zipfile reports a disk error as a damaged archive.
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as held:
            keys, vectors = held["keys"].tolist(), held["vectors"]
        if vectors.shape != (len(keys), self._size) or vectors.dtype != np.float16:
            raise ValueError("not vectors of this encoder")
        return keys, vectors
