"""What a dataset holds of what was removed, in every format."""

from collections.abc import Callable, Iterable
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


def nothing(_: list[str]) -> set[str]:
    return set()


@pytest.fixture
def built(config: MakeConfig, fill: Fill, english: Callable[[int], list[Meme]]) -> Callable[..., tuple[Any, list[str]]]:
    """Build a dataset of some captions; returns its folder and the ids that it was built from."""

    def build(**dataset: Any) -> tuple[Any, list[str]]:
        settings = config(**dataset)
        memes = english(200)
        fill(settings, memes)
        build_dataset(settings, Silent())
        return settings.dataset.output, [meme.id for meme in memes]

    return build


@pytest.mark.parametrize(
    ("form", "compression"), [("tfrecord", "gzip"), ("tfrecord", "none"), ("parquet", "zstd"), ("webdataset", "none")]
)
def test_records_of_removed_memes_are_counted(built: Any, tmp_path: Any, form: str, compression: str) -> None:
    _, ids = built(format=form, compression=compression, shard_records=30)
    asked: list[str] = []

    def removed(batch: list[str]) -> set[str]:
        asked.extend(batch)
        return set(ids[:3]).intersection(batch)

    found = find_removed(tmp_path / "dataset", removed, nothing, Silent())
    assert set(asked) <= set(ids)
    assert (found.records, found.memes, found.fault) == (len(asked), len(set(asked).intersection(ids[:3])), None)
    assert found.memes > 0
    assert found.concerned
    assert not find_removed(tmp_path / "dataset", nothing, nothing, Silent()).concerned


def test_a_dataset_that_only_counts_holds_no_records(built: Any, tmp_path: Any) -> None:
    built(format="dummy")
    found = find_removed(tmp_path / "dataset", set, nothing, Silent())
    assert (found.memes, found.concerned) == (0, False)


def test_damage_is_told_and_what_was_read_before_it_counted(built: Any, tmp_path: Any) -> None:
    built(compression="none", shard_records=30)
    shard = max((tmp_path / "dataset").glob("train-*"))
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    found = find_removed(tmp_path / "dataset", set, nothing, Silent())
    assert shard.name in (found.fault or "")
    assert found.memes > 30
    (tmp_path / "dataset" / "manifest.json").write_text("{}")
    again = find_removed(tmp_path / "dataset", set, nothing, Silent())
    assert again == Holding(tmp_path / "dataset", fault=again.fault)
    assert again.concerned


def test_a_catalog_that_fails_is_no_fault_of_the_dataset(built: Any, tmp_path: Any) -> None:
    built()

    def fails(_: list[str]) -> set[str]:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable, match="away"):
        find_removed(tmp_path / "dataset", fails, nothing, Silent())
