"""Read only text and template of records, thousands at a time, for training.

NumPy parses many records as `encode_record` writes them in parallel, feature by feature, many times as fast as
`decode_record`, which reads all others.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.examples import NotAnExample
from memeloom.dataset.formats.contract import FormatName
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.formats.tfrecord import FRAME_BYTES, read_many_records
from memeloom.dataset.manifest import Manifest, check_file
from memeloom.dataset.schema import DatasetRecord, Split, decode_record

_AT_ONCE, _BYTES_AT_ONCE = 4096, 16 << 20
# Protobuf tags of a nested message: field 1 and field 2.
_FIRST, _SECOND = 0x0A, 0x12
# A varint has 7 bits in each byte; the eighth means that it continues. Longer ones exceed the limit of a record.
_NUMBER_BYTES, _COUNT, _GOES_ON = 4, 0x7F, 0x80
# In UTF-8 all bytes of a character but the first are 10xxxxxx.
_TOP_BITS, _INSIDE = 0xC0, 0x80
_WORD = 8


class Texts(NamedTuple):
    """Texts of some records.

    text: all texts, concatenated. lengths: characters of each, int64 (records,). templates: ids, one a record.
    """

    text: str
    lengths: NDArray[np.int64]
    templates: list[str]


def texts_of(folder: Path, manifest: Manifest, split: Split) -> Iterator[Texts]:
    """Yield the texts of a split of the dataset in `folder`, in order, some thousands in memory.

    Raises:
        DamagedRecords: names the first record that cannot be read, and its place.
        NotADataset: a file does not match the manifest, and its reader could crash on it.
        MemeloomError: a file cannot be read.
    """
    for shard in manifest.shards:
        if shard.split == split:
            if FORMATS[manifest.format].needs_hash_check:
                check_file(folder, shard)
            yield from read_texts(folder / shard.name, manifest.format)


def read_texts(path: Path, format_name: FormatName) -> Iterator[Texts]:
    """Yield the texts of a file of records, in order, some thousands in memory.

    Raises:
        DamagedRecords: names the first record that cannot be read, and its place.
        MemeloomError: the file cannot be read.
    """
    if format_name != "tfrecord":
        yield from _some_at_once(FORMATS[format_name].read(path))
        return
    number, offset = 1, 0
    for payloads in _together(read_many_records(path)):
        yield _of_payloads(payloads, path, number, offset)
        number += len(payloads)
        offset += sum(map(len, payloads)) + FRAME_BYTES * len(payloads)


def _some_at_once(records: Iterable[DatasetRecord]) -> Iterator[Texts]:
    left = iter(records)
    # Without their pictures.
    while part := [(record.text, record.template) for record in islice(left, _AT_ONCE)]:
        yield _of_pairs(part)


def _together(parts: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Join lists until they are large enough for NumPy."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting += part
        size += sum(map(len, part))
        if len(waiting) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _of_pairs(said: list[tuple[str, str]]) -> Texts:
    """Join the texts and templates of records."""
    lengths = np.array([len(text) for text, _ in said], np.int64)
    return Texts("".join([text for text, _ in said]), lengths, [template for _, template in said])


def _of_payloads(payloads: list[bytes], path: Path, number: int, offset: int) -> Texts:
    """Parse payloads; the first has this number and offset in the file."""
    examples = _Examples(payloads)
    for name in ("boxes", "id"):
        examples.skip(name)
    examples.skip("image", optional=True)
    examples.skip("image_key")
    for name in ("posted_at", "score"):
        examples.skip(name, optional=True)
    for name in ("source", "split"):
        examples.skip(name)
    templates = examples.value("template")
    examples.skip("template_name")
    texts = examples.value("text")
    examples.skip("views", optional=True)
    try:
        if examples.are_over():
            said, lengths = examples.joined(*texts)
            return Texts(said, lengths, examples.each(*templates))
    except UnicodeDecodeError:
        pass
    return _one_by_one(payloads, path, number, offset)


def _one_by_one(payloads: list[bytes], path: Path, number: int, offset: int) -> Texts:
    said = []
    for at, payload in enumerate(payloads, start=number):
        try:
            record = decode_record(payload)
        except NotAnExample as error:
            raise DamagedRecords(path, str(error), offset=offset, record=at) from error
        said.append((record.text, record.template))
        offset += FRAME_BYTES + len(payload)
    return _of_pairs(said)


class _Examples:
    """Examples parsed in parallel, feature by feature in the order written."""

    def __init__(self, payloads: list[bytes]) -> None:
        self._data = b"".join(payloads)
        # The eight bytes at each position, to compare a header as one number; padded with zeros.
        self._words: NDArray[np.uint64] = np.ndarray(
            len(self._data) + 1, np.dtype("<u8"), self._data + bytes(_WORD), strides=(1,)
        )
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        self._ends = np.cumsum(sizes)
        self._at = self._ends - sizes
        self._fit = np.ones(len(payloads), np.bool_)
        self._at = self._message(self._at, _FIRST, self._ends)

    def are_over(self) -> bool:
        """Return True if all Examples were as expected and end here."""
        return bool((self._fit & (self._at == self._ends)).all())

    def skip(self, name: str, *, optional: bool = False) -> None:
        _, end, named = self._entry(name)
        if optional:
            self._at = np.where(named, end, self._at)
        else:
            self._fit &= named
            self._at = end

    def value(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the single value of the feature `name` begins and ends, (records,) each."""
        inside, end, named = self._entry(name)
        self._fit &= named
        for tag in (_SECOND, _FIRST, _FIRST):
            inside = self._message(inside, tag, end)
        self._at = end
        return inside, end

    def each(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[str]:
        """Return the texts at these places."""
        data = self._data
        return [data[begin:end].decode() for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]

    def joined(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[str, NDArray[np.int64]]:
        """Return the texts at these places, concatenated, and the number of characters of each.

        Raises UnicodeDecodeError if one is not UTF-8.
        """
        data, lengths = self._data, ends - begins
        together = b"".join([data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])
        if together.isascii():
            return together.decode(), lengths
        stops = np.cumsum(lengths)
        said = np.frombuffer(together, np.uint8)
        first = (said & _TOP_BITS) != _INSIDE
        # A text that begins within a character could be completed by the previous one.
        if not first[(stops - lengths)[lengths > 0]].all():
            raise UnicodeDecodeError("utf-8", self._data, 0, 0, "a text begins within a character")
        before = np.concatenate([[0], np.cumsum(first)])
        return together.decode(), before[stops] - before[stops - lengths]

    def _entry(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return where the values of the next features begin and end, and a mask of those with this name."""
        tag, size, key = self._head(self._at)
        named = (tag == _FIRST) & (key + size <= self._ends)
        head = bytes([_FIRST, len(name)]) + name.encode()
        for at in range(0, len(head), _WORD):
            wanted = head[at : at + _WORD]
            mask = np.uint64(2 ** (8 * len(wanted)) - 1)
            named &= (self._word(key + at) & mask) == int.from_bytes(wanted, "little")
        return key + len(head), key + size, named

    def _message(self, at: NDArray[np.int64], tag: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the content of the messages at `at` begins; they must have this tag and end at `ends`."""
        found, size, inside = self._head(at)
        self._fit &= (found == tag) & (inside + size == ends)
        return inside

    def _head(self, at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return tags and sizes of the messages at `at`, and where their content begins."""
        word = self._word(at).astype(np.int64)
        tag, size, inside, more = word & 0xFF, word >> 8 & _COUNT, at + 2, (word >> 8 & _GOES_ON) > 0
        for place in range(1, _NUMBER_BYTES):
            if not more.any():
                return tag, size, inside
            byte = word >> 8 * (place + 1)
            size = np.where(more, size | (byte & _COUNT) << 7 * place, size)
            inside = inside + more
            more &= (byte & _GOES_ON) > 0
        self._fit &= ~more
        return tag, size, inside

    def _word(self, at: NDArray[np.int64]) -> NDArray[np.uint64]:
        return self._words[np.minimum(at, len(self._data))]
