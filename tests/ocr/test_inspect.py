"""One picture looked at closely: what was found, what was taken out and why, as a page and as a picture."""

import io
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow

from memeloom.catalog.records import Image, Meme, Ocr, Template, TemplateBox
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config, Store
from memeloom.ocr.engines.contract import ReadFailed, Word
from memeloom.ocr.inspect import Inspection, Subject, inspect_subject, load_subject
from memeloom.ocr.layout import find_boxes, find_lines
from memeloom.ocr.report import sheet
from memeloom.ocr.report.look import draw, write_inspection
from memeloom.ocr.report.overlay import Mark, band, draw_over

HOSTILE = """</title></svg><script>alert("1")</script>'onload='x'<img/src=x/onerror=y>&"""


class FakeEngine:
    """Reads the same words in every picture."""

    name = "fake"

    def __init__(self, *words: Word) -> None:
        self._words = words

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        return list(self._words)


class Failing(FakeEngine):
    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        raise ReadFailed("timeout", "more than 3 s")


class Page(HTMLParser):
    """A page taken apart: tags with their attributes, the text, and what is said where one points."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.said: list[str] = []
        self._in: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._in:
            del self._in[len(self._in) - 1 - self._in[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if "title" in self._in:
            self.said.append(data)
        elif "style" not in self._in:
            self.text += f"{data}\n"

    def classes(self, tag: str) -> list[str]:
        return [str(attributes.get("class")) for name, attributes in self.tags if name == tag]


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


def test_a_look_tells_each_line_with_what_was_taken_out_and_why(picture: NDArray[np.uint8], config: Config) -> None:
    looked = inspect_subject(Subject("a meme", picture), FakeEngine(*KEPT, *(word for word, _ in GONE)), config)
    lines = [(found, [(word.text, reason) for word, reason in words]) for found, words in looked.lines()]
    assert lines == [
        ("TOP LINE", [("TOP", None), ("LINE", None)]),
        ("ghost", [("ghost", "low confidence")]),
        ("BELOW", [("BELOW", None)]),
        ("imgflip.com", [("imgflip.com", "watermark")]),
    ]
    assert [box.text for box in looked.ocr.boxes] == ["TOP LINE", "BELOW"]


def test_the_page_numbers_boxes_strikes_what_is_gone_and_shows_the_texts(picture: NDArray[np.uint8]) -> None:
    page = Page(draw(made(picture, *KEPT)))
    groups = page.classes("g")
    assert (groups.count("box sure"), groups.count("badge sure"), groups.count("gone")) == (2, 2, 2)
    assert groups.count("word sure") == 3
    for said in ("a caption", "TOP LINE", "BELOW", "12.0 low confidence", "97.0 watermark"):
        assert said in page.text
    assert {"1: TOP LINE (97.0)", "2: BELOW (97.0)", "TOP (97.0)", "imgflip.com (97.0): watermark"} <= set(page.said)
    assert page.text.index("TOP LINE") < page.text.index("BELOW")


def test_the_page_tells_of_words_that_cleaning_mended(picture: NDArray[np.uint8]) -> None:
    look = made(picture, *KEPT)
    assert "the engine read:" not in Page(draw(look)).text
    found = (word("T0P", 0), *look.found[1:])
    assert "the engine read: \nT0P LINE\n" in Page(draw(replace(look, found=found))).text


@pytest.mark.parametrize("kept", [KEPT, ()])
def test_a_reading_that_is_no_caption_says_why(picture: NDArray[np.uint8], kept: tuple[Word, ...]) -> None:
    page = Page(draw(made(picture, *kept, dropped="no <text>"))).text
    assert "dropped: no <text>" in page
    assert "a caption" not in page


def test_what_was_read_cannot_change_the_page(picture: NDArray[np.uint8]) -> None:
    look = made(picture, word(HOSTILE, 0))
    subject = replace(look.subject, name=HOSTILE, stated=(HOSTILE,))
    found = (word(f"{HOSTILE} ", 0), word(HOSTILE, 1))
    page = Page(draw(replace(look, subject=subject, found=found, removed=((word(HOSTILE, 1), HOSTILE),))))
    assert {tag for tag, _ in page.tags} & {"script", "img", "iframe", "a"} == set()
    assert [name for _, attributes in page.tags for name in attributes if name.startswith("on")] == []
    assert page.text.count(HOSTILE) == 7, "heading, box, statement, two lines, a reason, what the engine read"
    assert sum(HOSTILE in said for said in page.said) == 5, "the page's title, two words, a box and its number"
    sources = [attributes["href"] or "" for tag, attributes in page.tags if tag == "image"]
    assert [source.partition(",")[0] for source in sources] == ["data:image/jpeg;base64"]


@pytest.mark.parametrize(
    ("confidence", "name"), [(100, "sure"), (95, "sure"), (94.9, "fair"), (70, "doubtful"), (0, "poor")]
)
def test_bands_of_confidence(confidence: float, name: str) -> None:
    assert band(confidence) == name


def test_numbers_of_boxes_do_not_lie_on_each_other() -> None:
    marks = [Mark(0.3, 0.3, 0.2, 0.1, 99.0, "said", number=number) for number in range(1, 6)]
    page = Page(draw_over(np.zeros((200, 200, 3), np.uint8), marks, 400, 400, 80))
    badges = [
        (float(str(at["cx"])), float(str(at["cy"])), float(str(at["r"]))) for tag, at in page.tags if tag == "circle"
    ]
    assert len(badges) == 5
    apart = [np.hypot(a[0] - b[0], a[1] - b[1]) for a in badges for b in badges if a is not b]
    assert min(apart) >= 2 * badges[0][2] - 1e-6


def test_the_sheet_shows_the_boxes_in_their_colours_and_other_text_looks_other(picture: NDArray[np.uint8]) -> None:
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
    assert Page((tmp_path / "a.html").read_text()).classes("g")
    with Pillow.open(tmp_path / "a.PNG") as drawn:
        assert drawn.format == "PNG"
        assert max(drawn.size) < 8000


def test_a_sheet_of_a_long_reading_in_other_letters_needs_no_font_service_and_ends(
    monkeypatch: pytest.MonkeyPatch, picture: NDArray[np.uint8]
) -> None:
    wrap, wrapped = sheet._wrapped, list[object]()

    def counted(*what: Any) -> list[str]:
        wrapped.append(what)
        return wrap(*what)

    monkeypatch.setattr(sheet, "_wrapped", counted)
    monkeypatch.setenv("PATH", "")
    sheet._find_face.cache_clear()
    drawn = sheet.draw(made(picture, *(word("देवनागरी" * 10, line) for line in range(400))))
    sheet._find_face.cache_clear()
    assert drawn.height < 8000
    assert len(wrapped) < 100, "what would be cut off is not drawn first"


def test_a_file_is_read_upright_and_named(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "m.jpg"
    exif = Pillow.Exif()
    exif[0x0112] = 6
    Pillow.new("RGB", (40, 20)).save(path, exif=exif)
    subject = load_subject(config, str(path))
    assert (subject.name, subject.picture.shape, subject.places) == ("m.jpg", (40, 20, 3), ())


@pytest.fixture
def meme(config: Config, picture: NDArray[np.uint8]) -> Callable[..., Meme]:
    """Puts a meme with a picture into the catalog."""

    def add(name: str, **facts: object) -> Meme:
        data = cv2.imencode(".png", picture)[1].tobytes()
        key = open_blobs(config.store).put(data)
        image = Image(
            key=key, width=400, height=300, format="png", bytes=len(data), phash64="0" * 16, phash256="0" * 64
        )
        made = Meme.model_validate({"id": f"test:{name}", "source": "test", "image": image, **facts})
        open_documents(config.store).upsert([made])
        return made

    return add


def test_a_meme_of_the_catalog_comes_with_its_templates_boxes_and_what_its_page_says(
    config: Config, meme: Callable[..., Meme]
) -> None:
    places = (TemplateBox(x=0.0, y=0.6, width=1.0, height=0.3), TemplateBox(x=0.0, y=0.0, width=1.0, height=0.3))
    template = Template(id="9", slug="nine", name="Nine", boxes=places, source="test")
    open_documents(config.store).upsert_templates([template])
    meme("a", template=template.ref(), boxes=("SAID",))
    subject = load_subject(config, "test:a")
    assert (subject.name, subject.places, subject.stated) == ("test:a", places, ("SAID",))
    looked = inspect_subject(subject, FakeEngine(*KEPT), config)
    assert [box.text for box in looked.ocr.boxes] == ["BELOW", "TOP LINE"]
    text = Page(draw(looked)).text
    assert "What its page says" in text
    assert "in the order of the template" in text


def test_a_rejected_template_gives_no_boxes_and_a_merged_one_those_of_the_other(
    config: Config, meme: Callable[..., Meme]
) -> None:
    there, elsewhere = (TemplateBox(x=0.0, y=y, width=1.0, height=0.3) for y in (0.0, 0.6))
    known = Template(id="9", slug="nine", name="Nine", boxes=(there,), source="test")
    found = Template(id="found:1", slug="f", name="F", boxes=(elsewhere,), state="found", source="found")
    documents = open_documents(config.store)
    documents.upsert_templates([known, found.model_copy(update={"merged_into": "9"})])
    documents.upsert_templates([found.model_copy(update={"id": "found:2", "state": "rejected"})])
    meme("merged", template=found.ref())
    meme("rejected", template=found.ref().model_copy(update={"id": "found:2"}))
    assert load_subject(config, "test:merged").places == (there,)
    assert load_subject(config, "test:rejected").places == ()


def test_what_cannot_be_looked_at_is_one_line(config: Config, meme: Callable[..., Meme], tmp_path: Path) -> None:
    page, cut = tmp_path / "page.jpg", tmp_path / "cut.jpg"
    page.write_text("<html>404</html>")
    stream = io.BytesIO()
    Pillow.new("RGB", (90, 90)).save(stream, "JPEG")
    cut.write_bytes(stream.getvalue()[:-20])
    meme("bare", image=None)
    lost = meme("lost").image
    assert lost is not None
    open_blobs(config.store).delete(lost.key)
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
        inspect_subject(Subject("a meme", picture), Failing(), config)
