"""Copies go: equal and nearly equal captions, the same picture; one stays, and never one on each side of a split."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.catalog.records import Image, Meme
from memeloom.configs.errors import ConfigError
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.build import EmptyDataset, build_dataset
from memeloom.dataset.flow import near
from memeloom.dataset.flow.filter import hashed
from memeloom.dataset.flow.similarity import normalise, signatures, similarity
from memeloom.dataset.formats.tfrecord import read_records
from memeloom.dataset.manifest import Manifest, read_manifest
from memeloom.dataset.schema import DatasetRecord, decode_record

MakeConfig = Callable[..., Config]
MakeMeme = Callable[..., Meme]
MakeMemes = Callable[..., list[Meme]]
Fill = Callable[[Config, Iterable[Meme]], None]
Splits = dict[str, str]


def build(config: Config) -> tuple[Manifest, dict[str, DatasetRecord]]:
    """Build; the manifest, and the records by id."""
    build_dataset(config, Silent())
    folder = Path(config.dataset.output)
    manifest = read_manifest(folder)
    records = [decode_record(data) for shard in manifest.shards for data in read_records(folder / shard.name)]
    return manifest, {record.id: record for record in records}


def picture(phash: int) -> Image:
    return Image(key=f"{phash:064x}", width=9, height=9, format="png", bytes=9, phash64="0" * 16,
                 phash256=f"{phash:064x}")  # fmt: skip


def reworded(memes: Iterable[Meme], rng: random.Random, share: float) -> list[Meme]:
    """Some of `memes` again, as other posts, with a word more at the end."""
    return [
        meme.model_copy(update={"id": f"{meme.id}-again", "boxes": (*meme.boxes[:-1], f"{meme.boxes[-1]} {word}")})
        for meme in memes if rng.random() < share for word in [rng.choice(["x", "lol", "me"])]
    ]  # fmt: skip


def test_of_equal_captions_the_earliest_post_stays_then_the_lowest_id(
    config: MakeConfig, fill: Fill, meme: MakeMeme
) -> None:
    early, late = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    settings = config()
    fill(settings, [
        meme("a1", "the first of these captions", posted_at=late), meme("a2", "the first OF these captions"),
        meme("a3", "the first of these  captions", posted_at=early), meme("b2", "another one that nobody dated"),
        meme("b1", "another one that nobody dated"), meme("b3", "another one", "that nobody dated"),
    ])  # fmt: skip
    manifest, records = build(settings)
    assert set(records) == {"imgflip:a3", "imgflip:b1"}
    assert (manifest.dropped, manifest.clusters) == ({"duplicate": 4}, {3: 2})


def test_no_pair_that_is_near_and_shares_a_key_is_left(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    memes = english(400, templates=2)
    rng = random.Random(3)
    again = reworded(memes, rng, 0.6)
    settings = config()
    fill(settings, [*memes, *again, *reworded(again, rng, 0.5)])
    manifest, records = build(settings)
    assert manifest.dropped["near duplicate"] > 200
    assert len(records) + sum(manifest.dropped.values()) == manifest.lineage.memes
    left = list(records.values())
    texts = [normalise(record.boxes) for record in left]
    keys, _ = signatures(texts, np.array([int(record.template[1:]) for record in left], np.uint64))
    shared = {
        pair for band in keys for key in np.unique(band)
        for pair in combinations(np.flatnonzero(band == key).tolist(), 2)
    }  # fmt: skip
    assert shared, "some share a key without being near"
    assert max(similarity(texts[one], texts[other]) for one, other in shared) < 0.8


def test_near_captions_on_other_templates_stay(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    memes = english(100, templates=1)
    settings = config()
    fill(settings, [*memes, *(
        each.model_copy(update={"id": f"{each.id}b", "template": each.template.model_copy(update={"id": "other"})})
        for each in memes if each.template
    )])  # fmt: skip
    assert build(settings)[0].records == 200


def test_null_turns_near_copies_off(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    memes = [each.model_copy(update={"image": picture(n << 99)}) for n, each in enumerate(english(60))]
    fill(config(), [*memes, *reworded(memes, random.Random(1), 1)])
    assert build(config())[0].records == 60
    assert build(config(near_text=None))[0].dropped == {"same picture": 60}
    assert build(config(near_image=None))[0].dropped == {"near duplicate": 60}
    assert build(config(near_text=None, near_image=None))[0].dropped == {}
    assert build(config(near_text=1.0, near_image=None))[0].dropped == {}
    without = [step for step in config().dataset.steps if step != "duplicates"]
    assert build(config(steps=without))[0].dropped == {}


def test_a_post_on_two_sites_is_found_by_its_picture(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    rng = random.Random(5)
    memes, reposts = [], []
    for number, each in enumerate(english(150)):
        bits = rng.getrandbits(256)
        flipped = sum(1 << at for at in rng.sample(range(256), number % 16))
        memes.append(each.model_copy(update={"image": picture(bits)}))
        # Read by a machine: one word is wrong, and the other site calls the template something else.
        reposts.append(
            each.model_copy(update={
                "id": f"reddit:{number}", "source": "reddit", "image": picture(bits ^ flipped),
                "boxes": (each.boxes[0].replace("when", "wnen"), each.boxes[1]),
                "template": each.template and each.template.model_copy(update={"id": "its own name"}),
            })
        )  # fmt: skip
    settings = config()
    fill(settings, [*memes, *reposts])
    manifest, records = build(settings)
    near_enough = sum(number % 16 <= 12 for number in range(150))
    assert manifest.dropped == {"same picture": near_enough}
    both = [n for n, each in enumerate(memes) if each.id in records and f"reddit:{n}" in records]
    assert both == [n for n in range(150) if n % 16 > 12]


def test_the_work_on_pictures_is_shared() -> None:
    keys = hashed([random.Random(n).randbytes(32) for n in range(400)]).keys
    parts = (keys >> np.uint64(62)).tolist()
    assert all(min(Counter(part).values()) > 60 for part in parts)
    assert hashed([b"", bytes(32)]).keys[:, 0].tolist() == [0] * len(keys)
    assert (hashed([b"", bytes(32)]).keys[:, 1] != 0).all()


def test_different_captions_on_one_picture_stay(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config()
    fill(settings, [each.model_copy(update={"image": picture(77)}) for each in english(300, templates=1)])
    manifest, records = build(settings)
    assert manifest.records >= 295
    texts = [normalise(each.boxes) for each in records.values()]
    assert max(similarity(*pair) for pair in combinations(texts, 2)) < 0.5


@pytest.mark.parametrize(
    "split",
    [
        {"by": "caption", "validation": 0.3, "test": 0.3},
        {"by": "template", "validation": 0.3, "test": 0.3},
        {"by": "time", "validation_from": "2020-06-01", "test_from": "2020-09-01"},
    ],
)
def test_no_near_copies_on_both_sides(config: MakeConfig, fill: Fill, english: MakeMemes, split: Splits) -> None:
    rng = random.Random(2)
    memes = [
        each.model_copy(update={"posted_at": datetime(2020, rng.randrange(1, 13), 1, tzinfo=UTC)})
        for each in english(300, templates=30)
    ]
    again = [
        each.model_copy(update={"posted_at": datetime(2020, rng.randrange(1, 13), 1, tzinfo=UTC)})
        for each in [*reworded(memes, rng, 1), *(m.model_copy(update={"id": f"{m.id}-equal"}) for m in memes)]
    ]
    settings = config(split=split)
    fill(settings, [*memes, *again])
    manifest, records = build(settings)
    assert min(manifest.splits.values()) > 20
    sides = {(each.id.split("-")[0], each.split) for each in records.values()}
    known = Counter(name for name, _ in sides)
    assert [name for name, count in known.items() if count > 1] == []


def test_by_template_a_template_stands_on_one_side(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config(split={"by": "template", "validation": 0.3, "test": 0.3})
    fill(settings, english(500, templates=40))
    manifest, records = build(settings)
    sides = {(record.template, record.split) for record in records.values()}
    assert len(sides) == len({template for template, _ in sides}) == 40
    assert min(manifest.splits.values()) > 0


def test_by_time_the_day_decides_and_the_undated_go(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    settings = config(split={"by": "time", "validation_from": "2020-06-01", "test_from": "2020-09-01"})
    last = datetime(2020, 5, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    days = {"a": last, "b": datetime(2020, 6, 1, tzinfo=UTC), "c": datetime(2020, 9, 1, tzinfo=UTC), "d": None}
    words = {
        "a": "before the day of all", "b": "right on it my friend", "c": "late and nobody cares", "d": "who knows when"
    }  # fmt: skip
    fill(settings, [meme(key, words[key], posted_at=day) for key, day in days.items()])
    manifest, records = build(settings)
    sides = {key: record.split for key, record in records.items()}
    assert sides == {"imgflip:a": "train", "imgflip:b": "validation", "imgflip:c": "test"}
    assert manifest.dropped == {"no date": 1}


@pytest.mark.parametrize(
    ("split", "line"),
    [
        ({"by": "time"}, "by time needs validation_from or test_from"),
        ({"by": "time", "validation_from": "2020-02-02", "test_from": "2020-02-02"}, "must lie before test_from"),
        ({"by": "template", "validation": 0.5, "test": 0.5}, "together must stay below 1"),
    ],
)
def test_a_split_that_cannot_be_is_a_mistake_in_the_settings(config: MakeConfig, split: Splits, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        build_dataset(config(split=split), Silent())


@pytest.mark.parametrize("by", ["caption", "template", "time"])
def test_growth_never_moves_a_record(config: MakeConfig, fill: Fill, english: MakeMemes, by: str) -> None:
    rng = random.Random(by)
    split = {"by": by, "validation": 0.3, "test": 0.2, "validation_from": "2020-06-01", "test_from": "2020-09-01"}
    settings = config(split=split)
    memes = [
        each.model_copy(update={"posted_at": datetime(2020, rng.randrange(1, 13), 1, tzinfo=UTC)})
        for each in english(300, templates=20)
    ]
    memes += reworded(memes, rng, 0.5)
    rng.shuffle(memes)
    sides: dict[str, str] = {}
    for end in sorted(rng.sample(range(50, len(memes)), 5)):
        fill(settings, memes[:end])
        for name, record in build(settings)[1].items():
            assert sides.setdefault(name, str(record.split)) == record.split
    assert len(set(sides.values())) == 3


def spam(meme: MakeMeme, count: int) -> list[Meme]:
    """Captions that are all near each other, or just not: long, and with another end."""
    rng = random.Random(9)
    ends = ["".join(rng.choices("abcdefghijklmnop", k=rng.randrange(3, 9))) for _ in range(count)]
    return [meme(f"{n}", f"subscribe to my channel for free coins now {end}") for n, end in enumerate(ends)]


def test_a_cluster_of_spam_takes_linear_time(
    config: MakeConfig, fill: Fill, meme: MakeMeme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near, "_ROUNDS", (4, 16))
    compared = Counter[int]()
    for count in (200, 800):

        def counted(one: str, other: str, count: int = count) -> float:
            compared[count] += 1
            return similarity(one, other)

        monkeypatch.setattr(near, "similarity", counted)
        settings = config(languages=[], output=f"{config().dataset.output}{count}")
        fill(settings, spam(meme, count))
        assert build(settings)[0].dropped["near duplicate"] > count / 2
    assert 200 < compared[200] < compared[800] < 5 * compared[200]


def test_the_words_of_few_candidates_are_in_memory_at_once(
    config: MakeConfig, fill: Fill, meme: MakeMeme, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(languages=[])
    fill(settings, spam(meme, 300))
    whole = build(settings)
    held = []
    read = near._Texts.of
    monkeypatch.setattr(near, "_CANDIDATES", 50)

    def counted(texts: near._Texts, wanted: NDArray[np.intp]) -> dict[int, str]:
        held.append(len(wanted))
        return read(texts, wanted)

    monkeypatch.setattr(near._Texts, "of", counted)
    again = config(languages=[], output=f"{settings.dataset.output}2")
    assert build(again)[1] == whole[1]
    assert len(held) > 10
    assert max(held) <= 4 * 50


def test_one_caption_and_none(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    settings = config()
    fill(settings, [meme("1", "only one caption in here")])
    assert build(settings)[0].records == 1
    none = config(min_characters=80)
    with pytest.raises(EmptyDataset, match="no caption is left of 1 memes: 1 too short"):
        build_dataset(none, Silent())
