"""The formats by name, and whether a configuration can have the one it asks for."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Dataset
from memeloom.dataset.formats.contract import Format, FormatName
from memeloom.dataset.formats.dummy import DummyFile, read_dummy
from memeloom.dataset.formats.parquet import ParquetFile, read_parquet
from memeloom.dataset.formats.tfrecords import TFRecordFile, read_tfrecords
from memeloom.dataset.formats.webdataset import WebDatasetFile, read_webdataset
from memeloom.dataset.manifest import MANIFEST, NotADataset, read_manifest

FORMATS: Final[Mapping[FormatName, Format]] = MappingProxyType(
    {
        "tfrecord": Format(
            {"none": ".tfrecord", "gzip": ".tfrecord.gz", "zstd": ".tfrecord.zst"}, TFRecordFile, read_tfrecords
        ),
        # Here pages are packed, and not the file. pyarrow 26 aborts on some footers that are damaged.
        "parquet": Format(
            dict.fromkeys(("none", "gzip", "zstd"), ".parquet"), ParquetFile, read_parquet, trusting=True
        ),
        "webdataset": Format({"none": ".tar", "gzip": ".tar.gz"}, WebDatasetFile, read_webdataset),
        "dummy": Format(dict.fromkeys(("none", "gzip", "zstd"), ".dummy"), DummyFile, read_dummy, counted=False),
    }
)


def check_format(settings: Dataset) -> None:
    """See that files can be written as `dataset.format` and `dataset.compression` say.

    Raises:
        ConfigError: they do not go together, a package is missing, or nothing but counts would replace a dataset.
    """
    suffixes = FORMATS[settings.format].suffixes
    if settings.compression not in suffixes:
        known = ", ".join(suffixes)
        raise ConfigError(f"dataset.compression: {settings.format} has {known}, not {settings.compression}")
    if settings.format == "parquet":
        check_readable(settings.format)
    elif settings.format == "dummy" and not _may_be_lost(Path(settings.output)):
        raise ConfigError(
            f"dataset.format: dummy would replace the dataset in {settings.output} by nothing; "
            "choose another dataset.output"
        )


def _may_be_lost(output: Path) -> bool:
    """Whether there is no dataset, or one without records."""
    try:
        return not (output / MANIFEST).exists() or read_manifest(output).format == "dummy"
    except NotADataset:
        return False


def check_readable(name: FormatName) -> None:
    """See that files of a format can be read here.

    Raises:
        ConfigError: a package is missing.
    """
    if name == "parquet" and find_spec("pyarrow") is None:
        raise ConfigError('parquet needs pyarrow: pip install "memeloom[parquet]"')


def tensorflow_reads(format_name: FormatName, compression: str) -> bool:
    """Whether TensorFlow can read such files."""
    return format_name == "tfrecord" and compression in ("none", "gzip")
