"""Find captions that have the same or nearly the same words in two splits of a dataset."""

import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.flow.copies import HELD_OUT_AT_ONCE, HeldOut
from memeloom.dataset.flow.similarity import COPY_KEYS, normalise_all, signatures, similarity
from memeloom.dataset.schema import SPLITS, DatasetRecord, Split

_BATCH = 2000
_TEXTS = 4096
# Copy keys and sketch of a record, and the place of its text and id.
_ENTRY: Final = np.dtype([
    ("keys", "<u4", (COPY_KEYS,)), ("bits", "<u8", (4,)), ("start", "<u8"), ("text", "<u4"), ("id", "<u4"),
])  # fmt: skip


class Leak(NamedTuple):
    """Ids and splits of two similar captions. similarity: 1 for equal words."""

    id: str
    split: Split
    held_out_id: str
    held_out_split: Split
    similarity: float


class LeakFinder:
    """Finds similar captions in different splits, with temporary files; close it to remove them.

    It knows the records alone, not what the builder found. Equal words are found always. Of other similar pairs it
    compares those that share a copy key (`dataset.flow.copies`), and computes their similarity exactly.

    least: the least similarity of a leak.
    """

    def __init__(self, least: float) -> None:
        self._least = least
        self._folder = tempfile.TemporaryDirectory(prefix="memeloom-leaks-")
        self._spools = [_Spool(Path(self._folder.name) / split) for split in SPLITS]

    def add(self, record: DatasetRecord) -> None:
        """Add the words of a record."""
        self._spools[SPLITS.index(record.split)].add(record)

    def first(self) -> Leak | None:
        """Return the first leak, if any."""
        for spool in self._spools:
            spool.flush()
        for later in range(1, len(SPLITS)):
            for held_out in self._spools[later].entries(HELD_OUT_AT_ONCE):
                if leak := self._find(held_out, later):
                    return leak
        return None

    def close(self) -> None:
        """Remove the temporary files."""
        for spool in self._spools:
            spool.close()
        self._folder.cleanup()

    def _find(self, held_out: NDArray[Any], later: int) -> Leak | None:
        """Return a caption of an earlier split that is similar to one of those held out, of split `later`."""
        index = HeldOut(held_out["keys"], held_out["bits"].copy(), np.full(len(held_out), later, np.uint32))
        text_of = lru_cache(maxsize=_TEXTS)(lambda member: self._spools[later].text(held_out[member]))
        for split, spool in enumerate(self._spools[:later]):
            for entries in spool.entries(_BATCH):
                for rows, members in index.candidates(entries["keys"], entries["bits"].copy(), split, self._least):
                    for row, member in zip(rows.tolist(), members.tolist(), strict=True):
                        similar = similarity(spool.text(entries[row]), text_of(member))
                        if similar >= self._least:
                            ids = spool.id(entries[row]), self._spools[later].id(held_out[member])
                            return Leak(ids[0], SPLITS[split], ids[1], SPLITS[later], similar)
        return None


class _Spool:
    """The signatures, words and ids of one split, in two files."""

    def __init__(self, path: Path) -> None:
        self._entries: BinaryIO = path.open("w+b")
        self._texts: BinaryIO = path.with_suffix(".texts").open("w+b")
        self._waiting: list[DatasetRecord] = []

    def add(self, record: DatasetRecord) -> None:
        self._waiting.append(record._replace(image=None))
        if len(self._waiting) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        texts = normalise_all([record.boxes for record in self._waiting])
        signed = signatures(texts, np.zeros(len(texts), np.uint64))
        data = [(text.encode(), record.id.encode()) for text, record in zip(texts, self._waiting, strict=True)]
        entries = np.empty(len(data), _ENTRY)
        entries["keys"], entries["bits"] = signed.copies, signed.sketches
        entries["text"], entries["id"] = [len(text) for text, _ in data], [len(name) for _, name in data]
        sizes = entries["text"].astype(np.uint64) + entries["id"]
        entries["start"] = np.cumsum(sizes) - sizes + np.uint64(self._texts.seek(0, 2))
        self._entries.write(entries.tobytes())
        self._texts.write(b"".join([text + name for text, name in data]))
        self._waiting.clear()

    def entries(self, count: int) -> Iterator[NDArray[Any]]:
        """Yield all entries, `count` at a time."""
        self._texts.flush()
        self._entries.seek(0)
        while len(found := np.frombuffer(self._entries.read(count * _ENTRY.itemsize), _ENTRY)):
            yield found

    def text(self, entry: Any) -> str:
        return self._read(int(entry["start"]), int(entry["text"]))

    def id(self, entry: Any) -> str:
        return self._read(int(entry["start"]) + int(entry["text"]), int(entry["id"]))

    def _read(self, start: int, length: int) -> str:
        self._texts.seek(start)
        return self._texts.read(length).decode()

    def close(self) -> None:
        self._entries.close()
        self._texts.close()
