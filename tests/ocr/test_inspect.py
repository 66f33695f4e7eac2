"""Inspecting one picture: found and removed words, as a page and as a picture."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow

from memeloom.catalog.records import Ocr, Template, TemplateBox
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config, Store
from memeloom.ocr.engines.contract import ReadFailed, Word
from memeloom.ocr.inspect import Inspection, Subject, inspect_subject, load_subject
from memeloom.ocr.layout import find_boxes, find_lines
from memeloom.ocr.report import sheet
from memeloom.ocr.report.inspection_page import draw, write_inspection
from memeloom.report.overlay import BADGE, Mark, overlay
from tests.html_page import Page
from tests.ocr.memes import put

HOSTILE = """</title></svg><script>alert("1")</script>'onload='x'<img/src=x/onerror=y>&"""


class FakeEngine:
    """Reads the same words in every picture; without words it fails."""

    name = "fake"

    def __init__(self, *words: Word) -> None:
        self._words = words

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        if not self._words:
            raise ReadFailed("timeout", "more than 3 s")
        return list(self._words)


class InspectionPage(Page):
    """tips: shown when the pointer rests on a mark; text: the rest."""

    def __init__(self, html: str) -> None:
        self.tips: list[str] = []
        super().__init__(html)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == [("title", {})] and data.strip():
            self.tips.append(data)
        else:
            super().handle_data(data)

    def classes(self, tag: str) -> list[str]:
        return [str(attributes.get("class")) for attributes in self.of(tag)]


@pytest.fixture
def config(store_config: Store) -> Config:
    return load_config(environment={}).model_copy(update={"store": store_config})


@pytest.fixture
def picture() -> NDArray[np.uint8]:
    return np.full((300, 400, 3), 90, np.uint8)


def word(text: str, line: int, place: int = 0, confidence: float = 97.0) -> Word:
    return Word(text, 0.1 + 0.2 * place, 0.1 + 0.25 * line, 0.18, 0.1, confidence, line)


GONE = ((word("ghost", 1, 0, 12.0), "low confidence"), (word("imgflip.com", 3), "watermark"))


def made(picture: NDArray[np.uint8], *kept: Word, dropped: str | None = None) -> Inspection:
    """A reading of which `kept` is left, and `GONE` is gone."""
    boxes = find_boxes(find_lines(kept, 1.0))
    ocr = Ocr(text="", boxes=tuple(boxes), confidence=97.0, engine="fake", dropped=dropped)
    return Inspection(Subject("a meme", picture), (*kept, *(word for word, _ in GONE)), kept, GONE, ocr, 0.02)


KEPT = (word("TOP", 0), word("LINE", 0, 1), word("BELOW", 2))


def test_an_inspection_lists_lines_with_removed_words(picture: NDArray[np.uint8], config: Config) -> None:
    looked = inspect_subject(Subject("a meme", picture), FakeEngine(*KEPT, *(word for word, _ in GONE)), config)
    lines = [(found, [(word.text, reason) for word, reason in words]) for found, words in looked.lines()]
    assert lines == [
        ("TOP LINE", [("TOP", None), ("LINE", None)]),
        ("ghost", [("ghost", "low confidence")]),
        ("BELOW", [("BELOW", None)]),
        ("imgflip.com", [("imgflip.com", "watermark")]),
    ]
    assert [box.text for box in looked.ocr.boxes] == ["TOP LINE", "BELOW"]


def test_the_page_numbers_boxes_and_strikes_removed_words(picture: NDArray[np.uint8]) -> None:
    page = InspectionPage(draw(made(picture, *KEPT)))
    groups = page.classes("g")
    assert [groups.count(look) for look in ("box sure", "badge sure", "word removed")] == [2, 2, 2]
    assert groups.count("word sure") == 3
    for said in ("a caption", "TOP LINE", "BELOW", "12.0 low confidence", "97.0 watermark"):
        assert said in page.text
    assert {"1: TOP LINE (97.0)", "2: BELOW (97.0)", "TOP (97.0)", "imgflip.com (97.0): watermark"} <= set(page.tips)
    assert page.text.index("TOP LINE") < page.text.index("BELOW")


def test_the_page_shows_what_cleaning_changed(picture: NDArray[np.uint8]) -> None:
    look = made(picture, *KEPT)
    assert "the engine read:" not in InspectionPage(draw(look)).text
    found = (word("T0P", 0), *look.found[1:])
    assert "the engine read: \nT0P LINE\n" in InspectionPage(draw(replace(look, found=found))).text


@pytest.mark.parametrize("kept", [KEPT, ()])
def test_a_dropped_reading_shows_its_reason(picture: NDArray[np.uint8], kept: tuple[Word, ...]) -> None:
    page = InspectionPage(draw(made(picture, *kept, dropped="no <text>"))).text
    assert "dropped: no <text>" in page
    assert "a caption" not in page


def test_foreign_text_is_escaped(picture: NDArray[np.uint8]) -> None:
    look = made(picture, word(HOSTILE, 0))
    subject = replace(look.subject, name=HOSTILE, stated=(HOSTILE,))
    found = (word(f"{HOSTILE} ", 0), word(HOSTILE, 1))
    page = InspectionPage(draw(replace(look, subject=subject, found=found, removed=((word(HOSTILE, 1), HOSTILE),))))
    assert {tag for tag, _ in page.tags} & {"script", "img", "iframe", "a"} == set()
    assert [name for _, attributes in page.tags for name in attributes if name.startswith("on")] == []
    assert page.text.count(HOSTILE) == 7, "heading, box, statement, two lines, a reason, what the engine read"
    assert sum(HOSTILE in tip for tip in page.tips) == 5, "the page's title, two words, a box and its number"
    sources = [attributes["href"] or "" for tag, attributes in page.tags if tag == "image"]
    assert [source.partition(",")[0] for source in sources] == ["data:image/jpeg;base64"]


def test_numbers_of_boxes_do_not_overlap() -> None:
    marks = [Mark(x=0.3, y=0.3, width=0.2, height=0.1, number=number) for number in range(1, 6)]
    badges = overlay(np.zeros((200, 200, 3), np.uint8), marks, width=400, side=400, quality=80).badges
    assert len(badges) == 5
    apart = [np.hypot(a[0] - b[0], a[1] - b[1]) for a in badges for b in badges if a is not b]
    assert min(apart) >= 2 * BADGE


def test_the_sheet_shows_boxes_in_their_colours_and_the_text(picture: NDArray[np.uint8]) -> None:
    drawn, other = (
        np.asarray(sheet.draw(made(picture, word(text, 0), word("DOUBT", 2, 0, 80.0))))
        for text in ("CAPTION", "DOUGHNUT")
    )
    left = drawn[:, : drawn.shape[1] // 2]
    for colour in ("138a63", "b85c00", "b3261e"):
        assert (left == tuple(bytes.fromhex(colour))).all(axis=2).any(), colour
    assert not np.array_equal(drawn[:, -500:], other[:, -500:])


@pytest.mark.parametrize("shape", [(1, 1, 3), (20, 2000, 3), (3000, 40, 3)])
def test_any_shape_of_picture_can_be_drawn(shape: tuple[int, ...], tmp_path: Path) -> None:
    odd = made(np.zeros(shape, np.uint8), *KEPT)
    write_inspection(tmp_path / "a.html", odd)
    write_inspection(tmp_path / "a.PNG", odd)
    assert Page((tmp_path / "a.html").read_text()).of("g")
    with Pillow.open(tmp_path / "a.PNG") as drawn:
        assert drawn.format == "PNG"
        assert max(drawn.size) < 8000


def test_a_sheet_is_bounded_and_needs_no_fontconfig(
    monkeypatch: pytest.MonkeyPatch, picture: NDArray[np.uint8]
) -> None:
    monkeypatch.setenv("PATH", "")
    words = (word("".join(map(chr, range(0x905, 0x92A))) * 3, line) for line in range(400))
    assert sheet.draw(made(picture, *words)).height < 8000


def test_a_file_is_read_upright_and_named(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "m.jpg"
    exif = Pillow.Exif()
    exif[0x0112] = 6
    Pillow.new("RGB", (40, 20)).save(path, exif=exif)
    subject = load_subject(config, str(path))
    assert (subject.name, subject.picture.shape, subject.places) == ("m.jpg", (40, 20, 3), ())


def png(picture: NDArray[np.uint8]) -> bytes:
    return cv2.imencode(".png", picture)[1].tobytes()


def test_a_meme_is_loaded_with_its_templates_boxes_and_its_pages_caption(
    config: Config, picture: NDArray[np.uint8]
) -> None:
    places = (TemplateBox(x=0.0, y=0.6, width=1.0, height=0.3), TemplateBox(x=0.0, y=0.0, width=1.0, height=0.3))
    template = Template(id="9", slug="nine", name="Nine", boxes=places, source="test")
    open_documents(config.store).upsert_templates([template])
    put(config, "a", png(picture), template=template.ref(), boxes=("SAID",))
    subject = load_subject(config, "test:a")
    assert (subject.name, subject.places, subject.stated) == ("test:a", places, ("SAID",))
    looked = inspect_subject(subject, FakeEngine(*KEPT), config)
    assert [box.text for box in looked.ocr.boxes] == ["BELOW", "TOP LINE"]
    text = InspectionPage(draw(looked)).text
    assert "Caption of its page" in text
    assert "in the order of the template" in text


def test_rejected_templates_give_no_boxes_and_merged_ones_those_of_their_target(
    config: Config, picture: NDArray[np.uint8]
) -> None:
    there, elsewhere = (TemplateBox(x=0.0, y=y, width=1.0, height=0.3) for y in (0.0, 0.6))
    known = Template(id="9", slug="nine", name="Nine", boxes=(there,), source="test")
    found = Template(id="found:1", slug="f", name="F", boxes=(elsewhere,), state="found", source="found")
    documents = open_documents(config.store)
    documents.upsert_templates([known, found.model_copy(update={"merged_into": "9"})])
    documents.upsert_templates([found.model_copy(update={"id": "found:2", "state": "rejected"})])
    put(config, "merged", png(picture), template=found.ref())
    put(config, "rejected", png(picture), template=found.ref().model_copy(update={"id": "found:2"}))
    assert load_subject(config, "test:merged").places == (there,)
    assert load_subject(config, "test:rejected").places == ()


def test_unreadable_targets_are_one_line(config: Config, picture: NDArray[np.uint8], tmp_path: Path) -> None:
    page, cut = tmp_path / "page.jpg", tmp_path / "cut.png"
    page.write_text("<html>404</html>")
    cut.write_bytes(png(picture)[:-20])
    put(config, "bare", b"", image=None)
    open_blobs(config.store).delete(put(config, "lost", png(picture)))
    for target, said in {
        str(tmp_path / "none.jpg"): "no such file",
        str(tmp_path): "Is a directory",
        str(page): "not an image",
        str(cut): "truncated",
        "test:nobody": "no such meme",
        "test:bare": "has no picture",
        "test:lost": "test:lost",
        "x\0y": "no such file",
        "n" * 5000: "File name too long",
    }.items():
        with pytest.raises(MemeloomError, match=said) as error:
            load_subject(config, target)
        assert "\n" not in str(error.value)


def test_a_picture_that_cannot_be_read_is_named(picture: NDArray[np.uint8], config: Config) -> None:
    with pytest.raises(MemeloomError, match=r"^a meme: timeout: more than 3 s$"):
        inspect_subject(Subject("a meme", picture), FakeEngine(), config)
