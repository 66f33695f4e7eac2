"""Compare the settings, counts and records of two datasets.

Records are matched by id. Hashes of their features are partitioned into files by a hash of the id, and one partition at
a time is in memory, so memory is bounded.
"""

import json
import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from memeloom.configs.progress import Progress
from memeloom.dataset.formats.registry import FORMATS, check_readable
from memeloom.dataset.manifest import Manifest, read_manifest
from memeloom.dataset.schema import DatasetRecord
from memeloom.dataset.verify import all_records
from memeloom.dataset.vocabulary import read_vocabulary, read_words

_FILE_RECORDS = 20_000
_MOST_FILES = 1024
_WAITING_LINES = 20_000

Kind: TypeAlias = Literal["added", "removed", "moved", "changed"]
# Features compared, besides the split.
_COMPARED = tuple(name for name in DatasetRecord._fields if name not in {"id", "split"})


@dataclass
class RecordChanges:
    """same: number of equal records, split included. counts: of all others.

    moved: in another split, by ``train -> test``. changed: same split, other content, by feature.
    examples: the first few ids in order of their hash.
    """

    same: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    examples: dict[Kind, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Changed:
    """A number or setting that differs; None where it is missing (a setting may also be ``null``)."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Difference:
    """The differences by section.

    made: settings, commit, format and the like. counts: memes in the catalog, records in all and by split.
    sources, dropped: kept records by source and dropped memes by reason. dropped_by_source: ``SOURCE: REASON``, if
    there are several sources. found: list entries that memes were dropped for, ``REASON: ENTRY``.
    templates: captions of each.
    characters, words: frequency of those in only one of the two vocabularies.
    records: None if one of the datasets has no records (`dummy`).
    """

    made: list[Changed]
    counts: list[Changed]
    sources: list[Changed]
    dropped: list[Changed]
    dropped_by_source: list[Changed]
    found: list[Changed]
    templates: list[Changed]
    characters: list[Changed]
    words: list[Changed]
    records: RecordChanges | None

    def as_json(self) -> dict[str, Any]:
        """Return lists, dicts and numbers for JSON."""
        sections = {name: [vars(each) for each in listed] for name, listed in vars(self).items() if name != "records"}
        return {**sections, "records": vars(self.records) if self.records else None}


def diff_datasets(before: Path, after: Path, *, examples: int = 5, progress: Progress | None = None) -> Difference:
    """Compare two datasets. examples: number of ids to list for each kind of change.

    Raises:
        NotADataset: a folder is not a dataset, or one of another version.
        DamagedRecords: a record cannot be read.
    """
    manifests = tuple(read_manifest(folder) for folder in (before, after))
    old, new = manifests
    for manifest in manifests:
        check_readable(manifest.format)
    records = None
    if all(FORMATS[manifest.format].has_records for manifest in manifests):
        records = _compare_records((before, old), (after, new), examples, progress or Progress())
    return Difference(
        made=_differing(_made(old), _made(new)),
        counts=_differing(_counts(old), _counts(new)),
        sources=_differing(old.kept, new.kept),
        dropped=_differing(old.dropped, new.dropped),
        dropped_by_source=_by_source(old, new),
        found=_differing(_pairs(old.details), _pairs(new.details)),
        templates=_differing(_templates(old), _templates(new)),
        characters=_one_sided(_characters(before), _characters(after)),
        words=_one_sided(dict(read_words(before)), dict(read_words(after))),
        records=records,
    )


def _made(manifest: Manifest) -> dict[str, Any]:
    return {
        "commit": manifest.lineage.commit,
        "features": ", ".join(feature.name for feature in manifest.features),
        **_flat(manifest.lineage.settings),
    }


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return settings by their full name: ``split.salt``; a null setting differs from a missing one."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{name}."))
        else:
            flat[before + name] = "null" if value is None else value
    return flat


def _by_source(old: Manifest, new: Manifest) -> list[Changed]:
    if len({*old.lineage.sources, *new.lineage.sources}) < 2:
        return []
    return _differing(_pairs(old.by_source), _pairs(new.by_source))


def _pairs(counts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {f"{outer}: {inner}": n for outer, inners in counts.items() for inner, n in inners.items()}


def _counts(manifest: Manifest) -> dict[str, int]:
    return {
        "memes in the catalog": manifest.lineage.memes,
        **{f"memes of {source}": count for source, count in manifest.lineage.sources.items()},
        "records": manifest.records,
        **{str(split): count for split, count in manifest.splits.items()},
        "templates": len(manifest.templates),
        "characters": manifest.characters,
        "words": manifest.words,
        "shards": len(manifest.shards),
        "bytes": manifest.bytes,
    }


def _templates(manifest: Manifest) -> dict[str, int]:
    return {f"{template.name} ({template.id})": template.captions for template in manifest.templates}


def _characters(folder: Path) -> dict[str, int]:
    vocabulary = read_vocabulary(folder)
    return dict(zip(vocabulary.characters, vocabulary.counts, strict=True))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Changed]:
    names = dict.fromkeys([*before, *after])
    changed = (Changed(name, before.get(name), after.get(name)) for name in names)
    return [each for each in changed if each.before != each.after]


def _one_sided(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Changed]:
    return [each for each in _differing(before, after) if each.before is None or each.after is None]


def _compare_records(
    old: tuple[Path, Manifest], new: tuple[Path, Manifest], examples: int, progress: Progress
) -> RecordChanges:
    most = max(old[1].records, new[1].records)
    files = min(max(most // _FILE_RECORDS, 1), _MOST_FILES)
    changes = RecordChanges()
    progress.start("compare", old[1].records + new[1].records, "records")
    with tempfile.TemporaryDirectory(prefix="memeloom-diff-") as folder:
        sides = [_Lines(Path(folder) / name, files, side, progress) for name, side in (("before", old), ("after", new))]
        for number in range(files):
            before, after = (side.rows(number) for side in sides)
            for key in sorted({*before, *after}):
                _count(changes, key, before.get(key), after.get(key), examples)
    progress.finish()
    return changes


def _count(changes: RecordChanges, key: str, before: list[Any] | None, after: list[Any] | None, examples: int) -> None:
    """Count the change of the record with the id `key`: its split and hashes, before and after."""
    kind: Kind
    if before == after:
        changes.same += 1
        return
    if before is None or after is None:
        kind = "added" if before is None else "removed"
    elif before[0] != after[0]:
        kind = "moved"
        changes.moved[f"{before[0]} -> {after[0]}"] += 1
    else:
        kind = "changed"
        changes.changed.update(
            name for name, was, is_ in zip(_COMPARED, before[1:], after[1:], strict=True) if was != is_
        )
    changes.counts[kind] += 1
    known = changes.examples.setdefault(kind, [])
    if len(known) < examples:
        known.append(key)


class _Lines:
    """The records of a dataset as lines ``[id, split, hash of each feature]`` in `files` partitions by id."""

    def __init__(self, folder: Path, files: int, dataset: tuple[Path, Manifest], progress: Progress) -> None:
        folder.mkdir()
        self._folder = folder
        self._files = files
        self._waiting: dict[int, list[str]] = {}
        waiting = 0
        for record in all_records(*dataset):
            # `hash` varies between processes, but these are compared within one.
            hashes = [hash(getattr(record, name)) for name in _COMPARED]
            number = zlib.crc32(record.id.encode()) * files >> 32
            self._waiting.setdefault(number, []).append(json.dumps([record.id, record.split, *hashes]))
            waiting += 1
            if waiting >= _WAITING_LINES:
                self._flush()
                progress.advance(waiting)
                waiting = 0
        self._flush()
        progress.advance(waiting)

    def rows(self, number: int) -> dict[str, list[Any]]:
        """Return split and hashes by id, of one partition."""
        path = self._folder / str(number)
        if not path.exists():
            return {}
        with path.open(encoding="ascii") as lines:
            return {key: rest for key, *rest in map(json.loads, lines)}

    def _flush(self) -> None:
        for number, lines in self._waiting.items():
            with (self._folder / str(number)).open("a", encoding="ascii") as stream:
                stream.write("\n".join(lines) + "\n")
        self._waiting.clear()
