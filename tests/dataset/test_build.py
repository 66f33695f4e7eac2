"""The whole build: what is in the dataset, why the rest is not, and that nothing but catalog and settings matter."""

import errno
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memeloom.catalog.records import Image, Made, Meme, Template, TemplateBox
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.dataset.build import EmptyDataset, build_dataset
from memeloom.dataset.formats.tfrecord import read_records
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.schema import SPLITS, DatasetRecord, decode_record
from memeloom.dataset.verify import verify_dataset
from memeloom.dataset.vocabulary import read_vocabulary

MakeConfig = Callable[..., Config]
MakeMeme = Callable[..., Meme]
MakeMemes = Callable[..., list[Meme]]
Fill = Callable[[Config, Iterable[Meme]], None]


def build(config: Config) -> tuple[Summary, Manifest, list[DatasetRecord]]:
    """Build, verify every byte, and read all records in the order of the shards."""
    summary = build_dataset(config, Silent())
    folder = Path(config.dataset.output)
    manifest = verify_dataset(folder)
    records = [decode_record(data) for shard in manifest.shards for data in read_records(folder / shard.name)]
    return summary, manifest, records


def content(config: Config) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(config.dataset.output).iterdir()}


@pytest.fixture
def mixed(meme: MakeMeme) -> list[Meme]:
    """One meme for each fate."""
    return [
        meme("kept1", "  When YOU find  a", "dollar on the street"),
        meme("kept2", "", "me after the long weekend", template="t2"),
        meme("copy", "when you find a", "DOLLAR on the street"),
        meme("template", "this one has no template at all").model_copy(update={"template": None}),
        meme("boxes"),
        meme("blank", "  ", ""),
        meme("separator", "this one has a | in it, sadly"),
        meme("characters", "this one has a ☃ in it, happily"),
        meme("short", "too short"),
        meme("long", "far too long " * 9),
        meme("nsfw", "this one is not for the office", over_18=True),
        meme("language", "ich habe keine ahnung was das ist"),
        meme("profanity", "this one is about bullshit again"),
        meme("slur", "this one is about a ret*rd again"),
        meme("boilerplate", "imgflip.com"),
    ]


DROPPED = {
    "duplicate": 1, "no template": 1, "no caption": 1, "empty caption": 1, "separator": 1, "characters": 1,
    "too short": 1, "too long": 1, "nsfw": 1, "language": 1, "profanity: strong": 1, "profanity: slur": 1,
    "boilerplate": 1,
}  # fmt: skip


def test_every_meme_is_kept_or_dropped_for_a_counted_reason(config: MakeConfig, fill: Fill, mixed: list[Meme]) -> None:
    settings = config()
    fill(settings, mixed)
    summary, manifest, records = build(settings)
    assert manifest.dropped == summary.reasons == DROPPED
    assert manifest.records == summary.counts["kept"] == 2
    assert summary.counts["memes"] == len(mixed)
    by_id = {record.id: record for record in records}
    assert set(by_id) == {"imgflip:copy", "imgflip:kept2"}, "of two copies the lower id stays"
    assert by_id["imgflip:copy"].text == "when you find a|dollar on the street|"
    assert by_id["imgflip:copy"].boxes == ("when you find a", "dollar on the street")
    assert by_id["imgflip:kept2"].text == "|me after the long weekend|"
    assert by_id["imgflip:kept2"].boxes == ("", "me after the long weekend")


def test_the_manifest_counts_what_the_shards_hold(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config(shard_records=100)
    fill(settings, english(1000))
    summary, manifest, records = build(settings)
    assert Counter(record.split for record in records) == manifest.splits
    assert Counter(record.source for record in records) == manifest.kept
    assert {t.id: t.captions for t in manifest.templates} == Counter(record.template for record in records)
    assert Counter(shard.split for shard in manifest.shards) == {"train": 16, "validation": 1, "test": 1}
    assert all(shard.records <= 100 for shard in manifest.shards)
    assert [shard.name for shard in manifest.shards if shard.split == "test"] == ["test-00000-of-00001.tfrecord.gz"]
    characters = Counter("".join(record.text for record in records))
    vocabulary = read_vocabulary(Path(settings.dataset.output))
    assert dict(zip(vocabulary.characters, vocabulary.counts, strict=True)) == characters
    assert manifest.characters == len(characters)
    assert summary.counts["shards"] == len(manifest.shards)


def test_the_card_tells_people_the_same(config: MakeConfig, fill: Fill, mixed: list[Meme]) -> None:
    settings = config()
    fill(settings, mixed)
    _, _, records = build(settings)
    card = (Path(settings.dataset.output) / "README.md").read_text()
    assert "2 captions on 2 templates, kept from 15 memes" in card
    assert all(f"| {reason} | {count} |" in card for reason, count in DROPPED.items())
    assert "memeloom purge" in card
    shown = [record for record in records if record.split == "train"]
    assert all(" / ".join(record.boxes) in card for record in shown)


def test_the_manifest_knows_what_the_catalog_knows_of_a_template(
    config: MakeConfig, fill: Fill, meme: MakeMeme
) -> None:
    settings = config()
    fill(
        settings,
        [
            meme("1", "first caption in here", "b"),
            meme("2", "second caption here", "b"),
            meme("3", "third one in here"),
        ],
    )
    picture = Image(key="ab" * 32, width=1, height=1, format="png", bytes=1, phash64="0" * 16, phash256="0" * 64)
    box = TemplateBox(x=0.1, y=0.2, width=0.3, height=0.4)
    known = Template(
        id="t1", slug="The-Slug", name="The Name", box_count=3, boxes=(box,), image=picture, source="imgflip"
    )
    with closing(open_documents(settings.store)) as documents:
        documents.upsert_templates([known])
    _, manifest, records = build(settings)
    (template,) = manifest.templates
    assert (template.id, template.name, template.slug, template.captions, template.boxes) == (
        "t1",
        "The Name",
        "The-Slug",
        3,
        2,
    )
    assert (template.box_count, template.geometry, template.image_key) == (3, (box,), "ab" * 32)
    assert {record.template_name for record in records} == {"The Name"}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_in_which_the_catalog_was_filled_does_not_matter(
    config: MakeConfig, fill: Fill, english: MakeMemes, mixed: list[Meme], seed: int, tmp_path: Path
) -> None:
    memes = [*english(600), *mixed]
    first = config(captions_per_template=50, shard_records=100)
    fill(first, memes)
    build(first)
    expected = content(first)
    shuffled = random.Random(seed).sample(memes, len(memes))
    second = first.model_copy(
        update={"store": first.store.model_copy(update={"documents": f"sqlite:///{tmp_path}/other.db"})}
    )
    for at in range(0, len(shuffled), 100):
        fill(second, shuffled[at : at + 100])
    build(second)
    assert content(second) == expected


def test_more_processes_give_the_same_bytes(
    config: MakeConfig, fill: Fill, english: MakeMemes, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config()
    fill(settings, english(3000))
    build(settings)
    expected = content(settings)
    monkeypatch.setattr("memeloom.dataset.build._WORTH_A_POOL", 0)
    many = settings.model_copy(update={"engine": settings.engine.model_copy(update={"workers": 2})})
    build(many)
    assert content(many) == expected


def test_mongodb_gives_the_same_bytes_as_sqlite(
    config: MakeConfig, fill: Fill, english: MakeMemes, mixed: list[Meme], mongo_url: str
) -> None:
    settings = config()
    fill(settings, [*english(300), *mixed])
    build(settings)
    expected = content(settings)
    mongo = settings.model_copy(update={"store": settings.store.model_copy(update={"documents": mongo_url})})
    fill(mongo, [*mixed, *english(300)])
    build(mongo)
    assert content(mongo) == expected


def test_growth_never_moves_a_caption_to_another_split(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config()
    fill(settings, english(500))
    _, _, before = build(settings)
    fill(settings, english(1500, seed=2))
    _, _, after = build(settings)
    now = {record.id: record.split for record in after}
    assert len(after) == 2000
    assert all(now[record.id] == record.split for record in before)
    assert {record.split for record in before} == set(SPLITS)


def test_a_repost_never_stands_on_the_other_side(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    captions = [f"caption number {n} of this test" for n in range(200)]
    originals = [meme(f"a{n}", caption) for n, caption in enumerate(captions)]
    reposts = [meme(f"b{n}", caption.upper().replace(" ", "  ")) for n, caption in enumerate(captions)]
    steps = [step for step in config().dataset.steps if step != "duplicates"]
    settings = config(steps=steps, split={"validation": 0.3, "test": 0.3, "salt": "s"})
    fill(settings, originals + reposts)
    _, manifest, records = build(settings)
    assert manifest.records == 400, "without the step `duplicates` both copies are there"
    split = {record.id: record.split for record in records}
    assert all(split[f"imgflip:a{n}"] == split[f"imgflip:b{n}"] for n in range(200))


def test_shards_stand_in_random_order(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config()
    fill(settings, english(1000))
    _, _, records = build(settings)
    ids = [record.id for record in records if record.split == "train"]
    neighbours = sum(a < b for a, b in itertools.pairwise(ids))
    assert 0.4 < neighbours / len(ids) < 0.6


def test_caps_choose_alike_from_a_grown_catalog(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config(captions_per_template=20, templates=3)
    fill(settings, english(500))
    _, manifest, records = build(settings)
    assert [template.captions for template in manifest.templates] == [20, 20, 20]
    assert set(manifest.dropped) == {"template is full", "template not among the most popular"}
    assert len(records) + sum(manifest.dropped.values()) == 500


def test_unicode_captions_survive(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    boxes = ("naïve 👩\u200d🚀 中文 ½ straße", "𝔣𝔯𝔞𝔨𝔱𝔲𝔯 عربى")
    settings = config(characters="any", languages=[])
    fill(settings, [meme("1", *boxes, template="Zażółć")])
    _, manifest, records = build(settings)
    assert records[0].boxes == boxes
    assert manifest.templates[0].id == "Zażółć"
    assert "👩" in read_vocabulary(Path(settings.dataset.output)).characters


def test_censored_captions_are_in_the_dataset(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    settings = config(profanity="censor")
    fill(settings, [meme("1", "this is such bullshit again")])
    _, manifest, records = build(settings)
    assert records[0].text == "this is such ******** again|"
    assert manifest.dropped == {}


def test_an_uncompressed_dataset_with_another_separator(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    settings = config(compression="none", separator="~")
    fill(settings, [meme("1", "this box | has a pipe", "and this has none")])
    _, manifest, records = build(settings)
    assert records[0].text == "this box | has a pipe~and this has none~"
    assert manifest.shards[0].name.endswith("-00000-of-00001.tfrecord")


def test_an_empty_catalog_is_one_clear_error(config: MakeConfig, fill: Fill) -> None:
    settings = config()
    fill(settings, [])
    with pytest.raises(
        EmptyDataset, match=r"catalog\.db holds no memes; run `memeloom crawl` or `memeloom import` first"
    ):
        build_dataset(settings, Silent())
    assert not Path(settings.dataset.output).exists()


def test_a_catalog_of_which_nothing_is_left_says_why_and_keeps_the_former_dataset(
    config: MakeConfig, fill: Fill, meme: MakeMeme
) -> None:
    settings = config()
    fill(settings, [meme("1", "the one that was kept before")])
    build(settings)
    expected = content(settings)
    strict = config(min_characters=81)
    fill(strict, [meme("2", "short"), meme("3", "this one has a | in it")])
    with pytest.raises(EmptyDataset, match="no caption is left of 3 memes: 2 too short, 1 separator"):
        build_dataset(strict, Silent())
    assert content(settings) == expected


def test_a_mistake_in_the_settings_shows_before_anything_is_touched(config: MakeConfig) -> None:
    settings = config(steps=["lenght"])
    with pytest.raises(ConfigError, match="did you mean length"):
        build_dataset(settings, Silent())
    assert list(Path(settings.dataset.output).parent.iterdir()) == []


def test_a_folder_of_something_else_is_left_alone(config: MakeConfig, fill: Fill, mixed: list[Meme]) -> None:
    settings = config()
    fill(settings, mixed)
    Path(settings.dataset.output).mkdir()
    (Path(settings.dataset.output) / "notes.txt").write_text("mine")
    with pytest.raises(MemeloomError, match="exists and is not a dataset"):
        build_dataset(settings, Silent())
    assert content(settings) == {"notes.txt": b"mine"}


def test_a_full_disk_is_one_clear_error_and_keeps_the_former_dataset(
    config: MakeConfig, fill: Fill, english: MakeMemes, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config()
    fill(settings, english(50))
    build(settings)
    expected = content(settings)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    fill(settings, english(50, seed=2))
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(MemeloomError, match=r"cannot write .*dataset.*: the disk is full"):
            build_dataset(settings, Silent())
    assert content(settings) == expected
    left = {path.name for path in Path(settings.dataset.output).parent.glob(".dataset*")}
    assert left == {".dataset.lock", ".dataset.work"}


def picture(config: Config, data: bytes) -> Image:
    """Bytes in the blob store, and the record of a picture for them."""
    with closing(open_blobs(config.store)) as blobs:
        key = blobs.put(data)
    return Image(key=key, width=1, height=1, format="png", bytes=len(data), phash64="0" * 16, phash256="0" * 64)


def test_images_of_memes_are_their_original_bytes(
    config: MakeConfig, fill: Fill, meme: MakeMeme, english: MakeMemes
) -> None:
    settings = config(images="meme")
    pictures = {f"imgflip:{n}": bytes([n]) * 1000 for n in range(100)}
    captions = [each.boxes for each in english(100)]
    memes = [meme(str(n), *captions[n], image=picture(settings, bytes([n]) * 1000)) for n in range(100)]
    lost = picture(settings, b"lost")
    spoiled = picture(settings, b"spoiled")
    with closing(open_blobs(settings.store)) as blobs:
        blobs.delete(lost.key)
    (path,) = Path(settings.store.blobs).glob(f"**/{spoiled.key}")
    path.chmod(0o644)
    path.write_bytes(b"spoilt?")
    fill(settings, memes)
    fill(settings, [meme("none", "this one has no picture")])
    fill(settings, [meme("lost", "this one has lost its picture", image=lost)])
    fill(settings, [meme("spoiled", "this one has a spoiled picture", image=spoiled)])
    _, manifest, records = build(settings)
    assert {record.id: record.image for record in records} == pictures
    assert manifest.dropped == {"no picture": 1, "picture missing": 1, "picture damaged": 1}
    assert manifest.features[-1].name == "image"


def test_images_of_templates_are_the_clean_pictures(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    settings = config(images="template")
    clean = picture(settings, b"clean")
    fill(settings, [meme("1", "a caption on a known template"), meme("2", "one on an unknown", template="t9")])
    with closing(open_documents(settings.store)) as documents:
        documents.upsert_templates([Template(id="t1", slug="t1", name="T1", image=clean, source="imgflip")])
    _, manifest, records = build(settings)
    assert [(record.id, record.image, record.image_key) for record in records] == [("imgflip:1", b"clean", clean.key)]
    assert manifest.dropped == {"no picture": 1}


def test_the_picture_of_a_template_is_the_sites_else_the_one_made_from_memes(
    config: MakeConfig, fill: Fill, meme: MakeMeme
) -> None:
    settings = config(images="template")
    site, made = picture(settings, b"of the site"), picture(settings, b"a median of memes")
    median = Made(image=made, method="median", made_from=("e" * 64, "f" * 64))
    fill(settings, [meme(f"{n}", f"a caption on template {n}", template=f"t{n}") for n in (1, 2, 3)])
    with closing(open_documents(settings.store)) as documents:
        documents.upsert_templates([
            Template(id="t1", slug="t1", name="T1", image=site, clean=median, source="imgflip"),
            Template(id="t2", slug="t2", name="T2", clean=median, state="found", source="found"),
            Template(id="t3", slug="t3", name="T3", source="imgflip"),
        ])  # fmt: skip
    _, manifest, records = build(settings)
    assert {record.id: record.image for record in records} == {
        "imgflip:1": b"of the site",
        "imgflip:2": b"a median of memes",
    }
    assert manifest.dropped == {"no picture": 1}
    assert {template.id: template.image_key for template in manifest.templates} == {"t1": site.key, "t2": made.key}


def test_inpainted_images_are_those_without_words(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    settings = config(images="inpainted")
    original, wordless = picture(settings, b"with words"), picture(settings, b"without words")
    mask = picture(settings, b"where they stood").key

    def made(method: Any, *made_from: str) -> Made:
        return Made(image=wordless, method=method, made_from=made_from, mask=mask)

    fill(settings, [
        meme("1", "filled in from around it", image=original, clean=made("inpaint", original.key)),
        meme("2", "filled in from its template", image=original, clean=made("template", original.key, "e" * 64)),
        meme("3", "the words are still in there", image=original),
        meme("4", "the picture was another then", image=original, clean=made("inpaint", "d" * 64)),
        meme("5", "there is no picture at all"),
    ])  # fmt: skip
    summary, manifest, records = build(settings)
    assert {(record.id, record.image_key, record.image) for record in records} == {
        ("imgflip:1", wordless.key, b"without words"),
        ("imgflip:2", wordless.key, b"without words"),
    }
    assert manifest.dropped == summary.reasons == {"no picture without words": 3}
    assert (manifest.images, manifest.lineage.settings["images"]) == ("inpainted", "inpainted")
    assert verify_dataset(Path(settings.dataset.output)) == manifest
    assert "images: inpainted" in (Path(settings.dataset.output) / "README.md").read_text()


def test_memes_count_under_the_template_that_theirs_turned_out_to_be(
    config: MakeConfig, fill: Fill, meme: MakeMeme
) -> None:
    settings = config(images="template")
    clean, other = picture(settings, b"clean"), picture(settings, b"its second record")
    fill(settings, [
        meme("1", "under its own record"),
        meme("2", "under a second record", template="found:1"),
        meme("3", "under a third record", template="found:2"),
        meme("4", "on what is no template", template="found:3"),
    ])  # fmt: skip
    found = Template(id="found:1", slug="u", name="Unnamed", image=other, state="found", source="found")
    with closing(open_documents(settings.store)) as documents:
        documents.upsert_templates([
            Template(id="t1", slug="t1", name="T1", image=clean, source="imgflip"),
            found.model_copy(update={"merged_into": "t1"}),
            found.model_copy(update={"id": "found:2", "merged_into": "found:1"}),
            found.model_copy(update={"id": "found:3", "state": "rejected"}),
        ])  # fmt: skip
    _, manifest, records = build(settings)
    assert {(record.id, record.template, record.template_name, record.image) for record in records} == {
        (f"imgflip:{n}", "t1", "T1", b"clean") for n in (1, 2, 3)
    }
    assert [(template.id, template.captions) for template in manifest.templates] == [("t1", 3)]
    assert manifest.dropped == {"no template": 1}


def test_a_dataset_without_images_refers_to_them(config: MakeConfig, fill: Fill, meme: MakeMeme) -> None:
    settings = config()
    known = picture(settings, b"bytes")
    fill(settings, [meme("1", "a caption with a picture", image=known)])
    _, manifest, records = build(settings)
    assert (records[0].image_key, records[0].image) == (known.key, None)
    assert "image" not in {feature.name for feature in manifest.features}


class Watcher:
    """A progress that adds up what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.done: Counter[str] = Counter()
        self.tallies: Counter[str] = Counter()

    def start(self, stage: str, total: int | None, unit: str) -> None:
        self.stages.append((stage, total))

    def advance(self, n: int = 1, **counts: int) -> None:
        self.done[self.stages[-1][0]] += n
        self.tallies.update(counts)

    def finish(self) -> None: ...


def test_progress_reaches_its_total(config: MakeConfig, fill: Fill, english: MakeMemes, mixed: list[Meme]) -> None:
    settings = config()
    fill(settings, [*english(2500), *mixed])
    watcher = Watcher()
    build_dataset(settings, watcher)
    assert [stage for stage, _ in watcher.stages] == [
        "filter captions", "find near-duplicates", "remove duplicates", "write records",
    ]  # fmt: skip
    assert watcher.done == dict(watcher.stages)
    assert (watcher.done["filter captions"], watcher.done["write records"]) == (2515, 2502)
    assert watcher.tallies["kept"] + watcher.tallies["dropped"] == 2515


def test_the_lineage_says_where_it_comes_from(
    config: MakeConfig, fill: Fill, mixed: list[Meme], tmp_path: Path
) -> None:
    settings = config(captions_per_template=7)
    fill(settings, mixed)
    _, manifest, _ = build(settings)
    lineage: dict[str, Any] = manifest.lineage.model_dump()
    assert lineage["settings"]["captions_per_template"] == 7
    assert lineage["memes"] == len(mixed)
    assert lineage["sources"] == {"imgflip": len(mixed)}
    assert lineage["commit"]
    assert str(tmp_path) not in (Path(settings.dataset.output) / "manifest.json").read_text()
