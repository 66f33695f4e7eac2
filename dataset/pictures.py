"""Read the pictures that records refer to, by key, in bounded memory.

With `images: template` records hold the key of their picture only; `Pictures` joins both. Other datasets have their
pictures in the records, or none.
"""

import hashlib
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, NamedTuple

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.manifest import Manifest, NotADataset, check_file
from memeloom.dataset.schema import DatasetRecord, Picture


def all_pictures(folder: Path, manifest: Manifest) -> Iterator[Picture]:
    """Yield the pictures of all files, compared with their keys.

    Raises:
        DamagedRecords: locates the first picture that is unreadable.
        NotADataset: a file does not match the manifest, or a picture its key.
    """
    form = FORMATS[manifest.format]
    for file in manifest.picture_files:
        if form.needs_hash_check:
            check_file(folder, file)
        for picture in form.read_pictures(folder / file.name):
            if hashlib.sha256(picture.data).hexdigest() != picture.key:
                raise NotADataset(
                    f"{folder / file.name}: picture {picture.key!r}, whose sha256 is another; build the dataset again"
                )
            yield picture


class _Place(NamedTuple):
    offset: int
    size: int


class Pictures(Mapping[str, bytes]):
    """The pictures of a dataset by key, which is their sha256 in hex; empty if the records hold them.

    The first access copies them into a temporary file, from which each is read as it is wanted: the memory is that of
    the keys. Threads and forked processes may share it. All methods raise as `all_pictures`.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest

    def __getitem__(self, key: str) -> bytes:
        """Return the bytes of a picture. Raises KeyError."""
        file, places = self._copied
        offset, size = places[key]
        return os.pread(file.fileno(), size, offset)

    def __iter__(self) -> Iterator[str]:
        """Return the keys."""
        return iter(self._copied[1])

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self._copied[1])

    def of(self, record: DatasetRecord) -> bytes | None:
        """Return the picture of a record: its own or the one that it refers to; None if it has none.

        Raises:
            NotADataset: the dataset lacks the picture.
        """
        if record.image is not None or self._manifest.images != "template":
            return record.image
        try:
            return self[record.image_key]
        except KeyError:
            raise NotADataset(f"{self._folder}: {record.id} has no picture; build the dataset again") from None

    def join(self, record: DatasetRecord) -> DatasetRecord:
        """Return the record with its picture. Raises as `of`."""
        image = self.of(record)
        return record if image is record.image else record._replace(image=image)

    @cached_property
    def _copied(self) -> tuple[IO[bytes], dict[str, _Place]]:
        places: dict[str, _Place] = {}
        try:
            file = tempfile.TemporaryFile(prefix="memeloom-pictures-")  # noqa: SIM115
            weakref.finalize(self, file.close)
            for picture in all_pictures(self._folder, self._manifest):
                places[picture.key] = _Place(file.tell(), len(picture.data))
                file.write(picture.data)
            file.flush()
        except OSError as error:
            raise MemeloomError(
                f"cannot copy the pictures of {self._folder} to {tempfile.gettempdir()}: {error.strerror or error}"
            ) from error
        return file, places


class PictureReferences:
    """The pictures of a dataset, verified, and which of them its records refer to.

    Raises:
        DamagedRecords, NotADataset: a file is damaged or does not match the manifest, or a picture occurs twice.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._apart = folder, manifest.images == "template"
        self._used: dict[str, bool] = {}
        for picture in all_pictures(folder, manifest):
            if picture.key in self._used:
                raise NotADataset(f"{folder}: picture {picture.key} occurs twice; build the dataset again")
            self._used[picture.key] = False
        for file in manifest.picture_files:
            check_file(folder, file)
        stated = sum(file.pictures for file in manifest.picture_files)
        if len(self._used) != stated:
            raise NotADataset(f"{folder}: {len(self._used):,} pictures, expected {stated:,}; build the dataset again")

    def find_fault(self, record: DatasetRecord) -> str:
        """Return what is wrong with the reference of a record, or ""."""
        if not self._apart:
            return ""
        if record.image_key not in self._used:
            return "record whose picture is missing"
        self._used[record.image_key] = True
        return ""

    def check(self) -> None:
        """Raise NotADataset if no record refers to one of the pictures."""
        for key, used in self._used.items():
            if not used:
                raise NotADataset(f"{self._folder}: no record refers to picture {key}; build the dataset again")
