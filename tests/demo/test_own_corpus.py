"""The demo's own corpus: enough captions to learn from, told apart by eye and by hash, and honest about its flaws."""

from collections import Counter
from datetime import UTC, datetime
from itertools import combinations

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


def test_every_post_is_found_by_its_unique_key(corpus: Corpus) -> None:
    found = posts(corpus)
    assert len({post.key for post in found} | {blank.key for blank in corpus.blanks}) == len(found) + 12
    assert all(corpus.find(post.key) == post for post in found)


def test_captions_depend_on_the_seed(corpus: Corpus) -> None:
    assert posts(open_corpus(None, None, 1)) == posts(corpus)
    other = {post.boxes for post in posts(open_corpus(None, None, 2))}
    assert len(other & {post.boxes for post in posts(corpus)}) < len(other) / 2


def test_the_default_filters_drop_exactly_the_flawed_captions(corpus: Corpus) -> None:
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


def test_some_captions_contain_separators_and_newlines(corpus: Corpus) -> None:
    found = posts(corpus)
    assert any("\n" in box for post in found for box in post.boxes)
    assert any("; " in post.boxes[-1] for post in found)
    assert {mark for mark in ' | "&<;' for post in found if mark in post.title} == set(' | "&<;')


def test_other_sites_use_captions_that_imgflip_does_not_show(corpus: Corpus) -> None:
    shown = {(post.blank.id, tuple(box.casefold() for box in post.boxes)) for post in posts(corpus) if not post.flaw}
    extra = [corpus.extra_caption(number) for number in range(400)]
    assert len({(blank.id, boxes) for blank, boxes in extra}) == 400
    assert not {(blank.id, tuple(box.casefold() for box in boxes)) for blank, boxes in extra} & shown
    assert {blank for blank, _ in extra} == set(corpus.blanks)


def test_more_memes_than_captions_is_an_error() -> None:
    with pytest.raises(ConfigError, match="captions, not"):
        open_corpus(None, 12 * 50_000, 1)


def test_pictures_have_distinct_perceptual_hashes(corpus: Corpus) -> None:
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
