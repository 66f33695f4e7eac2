"""The manifest: a folder without one is not a dataset, and a missing or changed file is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from memeloom.dataset.manifest import MANIFEST, NotADataset, read_manifest
from memeloom.dataset.vocabulary import VOCABULARY, WORDS
from tests.dataset.builds import Build, MakeMemes


@pytest.fixture
def dataset(build: Build, english: MakeMemes) -> Path:
    """A folder with one shard, for training."""
    return build(english(20), split={"validation": 0, "test": 0}).folder


def test_a_dataset_names_its_shards(dataset: Path) -> None:
    manifest = read_manifest(dataset)
    assert manifest.paths(dataset, "train") == list(dataset.glob("train-*"))
    assert manifest.paths(dataset, "test") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 1}, "schema version 1, expected 6"),
        ({"kind": "a web app"}, "not the manifest of a memeloom dataset"),
        ({"records": "many"}, "records: Input should be a valid integer"),
        ({"vocabulary": {"name": "../secret.json", "bytes": 1, "sha256": "0"}}, r"vocabulary\.name: String should"),
        ({"splits": {"train": 20}}, "splits: expected train, validation, test"),
    ],
)
def test_a_manifest_with_a_wrong_field_names_it(dataset: Path, changes: dict[str, Any], message: str) -> None:
    path = dataset / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(NotADataset, match=message):
        read_manifest(dataset)


def test_a_missing_or_truncated_manifest_is_refused(dataset: Path) -> None:
    path = dataset / MANIFEST
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(NotADataset, match="cannot be read"):
        read_manifest(dataset)
    path.unlink()
    for folder in (dataset, dataset / "none"):
        with pytest.raises(NotADataset, match="no dataset here"):
            read_manifest(folder)


@pytest.mark.parametrize("pattern", ["train-*", VOCABULARY, WORDS])
def test_a_missing_or_resized_file_is_named(dataset: Path, pattern: str) -> None:
    (path,) = dataset.glob(pattern)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(NotADataset, match=rf"{path.name}: [\d,]+ bytes, expected [\d,]+"):
        read_manifest(dataset)
    path.unlink()
    with pytest.raises(NotADataset, match=f"{path.name}: missing"):
        read_manifest(dataset)


def test_the_digest_depends_on_the_shards_only(dataset: Path) -> None:
    manifest = read_manifest(dataset)
    (shard,) = manifest.shards
    other = manifest.model_copy(update={"shards": (shard.model_copy(update={"sha256": shard.sha256[::-1]}),)})
    assert len(manifest.digest) == 12
    assert manifest.digest != other.digest
    assert manifest.digest == manifest.model_copy(update={"separator": "/"}).digest
