"""The demo's own corpus, and a folder of real data as a corpus."""

import gzip
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Meme, TemplateRef, hamming
from memeloom.configs.errors import ConfigError
from memeloom.configs.load import load_config
from memeloom.dataset.flow.memes import Facts, read_facts
from memeloom.dataset.steps.registry import build_steps
from memeloom.demo.corpus import Corpus, Post, open_corpus
from memeloom.demo.pictures import PictureRenderer
from memeloom.engine.steps import apply_steps

CAPTIONS = "imgflip_captions.jsonl.gz"
MANIFEST = "templates/manifest.json"
REASONS = {
    None: "kept", "duplicates": "kept", "too short": "too short", "too long": "too long", "not ascii": "characters",
    "language": "language", "profanity": "profanity: strong", "separator": "separator",
}  # fmt: skip


@pytest.fixture(scope="module")
def own() -> Corpus:
    return open_corpus(None, None, 1)


@pytest.fixture
def corpus(data_folder: Path) -> Corpus:
    return open_corpus(data_folder, None, 1)


def posts(corpus: Corpus) -> list[Post]:
    return [corpus.post(blank, place) for blank in corpus.blanks for place in range(corpus.count(blank))]


def lower(boxes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(box.casefold() for box in boxes)


def test_own_captions_are_distinct_and_those_of_other_sites_are_not_on_imgflip(own: Corpus) -> None:
    assert {own.count(blank) for blank in own.blanks} == {400}
    shown = {(post.blank.id, lower(post.boxes)) for post in posts(own) if not post.flaw}
    assert len(shown) >= 12 * 380
    extra = {(blank.id, lower(boxes)) for blank, boxes in map(own.extra_caption, range(400))}
    assert len(extra) == 400
    assert not extra & shown


def test_the_default_filters_drop_exactly_the_flawed_captions(own: Corpus) -> None:
    steps = build_steps(load_config(environment={}).dataset)
    outcomes: Counter[tuple[str | None, str]] = Counter()
    for post in posts(own):
        blank = post.blank
        meme = Meme(
            id=f"imgflip:{post.key}", source="imgflip", boxes=post.stated_boxes(), fetched_at=datetime.now(UTC),
            template=TemplateRef(id=blank.id, slug=blank.slug, name=blank.name),
        )  # fmt: skip
        _, facts, _ = read_facts(meme.model_dump_json(exclude_none=True).encode(), {}, "none")
        assert isinstance(facts, Facts)
        _, drop = apply_steps(steps, facts.caption)
        outcomes[post.flaw, drop.reason if drop else "kept"] += 1
        if post.flaw == "duplicates":
            assert post.boxes in [other.boxes for other in posts(own) if other.blank == blank and other.key < post.key]
    assert set(outcomes) == set(REASONS.items())
    assert sum(count for (flaw, _), count in outcomes.items() if flaw) == 12 * 400 // 25


def test_the_nearest_picture_to_an_own_meme_is_its_template(own: Corpus) -> None:
    renderer = PictureRenderer(own)

    def phash(data: bytes) -> str:
        return inspect_image(data, max_bytes=10**7, max_pixels=10**7).phash64

    hashes = {blank.slug: phash(renderer.blank(blank)) for blank in own.blanks}
    for blank in own.blanks:
        for place in range(0, 400, 80):
            made = phash(renderer.meme(blank, own.post(blank, place).boxes))
            assert min(hashes, key=lambda slug: hamming(hashes[slug], made)) == blank.slug


def test_posts_of_a_folder_equal_its_file_newest_first(corpus: Corpus) -> None:
    assert [(blank.slug, corpus.count(blank)) for blank in corpus.blanks] == [("Red-Fox", 6), ("Blue-Whale", 2)]
    found = posts(corpus)[:6]
    assert [post.key for post in found] == ["fox5", "fox4", "fox3", "fox2", "fox1", "fox0"]
    assert (found[0].title, found[0].views, found[0].votes) == ("Red-Fox & friends", 1234, 5)
    assert (found[-1].views, found[-1].votes) == (0, 0)
    assert [post.suffix for post in found[-2:]] == ["png", "jpg"]
    assert [post.boxes for post in found[2:4]] == [("X", "", "Y"), ("A", "B", "C")]
    assert [post.stated_boxes() for post in found] == [
        (), ("line\nbreak", "either | or"), ("X", "; Y"), ("A", "B; C"), ("ONLY ONE",), ("TOP", "BOTTOM"),
    ]  # fmt: skip
    assert all(corpus.find(post.key) == post for post in posts(corpus))
    assert [corpus.find("fox9"), corpus.find("a")] == [None, None]


def test_a_limit_is_distributed_over_the_templates_of_a_folder_and_other_sites_use_the_rest(data_folder: Path) -> None:
    for memes, counts in ((2, [1, 1]), (5, [3, 2]), (7, [5, 2])):
        corpus = open_corpus(data_folder, memes, 1)
        assert [corpus.count(blank) for blank in corpus.blanks] == counts
    corpus = open_corpus(data_folder, 2, 1)
    assert corpus.find("fox4") is None
    assert corpus.extra_caption(0) == (corpus.blanks[0], ("line\nbreak", "either | or"))
    with pytest.raises(ConfigError, match="has 8 captions, not 9"):
        open_corpus(data_folder, 9, 1)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (MANIFEST, b"[{"),
        (MANIFEST, None),
        (CAPTIONS, None),
        (CAPTIONS, gzip.compress(b"{}")[:-4]),
        (CAPTIONS, gzip.compress(b'{"template": "Red-Fox", "po\n')),
        (CAPTIONS, gzip.compress(b'{"template": "Red-Fox"}\n')),
    ],
    ids=["manifest cut", "no manifest", "no captions", "gzip cut", "line cut", "field missing"],
)
def test_a_folder_that_cannot_be_served_is_a_one_line_error(
    data_folder: Path, file: str, content: bytes | None
) -> None:
    (data_folder / file).unlink()
    if content is not None:
        (data_folder / file).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"--data: cannot read .*{file}") as caught:
        open_corpus(data_folder, None, 1)
    assert "\n" not in str(caught.value)


def test_a_folder_without_captions_on_known_templates_is_an_error(data_folder: Path) -> None:
    with gzip.open(data_folder / CAPTIONS, "wt") as lines:
        lines.write(json.dumps({"template": "Nobody", "post": "https://imgflip.com/i/1"}) + "\n")
    with pytest.raises(ConfigError, match="no caption of"):
        open_corpus(data_folder, None, 1)


def test_real_captions_are_served_unchanged(real_data: Path) -> None:
    corpus = open_corpus(real_data, None, 1)
    assert len(corpus.blanks) == 70
    assert sum(corpus.count(blank) for blank in corpus.blanks) == 260_417
    with gzip.open(real_data / CAPTIONS, "rt") as lines:
        for number, line in enumerate(lines):
            if number % 5_000 == 0:
                row = json.loads(line)
                post = corpus.find(row["post"].rpartition("/")[2])
                assert post is not None
                assert (post.blank.slug, list(post.boxes)) == (row["template"], row["boxes"])
                assert post.title == row["title"].strip()
