"""Whether a dataset is what its manifest says, down to the last byte."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress, Silent
from memeloom.dataset.formats.contract import Check
from memeloom.dataset.formats.registry import FORMATS, check_readable
from memeloom.dataset.manifest import Manifest, NotADataset, Shard, check_file, read_manifest
from memeloom.dataset.schema import DatasetRecord
from memeloom.dataset.sides import KEYS, Overlap, Sides
from memeloom.dataset.vocabulary import read_vocabulary, read_words
from memeloom.dataset.wholeness import fault_of

_ADVANCED = 2000


def verify_dataset(folder: Path, progress: Progress | None = None) -> Manifest:
    """Read every byte of the dataset in `folder`, in memory that does not grow with it.

    Checked are: the sha256 of each file; each record by the checksums of its format, and against the schema; the
    numbers of records, of each source, template and split, and of each character; that no id stands twice, and that
    no caption of a template stands in two splits, whatever its case, spacing and boxes. A `dummy` dataset holds no
    records to check.

    Raises:
        NotADataset: a file is missing or not what the manifest says, a count is wrong, or splits overlap.
        DamagedRecords: a record is cut off or altered; names the first one by file and offset. (Of a damaged Parquet
            file only the file: its reader is not shown such bytes.)
    """
    manifest = read_manifest(folder)
    check_readable(manifest.format)
    progress = progress or Silent()
    progress.start("verify", manifest.records, "records")
    counted = _Recount()
    with closing(Sides(manifest.records)) as sides:
        if FORMATS[manifest.format].counted:
            for shard in manifest.shards:
                _check_records(folder, manifest, shard, counted, sides, progress)
                if not FORMATS[manifest.format].trusting:
                    check_file(folder, shard)
        check_file(folder, manifest.vocabulary)
        check_file(folder, manifest.word_list)
        if FORMATS[manifest.format].counted:
            counted.check(folder, manifest)
            if overlap := sides.overlap():
                raise NotADataset(f"{folder}: {_told(folder, manifest, overlap)}; build the dataset again")
    progress.finish()
    return manifest


def records_of(folder: Path, manifest: Manifest, shard: Shard, check: Check | None = None) -> Iterator[DatasetRecord]:
    """The records of a shard, each of which has to pass `check`.

    Raises:
        DamagedRecords: names the first record that cannot be read or does not pass.
        NotADataset: the file is not what the manifest says, and it may be fatal to look inside.
    """
    if FORMATS[manifest.format].trusting:
        check_file(folder, shard)
    return FORMATS[manifest.format].read(folder / shard.name, check)


def _check_records(
    folder: Path, manifest: Manifest, shard: Shard, counted: "_Recount", sides: Sides, progress: Progress
) -> None:
    found = 0
    for record in records_of(folder, manifest, shard, lambda record: fault_of(record, shard.split, manifest)):
        found += 1
        counted.add(record)
        sides.add(record)
        if found % _ADVANCED == 0:
            progress.advance(_ADVANCED)
    progress.advance(found % _ADVANCED)
    if found != shard.records:
        raise NotADataset(
            f"{folder / shard.name}: {found:,} records, expected {shard.records:,}; build the dataset again"
        )


def _told(folder: Path, manifest: Manifest, overlap: Overlap) -> str:
    """An overlap in words: the first record of that id or caption, and the first that must not stand beside it."""
    first: tuple[DatasetRecord, Shard] | None = None
    for shard in manifest.shards:
        for record in records_of(folder, manifest, shard):
            if KEYS[overlap.what](record) != overlap.key:
                continue
            if first is None:
                first = record, shard
            elif overlap.what == "id":
                return f"{record.id} stands in {first[1].name} and again in {shard.name}"
            elif record.split != first[0].split:
                return f"{first[0].id} in {first[1].name} and {record.id} in {shard.name} are one caption"
    return f"an {overlap.what} stands twice"


class _Recount:
    """The numbers of a manifest, counted once more."""

    def __init__(self) -> None:
        self._splits: Counter[str] = Counter()
        self._sources: Counter[str] = Counter()
        self._templates: Counter[str] = Counter()
        self._characters: Counter[str] = Counter()
        self._texts: list[str] = []

    def add(self, record: DatasetRecord) -> None:
        self._splits[record.split] += 1
        self._sources[record.source] += 1
        self._templates[record.template] += 1
        self._texts.append(record.text)
        if len(self._texts) >= _ADVANCED:
            self._count_texts()

    def _count_texts(self) -> None:
        self._characters.update("".join(self._texts))
        self._texts.clear()

    def check(self, folder: Path, manifest: Manifest) -> None:
        """Raises NotADataset, which names the first count that differs."""
        self._count_texts()
        try:
            vocabulary, words = read_vocabulary(folder), read_words(folder)
        except MemeloomError as error:
            raise NotADataset(str(error)) from error
        stated: list[tuple[str, Mapping[Any, int], Mapping[Any, int]]] = [
            ("records", {"": manifest.records}, {"": self._splits.total()}),
            ("split", manifest.splits, self._splits),
            ("source", manifest.kept, self._sources),
            ("template", {template.id: template.captions for template in manifest.templates}, self._templates),
            ("character", dict(zip(vocabulary.characters, vocabulary.counts, strict=True)), self._characters),
            ("characters", {"": manifest.characters}, {"": len(vocabulary.characters)}),
            ("words", {"": manifest.words}, {"": len(words)}),
        ]
        for what, expected, found in stated:
            for name in sorted({*expected, *found}):
                if expected.get(name, 0) != found.get(name, 0):
                    counted = f"{found.get(name, 0):,}, expected {expected.get(name, 0):,}"
                    raise NotADataset(f"{folder}: {what} {name!r}: {counted}; build the dataset again")
