"""The formats by name, the format without output, and checks of the settings."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Dataset
from memeloom.dataset.formats.contract import Check, Compression, Format, FormatName
from memeloom.dataset.formats.parquet import ParquetFile, ParquetPictures, read_parquet, read_parquet_pictures
from memeloom.dataset.formats.tfrecord import (
    TFRecordFile,
    TFRecordPictures,
    read_tfrecord_pictures,
    read_tfrecords,
)
from memeloom.dataset.formats.webdataset import (
    WebDatasetFile,
    WebDatasetPictures,
    read_webdataset,
    read_webdataset_pictures,
)
from memeloom.dataset.manifest import MANIFEST, NotADataset, read_manifest
from memeloom.dataset.remote.files import is_remote
from memeloom.dataset.schema import DatasetRecord, Picture


class DummyFile:
    """Counts records or pictures without writing them, to measure the rest of a build."""

    sha256 = hashlib.sha256().hexdigest()
    bytes = 0

    def __init__(self, path: Path, compression: Compression, *, pictures: bool = False) -> None:  # noqa: ARG002
        self.path = path
        self.records = 0
        path.touch(exist_ok=False)

    def write(self, item: DatasetRecord | Picture) -> None:  # noqa: ARG002
        """Count an item."""
        self.records += 1

    def close(self) -> None:
        """Do nothing."""

    def abandon(self) -> None:
        """Do nothing."""


def read_dummy(path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:  # noqa: ARG001
    """Return no records."""
    return iter(())


def read_dummy_pictures(path: Path) -> Iterator[Picture]:  # noqa: ARG001
    """Return no pictures."""
    return iter(())


FORMATS: Final[Mapping[FormatName, Format]] = MappingProxyType(
    {
        "tfrecord": Format(
            {"none": ".tfrecord", "gzip": ".tfrecord.gz", "zstd": ".tfrecord.zst"},
            TFRecordFile,
            read_tfrecords,
            TFRecordPictures,
            read_tfrecord_pictures,
        ),
        # Pages are compressed, not the file. pyarrow 26 aborts the process on some damaged footers.
        "parquet": Format(
            dict.fromkeys(("none", "gzip", "zstd"), ".parquet"),
            ParquetFile,
            read_parquet,
            ParquetPictures,
            read_parquet_pictures,
            needs_hash_check=True,
        ),
        "webdataset": Format(
            {"none": ".tar", "gzip": ".tar.gz"},
            WebDatasetFile,
            read_webdataset,
            WebDatasetPictures,
            read_webdataset_pictures,
        ),
        "dummy": Format(
            dict.fromkeys(("none", "gzip", "zstd"), ".dummy"),
            DummyFile,
            read_dummy,
            DummyFile,
            read_dummy_pictures,
            has_records=False,
        ),
    }
)


def check_format(settings: Dataset) -> None:
    """Check that `dataset.format` and `dataset.compression` can be written to `dataset.output`.

    Raises:
        ConfigError: an invalid combination, an output address other than s3://, a missing package, or `dummy` would
            replace a dataset.
    """
    suffixes = FORMATS[settings.format].suffixes
    if settings.compression not in suffixes:
        known = ", ".join(suffixes)
        raise ConfigError(f"dataset.compression: {settings.format} has {known}, not {settings.compression}")
    if re.match(r"[a-z][a-z0-9+.-]*:/", settings.output, re.IGNORECASE) and not is_remote(settings.output):
        raise ConfigError(f"dataset.output: neither a folder nor an s3:// address: {settings.output}")
    if settings.format == "parquet":
        check_readable(settings.format)
    elif settings.format == "dummy" and is_remote(settings.output):
        raise ConfigError(
            "dataset.format: dummy writes no records, so nothing to keep at an s3:// address; use a folder"
        )
    elif settings.format == "dummy" and not _may_be_lost(Path(settings.output)):
        raise ConfigError(
            f"dataset.format: dummy would replace the dataset in {settings.output} and write no records; "
            "choose another dataset.output"
        )


def _may_be_lost(output: Path) -> bool:
    try:
        return not (output / MANIFEST).exists() or read_manifest(output).format == "dummy"
    except NotADataset:
        return False


def check_readable(name: FormatName) -> None:
    """Raise ConfigError if a package needed to read a format is missing."""
    if name == "parquet" and find_spec("pyarrow") is None:
        raise ConfigError('parquet needs pyarrow: pip install "memeloom[parquet]"')


def tensorflow_reads(format_name: FormatName, compression: str) -> bool:
    """Return True if TensorFlow reads such files."""
    return format_name == "tfrecord" and compression in ("none", "gzip")
