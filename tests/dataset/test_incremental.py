"""What was done before is not done again, unless what it was made from has changed; and how work is cut is not seen."""

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from memeloom.catalog.documents import Where
from memeloom.catalog.records import Image, Meme, Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config, Engine
from memeloom.dataset import build as building
from memeloom.dataset.build import EmptyDataset, build_dataset
from memeloom.dataset.flow import memes, near, write
from memeloom.dataset.flow.filter import Filter, Filtered, filter_piece
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.manifest import read_manifest
from memeloom.dataset.verify import verify_dataset
from tests.services.ray_cluster import ray_cluster

MakeConfig = Callable[..., Config]
MakeMeme = Callable[..., Meme]
MakeMemes = Callable[..., list[Meme]]
Fill = Callable[[Config, Iterable[Meme]], None]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of about 32 memes, and ranges of about 60 captions."""
    monkeypatch.setattr(memes, "_MEAN_MEMES", 32)
    monkeypatch.setattr(memes, "_MAX_MEMES", 96)
    monkeypatch.setattr(building, "_CHOSEN_AT_ONCE", 60)
    monkeypatch.setattr(building, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(near, "_CANDIDATES", 5)
    monkeypatch.setattr(write, "_AT_ONCE", 7)


@pytest.fixture
def filtered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many memes each piece had that was filtered."""
    seen: list[int] = []

    def counted(task: Filter) -> Filtered:
        seen.append(len(task.records))
        return filter_piece(task)

    monkeypatch.setattr(building, "filter_piece", counted)
    return seen


def build(config: Config) -> Summary:
    return build_dataset(config, Silent())


def content(config: Config) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(config.dataset.output).iterdir()}


def work(config: Config) -> Path:
    output = Path(config.dataset.output)
    return output.with_name(f".{output.name}.work")


def afresh(config: Config) -> dict[str, bytes]:
    """What a build without anything from before gives."""
    shutil.rmtree(work(config))
    build(config)
    return content(config)


def shards(config: Config) -> dict[str, int]:
    """The inode of each shard: what was linked into the dataset again has the same one."""
    folder = Path(config.dataset.output)
    return {shard.name: (folder / shard.name).stat().st_ino for shard in read_manifest(folder).shards}


def with_copies(memes: list[Meme]) -> list[Meme]:
    rng = random.Random(4)
    again = [
        each.model_copy(update={"id": f"{each.id}b", "source": "reddit", "boxes": (*each.boxes, rng.choice(["", "x"]))})
        for each in memes if rng.random() < 0.4
    ]  # fmt: skip
    return memes + again


@pytest.mark.parametrize("changes", [{}, {"captions_per_template": 37}, {"templates": 3, "captions_per_template": 50}])
def test_how_the_work_is_cut_makes_no_difference(
    config: MakeConfig, fill: Fill, english: MakeMemes, request: pytest.FixtureRequest, changes: dict[str, int]
) -> None:
    settings = config(shard_records=80, **changes)
    fill(settings, with_copies(english(700)))
    build(settings)
    expected = content(settings)
    request.getfixturevalue("small")
    assert afresh(settings) == expected
    assert len(list((work(settings) / "blocks").iterdir())) > 10
    assert len(list((work(settings) / "chosen").glob("*/*.rows"))) == 16
    assert verify_dataset(Path(settings.dataset.output)).dropped["near duplicate"] > 50


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("steps", [["duplicates"], []])
def test_caps_are_exact_whatever_copies_there_are(
    config: MakeConfig, fill: Fill, meme: MakeMeme, steps: list[str]
) -> None:
    memes = [meme(f"{n}", f"caption {n % 9} of few", template=f"t{n % 3}") for n in range(300)]
    settings = config(steps=["whitespace", *steps], captions_per_template=2 if steps else 50, shard_records=20)
    fill(settings, memes)
    build(settings)
    manifest = verify_dataset(Path(settings.dataset.output))
    assert [template.captions for template in manifest.templates] == [2 if steps else 50] * 3
    assert manifest.records + sum(manifest.dropped.values()) == 300


@pytest.mark.usefixtures("small")
def test_nothing_is_done_twice(config: MakeConfig, fill: Fill, english: MakeMemes, filtered: list[int]) -> None:
    settings = config(shard_records=60)
    fill(settings, with_copies(english(500)))
    first = build(settings)
    before, inodes, memes = content(settings), shards(settings), first.counts["memes"]
    assert sum(filtered) == memes
    filtered.clear()
    counts = build(settings).counts
    assert (filtered, shards(settings), content(settings)) == ([], inodes, before)
    assert (counts["memes as they were"], counts["shards as they were"]) == (memes, len(inodes))


@pytest.mark.usefixtures("small")
def test_what_was_filtered_before_a_build_ended_is_not_filtered_again(
    config: MakeConfig, fill: Fill, english: MakeMemes, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config()
    fill(settings, english(500))
    done: list[str] = []
    left = [6, 10**9]

    def ending(task: Filter) -> Filtered:
        if left[0] == 0:
            raise MemeloomError("the end")
        left[0] -= 1
        done.append(task.key)
        return filter_piece(task)

    monkeypatch.setattr(building, "filter_piece", ending)
    with pytest.raises(MemeloomError, match="the end"):
        build(settings)
    assert len(done) == 6
    left.pop(0)
    build(settings)
    assert len(set(done)) == len(done) > 10
    found = content(settings)
    assert afresh(settings) == found


@pytest.mark.usefixtures("small")
def test_a_few_new_memes_touch_only_what_they_fall_in(
    config: MakeConfig, fill: Fill, english: MakeMemes, filtered: list[int]
) -> None:
    settings = config(shard_records=30)
    fill(settings, english(600))
    build(settings)
    before, pieces = shards(settings), len(filtered)
    filtered.clear()
    fill(settings, english(2, seed=2))
    counts = build(settings).counts
    assert 1 <= len(filtered) <= 4 < pieces
    after = shards(settings)
    assert set(after) == set(before)
    assert 1 <= sum(after[name] != before[name] for name in after) <= 2
    assert counts["shards as they were"] >= len(after) - 2
    grown = content(settings)
    assert afresh(settings) == grown


@pytest.mark.usefixtures("small")
def test_a_template_that_is_renamed_merged_or_rejected_changes_what_names_it(
    config: MakeConfig, fill: Fill, english: MakeMemes, filtered: list[int]
) -> None:
    settings = config(shard_records=60)
    fill(settings, english(400, templates=5))
    known = Template(id="t1", slug="t1", name="Old Name", source="imgflip")
    renamed, other = known.model_copy(update={"name": "New Name"}), known.model_copy(update={"id": "t2", "name": "Two"})
    changes = [
        [known, other], [renamed], [renamed.model_copy(update={"merged_into": "t2"})],
        [other.model_copy(update={"state": "rejected"})],
    ]  # fmt: skip
    seen = []
    for change in changes:
        with closing(open_documents(settings.store)) as documents:
            documents.upsert_templates(change)
        filtered.clear()
        build(settings)
        assert filtered
        found = content(settings)
        names = [(each.id, each.name) for each in read_manifest(Path(settings.dataset.output)).templates]
        seen.append(sorted(name for name in names if name[0] in ("t1", "t2")))
        assert afresh(settings) == found
    assert seen == [[("t1", "Old Name"), ("t2", "Two")], [("t1", "New Name"), ("t2", "Two")], [("t2", "Two")], []]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("change", "filters"),
    [
        ({"near_text": 0.5}, True),
        ({"split": {"salt": "other"}}, True),
        ({"max_characters": 60}, True),
        ({"separator": "~"}, True),
        ({"captions_per_template": 9}, False),
        ({"format": "parquet", "compression": "none"}, False),
        ({"compression": "none"}, False),
        ({"shard_records": 11}, False),
        ({"min_word_count": 5}, False),
    ],
)
def test_a_changed_setting_does_again_what_it_must(
    config: MakeConfig, fill: Fill, english: MakeMemes, filtered: list[int], change: dict[str, object], filters: bool
) -> None:
    fill(config(), with_copies(english(300)))
    build(config())
    before = content(config())
    filtered.clear()
    changed = config(**change)
    build(changed)
    assert bool(filtered) == filters
    found = content(changed)
    assert found != before
    assert afresh(changed) == found


@pytest.mark.usefixtures("small")
def test_words_of_removed_memes_are_gone_after_the_next_build(
    config: MakeConfig, fill: Fill, english: MakeMemes, meme: MakeMeme
) -> None:
    settings = config(shard_records=60, compression="none")
    fill(settings, [*english(200), *(meme(f"x{n}", f"xyzzy is a secret {n} of mine") for n in range(3))])
    build(settings)

    def holding() -> list[str]:
        folders = (work(settings), Path(settings.dataset.output))
        return [str(path) for each in folders for path in each.rglob("*") if path.is_file() and b"xyzzy" in
                path.read_bytes()]  # fmt: skip

    assert len(holding()) > 3
    # What killed builds left.
    (work(settings) / "blocks" / ".0.tmp").write_bytes(b"xyzzy")
    (work(settings) / "words").mkdir()
    (work(settings) / "words" / "00000.txt").write_bytes(b"xyzzy 3\n")
    with closing(open_documents(settings.store)) as documents:
        documents.purge(Where(ids=("imgflip:x0", "imgflip:x1", "imgflip:x2")))
    build(settings)
    assert holding() == []


def test_nothing_stays_in_the_work_folder_of_what_is_all_gone(
    config: MakeConfig, fill: Fill, english: MakeMemes
) -> None:
    settings = config()
    memes = english(20)
    fill(settings, memes)
    build(settings)
    with closing(open_documents(settings.store)) as documents:
        documents.purge(Where(ids=tuple(each.id for each in memes)))
    with pytest.raises(EmptyDataset):
        build(settings)
    assert not work(settings).exists()


def test_the_work_folder_goes_if_nobody_keeps_it(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config(keep_work=False)
    fill(settings, english(20))
    build(settings)
    assert not work(settings).exists()


def damaged(path: Path, way: str) -> None:
    data = path.read_bytes()
    path.unlink()  # the dataset may share the file
    at = len(data) // 2
    if way != "gone":
        path.write_bytes({"cut": data[:at], "empty": b"", "zeros": bytes(len(data)),
                          "flipped": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]}[way])  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", ["cut", "empty", "zeros", "flipped", "gone"])
def test_a_damaged_file_in_the_work_folder_never_reaches_a_dataset(
    config: MakeConfig, fill: Fill, english: MakeMemes, way: str
) -> None:
    settings = config(shard_records=100, captions_per_template=60)
    fill(settings, with_copies(english(300)))
    build(settings)
    expected = content(settings)
    rng = random.Random(way)
    kinds = ["blocks/*", "near/*/*.rows", "near/*/*.json", "chosen/*/*.rows", "chosen/*/*.json", "chosen/*/limits",
             "shards/*/*.gz", "shards/*/words.txt", "shards/*/tally.json", "plan.json"]  # fmt: skip
    for kind in kinds:
        paths = sorted(path for path in work(settings).glob(kind) if path.stat().st_size)
        for path in rng.sample(paths, min(len(paths), 3)):
            damaged(path, way)
        build(settings)
        assert content(settings) == expected, kind
    for path in list(work(settings).rglob("*")):
        if path.is_file() and path.stat().st_size:
            damaged(path, way)
    build(settings)
    assert content(settings) == expected


@pytest.mark.usefixtures("small")
def test_what_a_killed_worker_left_of_a_shard_is_no_obstacle(
    config: MakeConfig, fill: Fill, english: MakeMemes
) -> None:
    settings = config(shard_records=100)
    fill(settings, english(300))
    build(settings)
    expected = content(settings)
    for folder in (work(settings) / "shards").iterdir():
        (folder / "tally.json").unlink()
        (folder / "runs").mkdir()
        (folder / "runs" / "00000.txt").write_bytes(b"torn")
    build(settings)
    assert content(settings) == expected


@pytest.mark.usefixtures("small")
def test_nobody_remembers_the_settings_of_a_former_build(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    fill(config(), english(50))
    build(config())
    before = content(config())
    build(config(format="webdataset"))
    assert all(name.endswith(FORMATS["webdataset"].suffixes["gzip"]) for name in shards(config()))
    build(config())
    assert content(config()) == before


def test_pictures_that_were_missing_are_looked_for_again(config: MakeConfig, fill: Fill, english: MakeMemes) -> None:
    settings = config(images="meme")
    with closing(open_blobs(settings.store)) as blobs:
        key = blobs.put(b"picture")
        blobs.delete(key)
        picture = Image(key=key, width=9, height=9, format="png", bytes=7, phash64="0" * 16, phash256="0" * 64)
        fill(settings, [each.model_copy(update={"image": picture}) for each in english(40)])
        with pytest.raises(EmptyDataset, match="picture missing"):
            build(settings)
        blobs.put(b"picture")
    assert build(settings).counts["kept"] == 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[Engine]:
    with ray_cluster(processors=2) as address:
        yield Engine(kind="ray", workers=2, ray_address=address)


def grown(config: MakeConfig, fill: Fill, english: MakeMemes, engine: Engine) -> tuple[dict[str, bytes], Summary]:
    """The bytes after two builds, the second of a grown catalog."""
    settings = config(shard_records=300, captions_per_template=200, output=f"{config().dataset.output}-{engine.kind}")
    settings = settings.model_copy(update={
        "engine": engine,
        "store": settings.store.model_copy(update={"documents": f"{settings.store.documents}-{engine.kind}.db"}),
    })  # fmt: skip
    fill(settings, with_copies(english(1000)))
    build(settings)
    fill(settings, english(300, seed=2))
    summary = build(settings)
    return content(settings), summary


def without_place(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith(("train", "test", "valid", "voc", "words"))}


@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)  # fmt: skip
def test_a_ray_cluster_gives_the_same_bytes(
    config: MakeConfig, fill: Fill, english: MakeMemes, cluster: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memes, "_MEAN_MEMES", 64)
    local = Engine(kind="local", workers=1, ray_address="auto")
    expected, _ = grown(config, fill, english, local)
    found, summary = grown(config, fill, english, cluster)
    assert without_place(found) == without_place(expected)
    assert len(without_place(found)) >= 6
    assert summary.counts["memes as they were"] > 0
