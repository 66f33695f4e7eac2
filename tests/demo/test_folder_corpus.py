"""A folder of real data as a corpus: what is served, in which boxes, and what is said of folders that are no good."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from memeloom.catalog.records import TemplateBox
from memeloom.configs.errors import ConfigError
from memeloom.demo.corpus import Corpus, open_corpus
from memeloom.demo.corpus_folder import css_boxes
from memeloom.demo.pictures import PictureRenderer


@pytest.fixture
def corpus(data_folder: Path) -> Corpus:
    return open_corpus(data_folder, None, 1)


def test_templates_without_captions_and_captions_without_template_are_left_out(corpus: Corpus) -> None:
    assert [(blank.slug, corpus.count(blank)) for blank in corpus.blanks] == [("Red-Fox", 6), ("Blue-Whale", 2)]


def test_posts_equal_the_file_newest_first(corpus: Corpus) -> None:
    fox = corpus.blanks[0]
    found = [corpus.post(fox, place) for place in range(6)]
    assert [post.key for post in found] == ["fox5", "fox4", "fox3", "fox2", "fox1", "fox0"]
    assert [post.boxes for post in found[-3:]] == [("A", "B", "C"), ("ONLY ONE",), ("TOP", "BOTTOM")]
    assert (found[0].title, found[0].views, found[0].votes) == ("Red-Fox & friends", 1234, 5)
    assert (found[-1].views, found[-1].votes) == (0, 0)
    assert [post.suffix for post in found[-2:]] == ["png", "jpg"]


def test_surplus_boxes_join_the_last_and_empty_ones_are_left_out(corpus: Corpus) -> None:
    stated = [corpus.post(corpus.blanks[0], place).stated_boxes() for place in range(6)]
    assert stated == [
        (), ("line\nbreak", "either | or"), ("X", "; Y"), ("A", "B; C"), ("ONLY ONE",), ("TOP", "BOTTOM"),
    ]  # fmt: skip


def test_every_post_is_found_by_its_key(corpus: Corpus) -> None:
    for blank in corpus.blanks:
        for place in range(corpus.count(blank)):
            post = corpus.post(blank, place)
            assert corpus.find(post.key) == post
    assert corpus.find("fox9") is None
    assert corpus.find("a") is None


def test_a_limit_is_distributed_evenly_over_templates(data_folder: Path) -> None:
    for memes, counts in ((2, [1, 1]), (5, [3, 2]), (7, [5, 2]), (8, [6, 2])):
        corpus = open_corpus(data_folder, memes, 1)
        assert [corpus.count(blank) for blank in corpus.blanks] == counts
    with pytest.raises(ConfigError, match="has 8 captions, not 9"):
        open_corpus(data_folder, 9, 1)


def test_memes_beyond_the_limit_are_used_by_other_sites(data_folder: Path) -> None:
    corpus = open_corpus(data_folder, 2, 1)
    assert corpus.find("fox5") is not None
    assert corpus.find("fox4") is None
    assert corpus.extra_caption(0) == (corpus.blanks[0], ("line\nbreak", "either | or"))


def places(box: TemplateBox) -> tuple[float, ...]:
    return box.x, box.y, box.width, box.height, box.angle


def test_boxes_are_scaled_from_the_editor_whose_pictures_are_463_wide_and_come_last_box_first() -> None:
    rules = [
        "background: none; opacity: 1; left: 120px; top: 319px; width: 259px; height: 67px; transform: rotate(353deg);",
        "left: 4px; top: 4px; width: 455px; height: 105px;",
    ]
    first, second = css_boxes(rules, 926, 884)
    assert places(first) == pytest.approx((4 / 463, 4 / 442, 455 / 463, 105 / 442, 0.0))
    assert places(second) == pytest.approx((120 / 463, 319 / 442, 259 / 463, 67 / 442, -7.0))


def test_boxes_are_clamped_to_the_picture() -> None:
    (box,) = css_boxes(["left: -20px; top: 400px; width: 900px; height: 200px;"], 463, 463)
    assert places(box) == pytest.approx((0.0, 400 / 463, 1.0, 63 / 463, 0.0))


def test_captions_are_drawn_on_pictures_about_500_wide(corpus: Corpus) -> None:
    renderer = PictureRenderer(corpus)
    fox = corpus.blanks[0]
    assert renderer.size(fox) == (500, 324)
    assert renderer.meme(fox, ("TOP", "BOTTOM")) != renderer.blank(fox)
    assert renderer.meme(fox, ("TOP",), "png").startswith(b"\x89PNG")


def break_gzip(folder: Path) -> None:
    path = folder / "imgflip_captions.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-40])


def break_line(folder: Path) -> None:
    with gzip.open(folder / "imgflip_captions.jsonl.gz", "at") as lines:
        lines.write('{"template": "Red-Fox", "po\n')


def break_field(folder: Path) -> None:
    with gzip.open(folder / "imgflip_captions.jsonl.gz", "at") as lines:
        lines.write(json.dumps({"template": "Red-Fox"}) + "\n")


def break_manifest(folder: Path) -> None:
    (folder / "templates" / "manifest.json").write_text("[{")


def lose_manifest(folder: Path) -> None:
    (folder / "templates" / "manifest.json").unlink()


def lose_captions(folder: Path) -> None:
    (folder / "imgflip_captions.jsonl.gz").unlink()


@pytest.mark.parametrize(
    "harm",
    [break_gzip, break_line, break_field, break_manifest, lose_manifest, lose_captions],
    ids=lambda f: f.__name__,
)
def test_a_folder_that_cannot_be_served_is_a_one_line_error(data_folder: Path, harm: Callable[[Path], None]) -> None:
    harm(data_folder)
    with pytest.raises(ConfigError, match=r"--data: cannot read .*(imgflip_captions|manifest)") as caught:
        open_corpus(data_folder, None, 1)
    assert "\n" not in str(caught.value)


def test_a_folder_without_captions_on_known_templates_is_an_error(data_folder: Path) -> None:
    with gzip.open(data_folder / "imgflip_captions.jsonl.gz", "wt") as lines:
        lines.write(json.dumps({"template": "Nobody", "post": "https://imgflip.com/i/1"}) + "\n")
    with pytest.raises(ConfigError, match="no caption of"):
        open_corpus(data_folder, None, 1)


def test_real_captions_are_served_unchanged(real_data: Path) -> None:
    corpus = open_corpus(real_data, None, 1)
    assert len(corpus.blanks) == 70
    assert sum(corpus.count(blank) for blank in corpus.blanks) == 260_417
    with gzip.open(real_data / "imgflip_captions.jsonl.gz", "rt") as lines:
        for number, line in enumerate(lines):
            if number % 5_000 == 0:
                row = json.loads(line)
                post = corpus.find(row["post"].rpartition("/")[2])
                assert post is not None
                assert (post.blank.slug, list(post.boxes)) == (row["template"], row["boxes"])
                assert post.title == row["title"].strip()


def test_real_boxes_lie_inside_their_pictures(real_data: Path) -> None:
    for blank in open_corpus(real_data, 70, 1).blanks:
        for box in blank.boxes:
            assert 0 <= box.x < box.x + box.width <= 1.0001, blank.slug
            assert 0 <= box.y < box.y + box.height <= 1.0001, blank.slug


def test_captions_can_be_drawn_on_all_real_pictures(real_data: Path, decode: Callable[[bytes], Image.Image]) -> None:
    corpus = open_corpus(real_data, 700, 1)
    renderer = PictureRenderer(corpus)
    for blank in corpus.blanks:
        picture = decode(renderer.meme(blank, corpus.post(blank, 0).boxes))
        assert picture.size == renderer.size(blank)
