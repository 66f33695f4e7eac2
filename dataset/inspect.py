"""What is in a dataset: its manifest, and some of its records."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memeloom.dataset.formats.registry import check_readable
from memeloom.dataset.manifest import Manifest, read_manifest
from memeloom.dataset.schema import SPLITS, DatasetRecord, Split
from memeloom.dataset.verify import records_of


@dataclass(frozen=True)
class Look:
    """samples: the first records of each split, which stand in random order."""

    folder: Path
    manifest: Manifest
    samples: Mapping[Split, tuple[DatasetRecord, ...]]

    def as_json(self) -> dict[str, Any]:
        """The manifest and the samples; of pictures only the number of bytes."""
        samples = {split: [_facts(record) for record in records] for split, records in self.samples.items()}
        return {"folder": str(self.folder), **self.manifest.model_dump(mode="json"), "samples": samples}


def inspect_dataset(folder: Path, records: int) -> Look:
    """Look at the dataset in `folder`. records: how many of each split are read.

    Raises:
        NotADataset: there is none, or a file is missing or of another size.
        DamagedRecords: one of the records cannot be read.
    """
    manifest = read_manifest(folder)
    check_readable(manifest.format)
    samples: dict[Split, tuple[DatasetRecord, ...]] = {}
    for split in SPLITS:
        shards = [shard for shard in manifest.shards if shard.split == split]
        found = itertools.chain.from_iterable(records_of(folder, manifest, shard) for shard in shards)
        samples[split] = tuple(itertools.islice(found, records))
    return Look(folder, manifest, samples)


def _facts(record: DatasetRecord) -> dict[str, Any]:
    facts = record._asdict()
    image = facts.pop("image")
    return facts if image is None else {**facts, "image_bytes": len(image)}
