"""The manifest: a folder without one is no dataset, and a file that is missing or changed is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from memeloom.dataset.formats.tfrecord import RecordWriter
from memeloom.dataset.manifest import (
    MANIFEST,
    DatasetTemplate,
    Feature,
    File,
    Lineage,
    Manifest,
    NotADataset,
    Shard,
    file_sha256,
    read_manifest,
)
from memeloom.dataset.schema import FEATURES
from memeloom.dataset.vocabulary import VOCABULARY, WORDS, Vocabulary, write_words


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A folder with one shard of two records."""
    name = "train-00000-of-00001.tfrecord"
    with RecordWriter(tmp_path / name) as writer:
        writer.write(b"first")
        writer.write(b"second")
    vocabulary = Vocabulary.of({"a": 1}).write(tmp_path)
    words = write_words(tmp_path, [])
    template = DatasetTemplate(
        id="1", name="One", slug="one", captions=2, boxes=2, box_count=None, geometry=(), image_key=None
    )
    Manifest(
        records=2,
        splits={"train": 2, "validation": 0, "test": 0},
        kept={"imgflip": 2},
        dropped={"too long": 1},
        by_source={"imgflip": {"too long": 1}},
        details={},
        clusters={},
        separator="|",
        format="tfrecord",
        compression="none",
        images="none",
        features=tuple(Feature(name=name, values=values, about=about) for name, values, about in FEATURES),
        vocabulary=File(name=VOCABULARY, bytes=vocabulary.stat().st_size, sha256=file_sha256(vocabulary)),
        characters=1,
        word_list=File(name=WORDS, bytes=words.stat().st_size, sha256=file_sha256(words)),
        words=0,
        shards=(Shard(name=name, split="train", records=2, bytes=writer.bytes, sha256=writer.sha256),),
        templates=(template,),
        lineage=Lineage(settings={}, commit="unknown", memes=3, sources={"imgflip": 3}),
    ).write(tmp_path)
    return tmp_path


def edit(folder: Path, **changes: Any) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_whole_dataset_is_read(dataset: Path) -> None:
    manifest = read_manifest(dataset)
    assert manifest.paths(dataset, "train") == [dataset / "train-00000-of-00001.tfrecord"]
    assert manifest.paths(dataset, "test") == []


def test_a_folder_without_a_manifest_is_no_dataset(dataset: Path) -> None:
    (dataset / MANIFEST).unlink()
    with pytest.raises(NotADataset, match="no dataset here"):
        read_manifest(dataset)


def test_a_folder_that_is_not_there_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(NotADataset, match="no dataset here"):
        read_manifest(tmp_path / "none")


def test_another_version_is_refused(dataset: Path) -> None:
    edit(dataset, schema_version=1)
    with pytest.raises(NotADataset, match="schema version 1, expected 3"):
        read_manifest(dataset)


def test_someone_elses_manifest_is_refused(dataset: Path) -> None:
    edit(dataset, kind="a web app")
    with pytest.raises(NotADataset, match="not the manifest of a memeloom dataset"):
        read_manifest(dataset)


def test_a_manifest_with_a_wrong_field_names_it(dataset: Path) -> None:
    edit(dataset, records="many")
    with pytest.raises(NotADataset, match="records: Input should be a valid integer"):
        read_manifest(dataset)


def test_a_manifest_never_leads_out_of_its_folder(dataset: Path) -> None:
    edit(dataset, vocabulary={"name": "../secret.json", "bytes": 1, "sha256": "0"})
    with pytest.raises(NotADataset, match=r"vocabulary\.name: String should match pattern"):
        read_manifest(dataset)


def test_a_manifest_that_is_cut_off_is_refused(dataset: Path) -> None:
    path = dataset / MANIFEST
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(NotADataset, match="cannot be read"):
        read_manifest(dataset)


@pytest.mark.parametrize("name", ["train-00000-of-00001.tfrecord", VOCABULARY, WORDS])
def test_a_missing_file_is_named(dataset: Path, name: str) -> None:
    (dataset / name).unlink()
    with pytest.raises(NotADataset, match=f"{name}: missing"):
        read_manifest(dataset)


@pytest.mark.parametrize("name", ["train-00000-of-00001.tfrecord", VOCABULARY, WORDS])
def test_a_file_of_another_size_is_named(dataset: Path, name: str) -> None:
    (dataset / name).write_bytes((dataset / name).read_bytes() + b"x")
    with pytest.raises(NotADataset, match=rf"{name}: \d+ bytes, expected \d+"):
        read_manifest(dataset)


def test_the_digest_is_of_what_the_shards_hold(dataset: Path) -> None:
    manifest = read_manifest(dataset)
    shard = manifest.shards[0]
    other = manifest.model_copy(
        update={"shards": (shard.model_copy(update={"sha256": shard.sha256[::-1]}), *manifest.shards[1:])}
    )
    assert len(manifest.digest) == 12
    assert manifest.digest != other.digest
    assert manifest.digest == manifest.model_copy(update={"shards": manifest.shards[::-1], "separator": "/"}).digest
