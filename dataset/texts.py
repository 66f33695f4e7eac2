"""Read only text and template of records, thousands at a time, for training."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.examples import NotAnExample, parse_example
from memeloom.dataset.formats.contract import FormatName
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.formats.tfrecord import FRAME_BYTES, read_records
from memeloom.dataset.manifest import Manifest, check_file
from memeloom.dataset.schema import Split

_AT_ONCE = 4096


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
            if FORMATS[manifest.format].trusting:
                check_file(folder, shard)
            yield from read_texts(folder / shard.name, manifest.format)


def read_texts(path: Path, format_name: FormatName) -> Iterator[Texts]:
    """Yield the texts of a file of records, in order, some thousands in memory.

    Raises:
        DamagedRecords: names the first record that cannot be read, and its place.
        MemeloomError: the file cannot be read.
    """
    if format_name == "tfrecord":
        pairs = _tfrecord_pairs(path)
    else:
        pairs = ((record.text, record.template) for record in FORMATS[format_name].read(path))
    while part := list(islice(pairs, _AT_ONCE)):
        texts, templates = zip(*part, strict=True)
        yield Texts("".join(texts), np.fromiter(map(len, texts), np.int64, len(texts)), list(templates))


def _tfrecord_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield text and template of each record; twice as fast as decoding all of it."""
    offset = 0
    for number, payload in enumerate(read_records(path), start=1):
        try:
            features = parse_example(payload)
            text = features["text"].bytes_list.value[0].decode()
            template = features["template"].bytes_list.value[0].decode()
        except NotAnExample as error:
            raise DamagedRecords(path, str(error), offset=offset, record=number) from error
        except (IndexError, UnicodeDecodeError) as error:
            fault = f"not a record of a dataset: {error!r}"
            raise DamagedRecords(path, fault, offset=offset, record=number) from error
        yield text, template
        offset += FRAME_BYTES + len(payload)
