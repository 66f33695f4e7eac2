"""The records: what they accept, and how facts are laid over facts."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from catalog.records import Image, Meme, Ocr, OcrBox, Template, TemplateRef, author_hash

WHEN = datetime(2026, 11, 20, tzinfo=UTC)
LATER = WHEN + timedelta(days=1)
BOX = OcrBox(text="READ", x=0, y=0, width=1, height=1, confidence=99)


def meme(**facts: Any) -> Meme:
    return Meme(**{"id": "test:1", "source": "test", "fetched_at": WHEN, **facts})


class TestMerged:
    def test_new_facts_are_laid_over_known_ones(self) -> None:
        merged = meme(score=1, title="kept").merged(meme(score=2, boxes=("a",), fetched_at=LATER))
        assert merged == meme(score=2, title="kept", boxes=("a",), fetched_at=LATER)

    def test_a_fact_that_is_lacking_erases_nothing(self) -> None:
        known = meme(score=1, boxes=("a",), title="t", over_18=False, ocr=Ocr(text="", confidence=0, engine="e"))
        assert known.merged(meme(fetched_at=LATER)) is known

    @pytest.mark.parametrize(("fact", "value"), [("score", 0), ("over_18", False), ("title", "")])
    def test_a_fact_that_is_false_is_still_a_fact(self, fact: str, value: object) -> None:
        assert getattr(meme(score=5, over_18=True, title="t").merged(meme(**{fact: value})), fact) == value

    def test_the_same_facts_seen_later_change_nothing(self) -> None:
        known = meme(score=1)
        assert known.merged(meme(score=1, fetched_at=LATER)) is known

    @pytest.mark.parametrize("before", [WHEN, None])
    def test_facts_fetched_before_or_nobody_knows_when_only_fill_gaps(self, before: datetime | None) -> None:
        crawled = meme(boxes=("one; two", "three"), score=5, fetched_at=LATER)
        dumped = meme(boxes=("one", "two; three"), score=1, title="t", fetched_at=before)
        assert crawled.merged(dumped) == crawled.model_copy(update={"title": "t"})

    def test_two_sightings_make_the_same_record_in_either_order(self) -> None:
        first, second = meme(score=1, title="t"), meme(score=2, boxes=("a",), fetched_at=LATER)
        assert first.merged(second) == second.merged(first)

    def test_of_two_dumps_the_later_import_wins(self) -> None:
        assert meme(score=1, fetched_at=None).merged(meme(score=2, fetched_at=None)).score == 2

    def test_a_template_that_the_page_named_is_not_replaced_by_a_guess(self) -> None:
        page = TemplateRef(id="1", slug="s", name="n")
        guess = TemplateRef(id="2", slug="t", name="m", known="match", distance=3)
        assert meme(template=page).merged(meme(template=guess)).template == page
        assert meme(template=guess).merged(meme(template=page)).template == page
        assert meme(template=page).merged(meme(template=guess, score=1)).score == 1

    def test_merging_twice_is_merging_once(self) -> None:
        known, newer = meme(score=1, boxes=("a",)), meme(score=2, title="t", fetched_at=LATER)
        once = known.merged(newer)
        assert once.merged(newer) is once


class TestCaption:
    def test_what_the_page_states_comes_first(self) -> None:
        read = Ocr(text="READ", boxes=(BOX,), confidence=99, engine="e")
        assert meme(boxes=("stated", ""), ocr=read).caption == ("stated", "")
        assert meme(ocr=read).caption == ("READ",)

    def test_a_reading_that_was_dropped_is_no_caption(self) -> None:
        read = Ocr(text="READ", boxes=(BOX,), confidence=9, engine="e", dropped="too much text")
        assert meme(ocr=read).caption == ()
        assert meme().caption == ()


class TestRefused:
    @pytest.mark.parametrize(
        "facts",
        [
            {"id": "no colon"}, {"id": "x:with space"}, {"id": "x:"}, {"id": "UPPER:1"}, {"id": "x:" + "y" * 511},
            {"unknown": 1}, {"score": 2**63}, {"views": -(2**63) - 1}, {"score": "many"},
            {"posted_at": datetime(2026, 1, 1)}, {"fetched_at": datetime(2026, 1, 1)},  # noqa: DTZ001 (that is the point)
            {"title": "\ud800"}, {"schema_version": 2},
        ],
        ids=repr,
    )  # fmt: skip
    def test_a_meme_that_some_store_could_not_hold(self, facts: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            meme(**facts)

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_numbers_that_are_none(self, number: float) -> None:
        with pytest.raises(ValidationError):
            OcrBox(text="x", x=number, y=0, width=1, height=1, confidence=1)

    def test_a_record_cannot_be_changed(self) -> None:
        with pytest.raises(ValidationError):
            meme().score = 3  # type: ignore[misc]  # that is the point


def test_a_record_survives_json() -> None:
    full = meme(boxes=("a", ""), posted_at=WHEN, template=TemplateRef(id="1", slug="s", name="n"), ocr=Ocr(
        text="READ", boxes=(BOX,), confidence=99.25, engine="e"))  # fmt: skip
    assert Meme.model_validate_json(full.model_dump_json(exclude_none=True)) == full


def test_a_picture_says_what_it_is_a_frame_of_and_older_records_do_not() -> None:
    facts = {"key": "a" * 64, "width": 1, "height": 1, "format": "png", "bytes": 9, "phash64": "0" * 16,
             "phash256": "0" * 64}  # fmt: skip
    old = Meme.model_validate({"id": "test:1", "source": "test", "image": facts, "schema_version": 1})
    assert old.image is not None
    assert old.image.frame_of is None
    assert "frame_of" not in old.model_dump_json(exclude_none=True)
    frame = Image.model_validate(facts | {"frame_of": "mp4"})
    assert Image.model_validate_json(frame.model_dump_json(exclude_none=True)) == frame
    with pytest.raises(ValidationError):
        Image.model_validate(facts | {"frame_of": "avi"})


def test_a_template_says_how_memes_refer_to_it() -> None:
    template = Template(id="1", slug="s", name="n", source="imgflip")
    assert template.ref() == TemplateRef(id="1", slug="s", name="n", known="page")


def test_an_author_is_known_by_name_and_salt_only() -> None:
    assert author_hash("ann", "salt") == author_hash("ann", "salt")
    assert len({author_hash("ann", "salt"), author_hash("ann", "pepper"), author_hash("bob", "salt"),
                author_hash("t", "sal"), author_hash("", "salt")}) == 5  # fmt: skip
    assert "ann" not in author_hash("ann", "salt")
