"""After any sequence of additions, removals and changes, a build gives the bytes of one from nothing."""

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memeloom.catalog.documents import Where
from memeloom.catalog.records import Meme, Template, TemplateRef
from memeloom.catalog.stores import open_documents
from memeloom.dataset.build import build_dataset
from memeloom.dataset.flow import changes, near, patch
from tests.dataset.builds import Build, Built, MakeConfig, MakeMemes, content, similar

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(autouse=True)
def reused(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the searches that began from a former one, and the shards patched."""
    counts = {"searches": 0, "shards": 0}

    def counted(name: str, function: Callable[..., object], found: Callable[..., bool]) -> Callable[..., object]:
        def call(*args: object) -> object:
            result = function(*args)
            counts[name] += found(result)
            return result

        return call

    unaffected = counted("searches", near._unaffected, lambda result: result[1] is not None)
    monkeypatch.setattr(near, "_unaffected", unaffected)
    monkeypatch.setattr(patch._Patch, "finish", counted("shards", patch._Patch.finish, lambda _: True))
    monkeypatch.setattr(changes, "_MOST_SHARE", 0.5)
    monkeypatch.setattr(near, "KEYS_AT_ONCE", 150)
    return counts


def change(built: Built, memes: list[Meme], rng: random.Random, name: str) -> None:
    """Add, remove and change some memes of the catalog."""
    some = rng.sample(memes, 24)
    new = [meme for meme in similar(some[:8], rng, name) if rng.random() < 0.8]
    changed = [meme.model_copy(update={"boxes": (f"{rng.choice(['a', 'b'])} new text", name)}) for meme in some[8:14]]
    with closing(open_documents(built.config.store)) as documents:
        documents.upsert(new + changed)
        documents.purge(Where(ids=tuple(meme.id for meme in some[14 : rng.randrange(14, 24)])))


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (1, {"captions_per_template": 40}),
        (2, {"compression": "zstd", "keep_dropped": True, "near_text": 0.6}),
        (3, {"steps": ["whitespace"]}),
    ],
)
def test_incremental_builds_give_the_bytes_of_fresh_ones(
    build: Build, config: MakeConfig, english: MakeMemes, tmp_path: Path, reused: dict[str, int], seed: int,
    settings: dict[str, object],
) -> None:  # fmt: skip
    rng = random.Random(seed)
    memes = english(150)
    built = build([*memes, *similar(rng.sample(memes, 50), rng, "of")], shard_records=70, **settings)
    fresh = config(shard_records=70, **settings | {"output": str(tmp_path / "fresh" / "dataset")})
    for number in range(2):
        change(built, memes, rng, f"n{number}")
        built = build(settings=built.config)
        shutil.rmtree(tmp_path / "fresh", ignore_errors=True)
        build_dataset(fresh)
        assert built.files == content(tmp_path / "fresh" / "dataset")
    assert (reused["searches"] > 30) == ("steps" not in settings)
    assert reused["shards"] > 0


@pytest.mark.parametrize(
    "kind",
    ["shards/*/rows", "shards/*/words.txt", "shards/*/*.gz", "near/*/*.rows", "blocks/*.rows", "searched.json",
     "shards.json"],
)  # fmt: skip
def test_damaged_results_of_a_former_build_are_not_used(
    build: Build, config: MakeConfig, english: MakeMemes, tmp_path: Path, kind: str
) -> None:
    memes = english(80)
    built = build([*memes, *similar(memes[:30], random.Random(1), "of")], shard_records=50)
    for path in built.work.glob(kind):
        data = path.read_bytes()
        path.unlink()  # the dataset may share the file
        path.write_bytes(data[: len(data) // 2] + b"\0" + data[len(data) // 2 + 1 :])
    built = build(english(3, seed=2), settings=built.config)
    fresh = config(shard_records=50, output=str(tmp_path / "fresh" / "dataset"))
    build_dataset(fresh)
    assert built.files == content(tmp_path / "fresh" / "dataset")


def test_a_merged_template_is_searched_anew(
    build: Build, config: MakeConfig, english: MakeMemes, tmp_path: Path
) -> None:
    """Blocks keep their names when templates are merged, and change all the same."""
    memes = english(80, templates=1)
    other = TemplateRef(id="t9", slug="t9", name="Nine")
    near = [
        each.model_copy(update={"id": f"{each.id}x", "boxes": (*each.boxes, "x"), "template": other}) for each in memes
    ]
    built = build([*memes, *near])
    with closing(open_documents(built.config.store)) as documents:
        documents.upsert_templates([Template(id=each, slug=each, name=each, source="imgflip") for each in ("t0", "t9")])
        documents.revise_template("t9", lambda each: each.model_copy(update={"merged_into": "t0"}))
    merged = build(settings=built.config)
    assert len(merged.records) < len(built.records)
    build_dataset(config(output=str(tmp_path / "fresh" / "dataset")))
    assert merged.files == content(tmp_path / "fresh" / "dataset")


def test_after_too_many_changes_all_is_searched(
    build: Build, english: MakeMemes, reused: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build(english(80))
    for most, is_reused in ((2, False), (3, True)):
        monkeypatch.setattr(changes, "_MOST", most)
        build(english(3, seed=most), settings=built.config)
        assert (reused["searches"] > 0) == is_reused


def test_without_a_search_nothing_is_compared_with_the_last_build(build: Build, english: MakeMemes) -> None:
    built = build(english(80), near_text=None, near_image=None)
    built = build(english(3, seed=2), settings=built.config)
    assert not list(built.work.glob("near/*/changes.*"))
