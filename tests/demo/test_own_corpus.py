"""The demo's own corpus: enough captions to learn from, told apart by eye and by hash, and honest about its flaws."""

from collections import Counter
from datetime import UTC, datetime
from io import BytesIO
from itertools import combinations

import pytest
from PIL import Image

from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Meme, TemplateRef, hamming
from memeloom.configs.errors import ConfigError
from memeloom.configs.load import load_config
from memeloom.dataset.flow.memes import Facts, read_facts
from memeloom.dataset.steps.registry import build_steps
from memeloom.demo.corpus import Corpus, Post, base36, open_corpus
from memeloom.demo.pictures import PictureRenderer
from memeloom.engine.steps import apply_steps

REASONS = {
    None: "kept", "duplicates": "kept", "too short": "too short", "too long": "too long", "not ascii": "characters",
    "language": "language", "profanity": "profanity: strong", "separator": "separator",
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return open_corpus(None, None, 1)


def posts(corpus: Corpus) -> list[Post]:
    return [corpus.post(blank, place) for blank in corpus.blanks for place in range(corpus.count(blank))]


def test_there_are_twelve_templates_with_four_hundred_distinct_captions_each(corpus: Corpus) -> None:
    assert len(corpus.blanks) == 12
    for blank in corpus.blanks:
        captions = {
            tuple(box.casefold() for box in post.boxes)
            for post in posts(corpus)
            if post.blank == blank and post.flaw != "duplicates"
        }
        assert corpus.count(blank) == 400
        assert len(captions) >= 380, blank.name


def test_every_post_has_its_own_key_and_is_found_by_it(corpus: Corpus) -> None:
    found = posts(corpus)
    assert len({post.key for post in found} | {blank.key for blank in corpus.blanks}) == len(found) + 12
    assert all(corpus.find(post.key) == post for post in found)


def test_newer_posts_have_higher_keys(corpus: Corpus) -> None:
    for blank in corpus.blanks:
        keys = [int(corpus.post(blank, place).key, 36) for place in range(corpus.count(blank))]
        assert keys == sorted(keys, reverse=True)


def test_a_template_has_one_to_four_boxes_and_its_captions_fill_them(corpus: Corpus) -> None:
    assert {len(blank.boxes) for blank in corpus.blanks} == {1, 2, 3, 4}
    assert all(len(post.stated_boxes()) == len(post.blank.boxes) for post in posts(corpus) if post.flaw is None)


def test_the_same_seed_writes_the_same_and_another_one_something_else(corpus: Corpus) -> None:
    assert posts(open_corpus(None, None, 1)) == posts(corpus)
    other = {post.boxes for post in posts(open_corpus(None, None, 2))}
    assert len(other & {post.boxes for post in posts(corpus)}) < len(other) / 2


def test_the_usual_filters_drop_the_flawed_captions_for_their_flaw_and_no_other(corpus: Corpus) -> None:
    steps = build_steps(load_config(environment={}).dataset)
    outcomes: Counter[tuple[str | None, str]] = Counter()
    for post in posts(corpus):
        blank = post.blank
        meme = Meme(
            id=f"imgflip:{post.key}", source="imgflip", boxes=post.stated_boxes(), fetched_at=datetime.now(UTC),
            template=TemplateRef(id=blank.id, slug=blank.slug, name=blank.name),
        )  # fmt: skip
        _, facts, _ = read_facts(meme.model_dump_json(exclude_none=True).encode(), {}, "none")
        assert isinstance(facts, Facts)
        _, drop = apply_steps(steps, facts.caption)
        outcomes[post.flaw, drop.reason if drop else "kept"] += 1
    assert set(outcomes) == set(REASONS.items())
    flawed = sum(count for (flaw, _), count in outcomes.items() if flaw)
    assert flawed == 12 * 400 // 25


def test_a_duplicate_repeats_an_older_caption_of_its_template(corpus: Corpus) -> None:
    repeated = 0
    for blank in corpus.blanks:
        found = [corpus.post(blank, place) for place in range(corpus.count(blank))]
        for place, post in enumerate(found):
            if post.flaw == "duplicates":
                repeated += 1
                assert post.boxes in [older.boxes for older in found[place + 1 :]]
    assert repeated


def test_some_texts_would_break_a_careless_parser(corpus: Corpus) -> None:
    found = posts(corpus)
    assert any("\n" in box for post in found for box in post.boxes)
    assert any("; " in post.boxes[-1] for post in found)
    assert {mark for mark in ' | "&<;' for post in found if mark in post.title} == set(' | "&<;')


def test_other_sites_show_captions_that_imgflip_does_not(corpus: Corpus) -> None:
    shown = {(post.blank.id, tuple(box.casefold() for box in post.boxes)) for post in posts(corpus) if not post.flaw}
    extra = [corpus.extra_caption(number) for number in range(400)]
    assert len({(blank.id, boxes) for blank, boxes in extra}) == 400
    assert not {(blank.id, tuple(box.casefold() for box in boxes)) for blank, boxes in extra} & shown
    assert {blank for blank, _ in extra} == set(corpus.blanks)


def test_more_memes_than_there_are_captions_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigError, match="captions, not"):
        open_corpus(None, 12 * 50_000, 1)


@pytest.mark.parametrize("memes", [0, 1, 25, 120])
def test_there_are_exactly_as_many_memes_as_asked_for(memes: int) -> None:
    small = open_corpus(None, memes, 1)
    counts = [small.count(blank) for blank in small.blanks]
    assert sum(counts) == memes
    assert max(counts) - min(counts) <= 1


def test_pictures_are_told_apart_by_their_hashes(corpus: Corpus) -> None:
    renderer = PictureRenderer(corpus)
    hashes = {
        blank.slug: inspect_image(renderer.blank(blank), max_bytes=10**7, max_pixels=10**7).phash64
        for blank in corpus.blanks
    }
    for one, other in combinations(hashes, 2):
        assert hamming(hashes[one], hashes[other]) >= 16, (one, other)


def test_the_nearest_picture_to_a_meme_is_its_template(corpus: Corpus) -> None:
    renderer = PictureRenderer(corpus)

    def phash(data: bytes) -> str:
        return inspect_image(data, max_bytes=10**7, max_pixels=10**7).phash64

    hashes = {blank.slug: phash(renderer.blank(blank)) for blank in corpus.blanks}
    for blank in corpus.blanks:
        for place in range(0, 400, 40):
            made = phash(renderer.meme(blank, corpus.post(blank, place).boxes))
            assert min(hashes, key=lambda slug: hamming(hashes[slug], made)) == blank.slug


def test_drawing_again_gives_the_same_bytes(corpus: Corpus) -> None:
    post = corpus.post(corpus.blanks[10], 3)
    first, second = (PictureRenderer(corpus).meme(post.blank, post.boxes) for _ in range(2))
    assert first == second
    assert Image.open(BytesIO(first)).format == "JPEG"


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (35, "z"), (36, "10"), (112_126_428, "1ur9b0")])
def test_base_36(number: int, text: str) -> None:
    assert base36(number) == text
    assert int(text, 36) == number
