"""Tar files for the package `webdataset`: for each record ``KEY.json`` and, if it has one, its picture.

The key, unique in a dataset, is the tar's name without suffix and the record's number. In a tar of pictures that
records refer to, the key is the picture's. Members have no time and no owner. A picture's suffix is its kind, ``.bin``
if unknown. Convention: https://github.com/webdataset/webdataset ; tar: POSIX ustar.
"""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from memeloom.catalog.formats import still_format
from memeloom.dataset.formats.contract import Check, Compression
from memeloom.dataset.formats.packed import BrokenStream, DamagedRecords, HashedFile, Unpacked
from memeloom.dataset.schema import INTEGERS, DatasetRecord, Picture

_BLOCK = tarfile.BLOCKSIZE
_END = 2 * _BLOCK
_MAX_MEMBER_BYTES = 64 * 2**20


class _Tar(HashedFile):
    def close(self) -> None:
        """Flush and fsync."""
        self.put(b"\0" * _END)
        super().close()

    def _add(self, name: str, data: bytes) -> None:
        if len(data) > _MAX_MEMBER_BYTES:
            raise ValueError(f"{name} of {len(data):,} bytes; the limit is {_MAX_MEMBER_BYTES:,}")
        member = tarfile.TarInfo(name)  # time 0, owner 0
        member.size = len(data)
        self.put(member.tobuf(tarfile.USTAR_FORMAT))
        self.put(data)
        self.put(b"\0" * (-len(data) % _BLOCK))


class WebDatasetPictures(_Tar):
    """Writes pictures to a tar file."""

    def __init__(self, path: Path, compression: Compression) -> None:  # noqa: ARG002
        super().__init__(path)

    def write(self, picture: Picture) -> None:
        """Append a picture. Raises ValueError if it is larger than 64 MiB."""
        self._add(picture.key + picture_suffix(picture.data), picture.data)
        self.records += 1


class WebDatasetFile(_Tar):
    """Writes records to a tar file."""

    def __init__(self, path: Path, compression: Compression, *, pictures: bool) -> None:  # noqa: ARG002
        # The name tells the compression; a record without a picture has no member for it.
        super().__init__(path)
        self._key = path.name.partition(".")[0]

    def write(self, record: DatasetRecord) -> None:
        """Append a record. Raises ValueError if its picture is larger than 64 MiB."""
        key = f"{self._key}-{self.records:06}"
        facts = {name: value for name, value in record._asdict().items() if name != "image"}
        self._add(f"{key}.json", json.dumps(facts, ensure_ascii=False).encode())
        if record.image is not None:
            self._add(key + picture_suffix(record.image), record.image)
        self.records += 1


def picture_suffix(data: bytes) -> str:
    """Return ``.jpg``, or a dot and the name of another format that `still_format` knows, or ``.bin``."""
    form = still_format(data) or "bin"
    return ".jpg" if form == "jpeg" else f".{form}"


_IN_JSON = tuple(name for name in DatasetRecord._fields if name != "image")
_TEXTS = tuple(name for name in _IN_JSON if name not in {"boxes", *INTEGERS})


class _Member(NamedTuple):
    name: str
    data: bytes
    offset: int


def read_webdataset(path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:
    """Yield records as `Read` does, one in memory, checking tar header checksums and structure."""
    for number, (facts, image, offset) in enumerate(_pairs(path), start=1):
        record = _record(facts, image)
        fault = "not a record of a dataset" if record is None else check(record) if check is not None else ""
        if record is None or fault:
            raise DamagedRecords(path, fault, offset=offset, record=number)
        yield record


def read_webdataset_pictures(path: Path) -> Iterator[Picture]:
    """Yield pictures as `ReadPictures` does, one in memory, checking tar header checksums."""
    return (Picture(member.name.partition(".")[0], member.data) for member in _members(path))


def _pairs(path: Path) -> Iterator[tuple[Any, bytes | None, int]]:
    """Yield the JSON of each record, its picture or None, and its offset."""
    number = 0
    facts: tuple[str, Any, int] | None = None
    for member in _members(path):
        key, _, suffix = member.name.partition(".")
        if suffix != "json":
            if facts is None or facts[0] != key:
                raise DamagedRecords(path, "picture without a record", offset=member.offset, record=number)
            yield facts[1], member.data, facts[2]
            facts = None
            continue
        if facts is not None:
            yield facts[1], None, facts[2]
        number += 1
        try:
            facts = key, json.loads(member.data), member.offset
        except (ValueError, RecursionError) as error:
            raise DamagedRecords(path, f"not JSON ({error})", offset=member.offset, record=number) from error
    if facts is not None:
        yield facts[1], None, facts[2]


def _record(facts: Any, image: bytes | None) -> DatasetRecord | None:
    if isinstance(facts, dict) and tuple(facts) == _IN_JSON and isinstance(facts["boxes"], list):
        texts = [*(facts[name] for name in _TEXTS), *facts["boxes"]]
        numbers = [facts[name] for name in INTEGERS]
        # `type`: a bool is an instance of int.
        if all(isinstance(text, str) for text in texts) and {*map(type, numbers)} <= {int, NoneType}:
            return DatasetRecord(**{**facts, "boxes": tuple(facts["boxes"])}, image=image)
    return None


def _members(path: Path) -> Iterator[_Member]:
    source = Unpacked(path)
    buffer, at, before = b"", 0, 0
    try:
        while True:
            buffer, before, at = source.more(buffer[at:], _BLOCK), before + at, 0
            if len(buffer) >= _BLOCK and not any(buffer[:_BLOCK]):
                _check_end(source, buffer)
                return
            name, size = _header(buffer[:_BLOCK])
            at = _BLOCK + size + -size % _BLOCK
            buffer = source.more(buffer, at)
            _check_whole(buffer, at)
            yield _Member(name, buffer[_BLOCK : _BLOCK + size], before)
    except BrokenStream as broken:
        raise DamagedRecords(path, str(broken), offset=before) from broken


def _header(block: bytes) -> tuple[str, int]:
    """Return a member's name and size. Raises BrokenStream if the header's checksum is wrong."""
    try:
        member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError) as error:
        raise BrokenStream(f"broken header of a tar ({error})") from error
    if not 0 <= member.size <= _MAX_MEMBER_BYTES:
        raise BrokenStream(f"member of {member.size:,} bytes (limit {_MAX_MEMBER_BYTES:,})")
    return member.name, member.size


def _check_whole(buffer: bytes, size: int) -> None:
    if len(buffer) < size:
        raise BrokenStream("tar cut off")


def _check_end(source: Unpacked, rest: bytes) -> None:
    """Require at least two zero blocks, and nothing else until the end."""
    rest = source.more(rest, _END)
    _check_whole(rest, _END)
    while rest and not any(rest):
        rest = source.more(b"", 1)
    if rest:
        raise BrokenStream("something behind the end of a tar")
