"""Records of removed memes are found in datasets of every format."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memeloom.catalog.errors import StoreUnavailable
from memeloom.catalog.records import Meme
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.build import build_dataset
from memeloom.dataset.removal import Holding, find_removed

MakeConfig: TypeAlias = Callable[..., Config]
Fill: TypeAlias = Callable[[Config, Iterable[Meme]], None]
Built: TypeAlias = Callable[..., tuple[Path, list[str]]]


def nothing(_: list[str]) -> set[str]:
    return set()


@pytest.fixture
def built(config: MakeConfig, fill: Fill, english: Callable[[int], list[Meme]]) -> Built:
    """Build a dataset of 200 captions; returns its folder and the memes' ids."""

    def build(**dataset: Any) -> tuple[Path, list[str]]:
        settings = config(**dataset)
        memes = english(200)
        fill(settings, memes)
        build_dataset(settings)
        return Path(settings.dataset.output), [meme.id for meme in memes]

    return build


@pytest.mark.parametrize(("form", "compression"), [("tfrecord", "gzip"), ("parquet", "zstd"), ("webdataset", "none")])
def test_records_of_removed_memes_are_counted(built: Built, form: str, compression: str) -> None:
    folder, ids = built(format=form, compression=compression, shard_records=30)
    asked: list[str] = []

    def removed(batch: list[str]) -> set[str]:
        asked.extend(batch)
        return set(ids[:3]).intersection(batch)

    found = find_removed(folder, removed, nothing, Silent())
    assert set(asked) <= set(ids)
    assert (found.records, found.memes, found.fault) == (len(asked), len(set(asked).intersection(ids[:3])), None)
    assert found.memes > 0
    assert found.concerned
    assert not find_removed(folder, nothing, nothing, Silent()).concerned


def test_a_dataset_that_only_counts_holds_no_records(built: Built) -> None:
    folder, _ = built(format="dummy")
    found = find_removed(folder, set, nothing, Silent())
    assert (found.memes, found.concerned) == (0, False)


def test_damage_is_reported_and_records_before_it_are_counted(built: Built) -> None:
    folder, _ = built(compression="none", shard_records=30)
    shard = max(folder.glob("train-*"))
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    found = find_removed(folder, set, nothing, Silent())
    assert shard.name in (found.fault or "")
    assert found.memes > 30
    (folder / "manifest.json").write_text("{}")
    again = find_removed(folder, set, nothing, Silent())
    assert again == Holding(folder, fault=again.fault)
    assert again.concerned


def test_an_error_of_the_catalog_is_raised(built: Built) -> None:
    folder, _ = built()

    def fails(_: list[str]) -> set[str]:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable, match="away"):
        find_removed(folder, fails, nothing, Silent())
