"""Write a shard from a former one: unchanged records are copied, only new ones are read and encoded.

A build with few new captions changes every shard, as captions are in hash order, but little of each. The records of a
TFRecord file are bytes of their own in its unpacked stream; a file of rows beside the shard tells where they end. With
1 % new of 260,417 real captions, a build takes 4.5 to 5.9 s of processor time instead of 6.5 to 8.2 s (three runs).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from memeloom.dataset.flow.block import Array
from memeloom.dataset.flow.work import WorkFolder
from memeloom.dataset.formats.packed import Unpacked
from memeloom.dataset.formats.tfrecord import TFRecordFile, decode_frame
from memeloom.dataset.manifest import file_sha256
from memeloom.dataset.schema import DatasetRecord
from memeloom.dataset.statistics import SAMPLE_RECORDS, SHARD_WORDS, ShardTally

ROWS: Final = "rows"
# A record of a shard: its order, the hash of its line, and where it ends in the unpacked stream.
_KEPT = np.dtype([("order", "<u8"), ("check", "<u8"), ("end", "<u8")])
# Bytes unpacked at once.
_UNPACKED = 2**20
Read = Callable[[Array], Iterator[DatasetRecord]]


class FormerShard(NamedTuple):
    """An undamaged shard that a former build wrote with the same settings: its tally, and the paths of its files."""

    counts: dict[str, Any]
    file: Path
    words: Path
    rows: Path


def find_former(work: WorkFolder, folder: str | None, file: str, deciding: str) -> FormerShard | None:
    """Return the shard in `folder` of the work folder; None if it cannot be used.

    deciding: hash of all that decides about the bytes of a record, besides its line.
    """
    counts = work.read(f"shards/{folder}/tally.json") if folder else None
    if counts is None or counts["deciding"] != deciding or not counts["rows"] or not counts["records"]:
        return None
    names = {file: counts["sha256"], SHARD_WORDS: counts["words"], ROWS: counts["rows"]}
    if not all(work.holds(f"shards/{folder}/{name}", sha256) for name, sha256 in names.items()):
        return None
    return FormerShard(counts, *(work.path(f"shards/{folder}/{name}") for name in names))


def note_rows(file: TFRecordFile, batches: Iterable[Array]) -> str:
    """Write the rows of a closed shard beside it; return the sha256, or "" if equal orders make them of no use."""
    kept = np.empty(file.records, _KEPT)
    at = 0
    for rows in batches:
        for name in ("order", "check"):
            kept[name][at : at + len(rows)] = rows[name]
        at += len(rows)
    kept["end"] = np.frombuffer(file.ends, np.uint64)
    if not (kept["order"][1:] > kept["order"][:-1]).all():
        return ""
    path = file.path.with_name(ROWS)
    path.write_bytes(kept.tobytes())
    return file_sha256(path)


def patch(former: FormerShard, file: TFRecordFile, tally: ShardTally, batches: Iterable[Array], read: Read) -> None:
    """Write the records of `batches` of rows to `file`, and count in `tally` what differs from `former`.

    read: returns the records of rows.
    """
    patched = _Patch(former, file, tally)
    samples: list[DatasetRecord] = []
    for rows in batches:
        samples += read(rows[: SAMPLE_RECORDS - len(samples)])
        patched.add(rows, read)
    patched.finish()
    tally.samples = samples


class _Patch:
    def __init__(self, former: FormerShard, file: TFRecordFile, tally: ShardTally) -> None:
        rows = np.fromfile(former.rows, _KEPT)
        self._orders, self._checks = (np.ascontiguousarray(rows[name]) for name in ("order", "check"))
        self._ends = np.concatenate((np.zeros(1, np.uint64), rows["end"]))
        self._source = Unpacked(former.file)
        self._file, self._tally = file, tally
        # Records taken from the stream, and bytes that are read but not taken.
        self._taken, self._buffer, self._at = 0, b"", 0

    def add(self, rows: Array, read: Read) -> None:
        """Append the records of rows, which ascend."""
        at = np.minimum(np.searchsorted(self._orders, rows["order"]), len(self._orders) - 1)
        same = (self._orders[at] == rows["order"]) & (self._checks[at] == rows["check"])
        new = read(rows[~same])
        follows = same[1:] & same[:-1] & (at[1:] == at[:-1] + 1)
        begins = np.flatnonzero(np.concatenate(([True], ~follows))[: len(rows)]).tolist()
        for begin, end in itertools.pairwise((*begins, len(rows))):
            if same[begin]:
                self._copy(int(at[begin]), int(at[end - 1]) + 1)
            else:
                record = next(new)
                self._file.write(record)
                self._tally.add(record)

    def finish(self) -> None:
        """Count the rest of the former shard no longer."""
        self._skip(len(self._orders))

    def _copy(self, first: int, end: int) -> None:
        self._skip(first)
        self._file.copy(self._take(end), np.diff(self._ends[first : end + 1]))

    def _skip(self, first: int) -> None:
        for number in range(self._taken, first):
            self._tally.remove(decode_frame(self._take(number + 1)))

    def _take(self, end: int) -> bytes:
        """Return the frames up to before record `end`."""
        wanted = int(self._ends[end] - self._ends[self._taken])
        if len(self._buffer) - self._at < wanted:
            self._buffer, self._at = self._source.more(self._buffer[self._at :], max(wanted, _UNPACKED)), 0
        frames = self._buffer[self._at : self._at + wanted]
        self._at += wanted
        self._taken = end
        return frames
