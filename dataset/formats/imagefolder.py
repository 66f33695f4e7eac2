"""A folder for each split with pictures as files and a table of captions, as `datasets` reads them as ``imagefolder``.

::

    train/metadata.parquet      a row per caption: `file_name`, the picture's path in `train/`, and the features
    train/KEY.jpg               a picture, once, however many captions name it; KEY is its sha256

`file_name` must not leave the folder of its split, so a picture of several splits is a hard link in each. Convention:
https://huggingface.co/docs/datasets/image_dataset#imagefolder . The table is Parquet, whose columns have types: a
JSON or CSV reader guesses those of votes and times from the first rows, where they may be unknown.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.formats.contract import Compression
from memeloom.dataset.formats.parquet import ParquetFile
from memeloom.dataset.formats.webdataset import picture_suffix
from memeloom.dataset.manifest import NotADataset
from memeloom.dataset.schema import SPLITS, DatasetRecord, Split

METADATA: Final = "metadata.parquet"
# Hubs and file systems are slow with more files in a folder.
_MOST_FILES = 10_000


class MetadataFile(ParquetFile):
    """Writes the captions of a split, each with the file name of its picture."""

    def __init__(self, path: Path, compression: Compression) -> None:
        super().__init__(path, compression, pictures=False, first=["file_name"])
        self._names: list[str] = []

    def add(self, record: DatasetRecord, file_name: str) -> None:
        """Append a record."""
        self._names.append(file_name)
        self.write(record)

    def _take(self) -> Mapping[str, Sequence[Any]]:
        names, self._names = self._names, []
        return {"file_name": names, **super()._take()}


class ImageFolder:
    """Writes a new image folder; the records of a split come one after another.

    Args:
        folder: an empty folder.
        compression: of the tables.
        pictures: number of pictures at most; many are spread over subfolders.
    """

    def __init__(self, folder: Path, compression: Compression, pictures: int) -> None:
        self._folder, self._compression = folder, compression
        self._spread = pictures > _MOST_FILES
        self._open: MetadataFile | None = None
        self.tables: dict[Split, MetadataFile] = {}
        self.pictures = self.picture_bytes = 0
        self.suffixes: set[str] = set()
        # Names by key of the split that is being written, as many as fit.
        self._placed: dict[str, str] = {}

    def write(self, split: Split, record: DatasetRecord, read: Callable[[DatasetRecord], bytes]) -> None:
        """Append a record.

        Args:
            split: of the record.
            record: its `image` field is ignored.
            read: returns the picture of a record; not called for one that is there already.

        Raises:
            NotADataset: the split was written before, then another one.
            OSError: the file cannot be written (for example, the disk is full).
        """
        if split not in self.tables:
            self.close()
            self._placed.clear()
            (self._folder / split).mkdir()
            self._open = self.tables[split] = MetadataFile(self._folder / split / METADATA, self._compression)
        elif self.tables[split] is not self._open:
            raise NotADataset(f"the shards of {split} are not together in the manifest; build the dataset again")
        name = self._placed.get(record.image_key) or self._place(split, record.image_key, read(record))
        self.tables[split].add(record, name)

    def close(self) -> None:
        """Complete the table that is open."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def abandon(self) -> None:
        """Close the table that is open after an error, incomplete."""
        if self._open is not None:
            self._open.abandon()

    def _place(self, split: Split, key: str, data: bytes) -> str:
        """Write a picture unless it is there; return its name in the folder of the split."""
        suffix = picture_suffix(data)
        self.suffixes.add(suffix)
        name = f"{key[:2]}/{key}{suffix}" if self._spread else key + suffix
        path = self._folder / split / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            if not self._link(name, path):
                self._put(path, data)
        if len(self._placed) < _MOST_FILES:
            self._placed[key] = name
        return name

    def _link(self, name: str, path: Path) -> bool:
        """Link a picture of another split. Returns False if there is none, or the file system has no hard links."""
        for other in SPLITS:
            with suppress(OSError):
                os.link(self._folder / other / name, path)
                return True
        return False

    def _put(self, path: Path, data: bytes) -> None:
        with path.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        self.pictures += 1
        self.picture_bytes += len(data)


def is_image_folder(folder: Path, beside: str) -> bool:
    """Return True if `folder` is an exported one: it has the table of a split, and a file named `beside`."""
    return (folder / beside).is_file() and any((folder / split / METADATA).is_file() for split in SPLITS)


def check_pictures(images: str) -> None:
    """Raise MemeloomError if a dataset without pictures is to be an image folder. images: of its manifest."""
    if images == "none":
        raise MemeloomError(
            "an imagefolder needs pictures; build the dataset with dataset.images: template, meme or inpainted"
        )
