"""The page of templates: bounded, foreign text escaped."""

import base64
import io
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageOps

from memeloom.catalog.documents import StoredSketch
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Image, Made, Meme, Ocr, OcrBox, Template, TemplateBox, TextStyle
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config, Store
from memeloom.demo.scenes import SCENES
from memeloom.serve.drawing import draw_caption
from memeloom.templates.report.heat import count_texts, draw_heat
from memeloom.templates.report.write import MOST, reporting, write_page
from tests.html_page import Page, check_self_contained

HOSTILE = """</title></svg><script>alert("1")</script>'onload='x'<img/src=x/onerror=y>&"""
WHITE = TextStyle(size=0.06, colour="#ffffff", outline="#000000", capitals=True)
YELLOW = TextStyle(size=0.05, colour="#f2c500", capitals=False)
BOXES = (
    TemplateBox(x=0.05, y=0.02, width=0.9, height=0.2, style=WHITE),
    TemplateBox(x=0.1, y=0.7, width=0.8, height=0.25, angle=8, style=YELLOW),
)


class Catalog:
    """Real stores to fill."""

    def __init__(self, config: Config) -> None:
        self.documents = open_documents(config.store)
        self.blobs = open_blobs(config.store)

    def image(self, picture: Pillow.Image) -> Image:
        stream = io.BytesIO()
        picture.save(stream, "PNG")
        self.blobs.put(stream.getvalue())
        return inspect_image(stream.getvalue(), max_bytes=10**8, max_pixels=10**8)

    def template(self, key: str, state: str = "found", /, **facts: object) -> Template:
        known = {"id": f"found:{key}", "slug": key, "name": f"Named {key}", "state": state, "source": "found"}
        template = Template.model_validate(known | facts)
        self.documents.upsert_templates([template])
        return template

    def meme(self, key: str, template: Template | None, /, distance: int = 30, **facts: object) -> Meme:
        ref = template.ref().model_copy(update={"known": "match", "distance": distance}) if template else None
        meme = Meme.model_validate({"id": f"test:{key}", "source": "test", "template": ref, **facts})
        self.documents.upsert([meme])
        return meme


@pytest.fixture
def config(store_config: Store, tmp_path: Path) -> Config:
    return load_config(environment={}).model_copy(update={"store": store_config, "runs": str(tmp_path / "runs")})


@pytest.fixture
def catalog(config: Config) -> Catalog:
    return Catalog(config)


@pytest.fixture
def written(config: Config, tmp_path: Path) -> Callable[..., Page]:
    """Writes the page and takes it apart."""

    def write(*ids: str) -> Page:
        write_page(config, tmp_path / "page.html", ids or None)
        return Page((tmp_path / "page.html").read_text())

    return write


def pictures(page: Page) -> list[str]:
    """The pictures that a page holds: addresses of themselves."""
    return [str(each.get("src") or each.get("href")) for tag, each in page.tags if tag in ("img", "image")]


def cards(page: Page) -> list[str | None]:
    return [each["data-id"] for each in page.of("article")]


def test_found_templates_have_a_card_and_all_kinds_are_counted(catalog: Catalog, written: Callable[..., Page]) -> None:
    catalog.template("few")
    many = catalog.template("many", boxes=BOXES, first_seen=datetime(2026, 10, 2, tzinfo=UTC))
    catalog.template("named", "known")
    catalog.template("crawled", "known", source="imgflip")
    catalog.template("no", "rejected")
    catalog.template("same", merged_into="found:many")
    catalog.meme("1", many, image=catalog.image(SCENES["night_cat"]()))
    catalog.meme("2", None, image=catalog.image(SCENES["two_doors"]()))
    catalog.documents.put_sketches([StoredSketch("", "test:2", b"x")])
    page = written()
    assert cards(page) == ["found:many", "found:few"], "those with the most memes first"
    facts = page.text.split("\n")
    tiles = {name: facts[facts.index(name) + 1] for name in ("Known", "Found", "Rejected", "Merged", "Unmatched")}
    assert tiles == {"Known": "2", "Found": "2", "Rejected": "1", "Merged": "1", "Unmatched": "1"}
    assert "1 of them found here" in page.text
    assert "1 meme · first seen 2 October 2026" in page.text
    assert [each.get("class") for each in page.of("rect")].count("halo") == 2
    assert "letters 6 % high, capitals" in page.text
    assert [each["title"] for each in page.of("i")] == ["#ffffff", "#000000", "#f2c500"]


def test_the_recovered_picture_is_shown_else_the_meme_that_is_most_like_it(
    catalog: Catalog, written: Callable[..., Page]
) -> None:
    clean = catalog.image(SCENES["owl_lecture"]())
    made = Made(image=clean, method="median", made_from=("a" * 64, "b" * 64))
    catalog.template("clean", clean=made)
    bare = catalog.template("bare")
    catalog.meme("near", bare, image=catalog.image(SCENES["night_cat"]()))
    catalog.meme("far", bare, 55, image=catalog.image(SCENES["cactus_hug"]()))
    page = written()
    assert "recovered from 2 memes" in page.text
    assert "one of its memes; the template's own picture is not known yet" in page.text
    alts = [each["alt"] for each in page.of("img")]
    assert alts == ["test:far", "test:near"], "the least alike first"
    first, second = (each["href"] for each in page.of("image"))
    small = unpacked(str(first))
    assert small.shape[1] / small.shape[0] == pytest.approx(500 / 420, rel=0.02), "the cat, which is nearer"
    assert first != second


def unpacked(address: str) -> NDArray[np.uint8]:
    """The picture that an address holds."""
    data = base64.b64decode(address.partition("base64,")[2])
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED), np.uint8)


def test_the_page_is_bounded_and_says_what_it_leaves_out(catalog: Catalog, written: Callable[..., Page]) -> None:
    for number in range(MOST + 5):
        catalog.template(f"{number:03}")
    template = catalog.template("000")
    for number in range(20):
        catalog.meme(f"{number:02}", template, image=catalog.image(Pillow.new("RGB", (40, 40), (number * 9, 0, 0))))
    catalog.meme("again", template, image=catalog.image(Pillow.new("RGB", (40, 40))))
    page = written()
    assert len(cards(page)) == MOST
    assert f"{MOST} of {MOST + 5} are shown" in page.text
    assert len(page.of("img")) == 12
    assert len({each["src"] for each in page.of("img")}) == 12, "a picture that was posted twice is shown once"


def test_pictures_are_embedded_small_and_those_that_are_gone_do_no_harm(
    catalog: Catalog, written: Callable[..., Page], tmp_path: Path
) -> None:
    noise = Pillow.fromarray(np.random.default_rng(1).integers(0, 255, (1200, 1600, 3), np.uint8))
    template = catalog.template("a", image=catalog.image(noise))
    gone = catalog.image(SCENES["night_cat"]())
    catalog.blobs.delete(gone.key)
    catalog.meme("gone", template, image=gone)
    catalog.meme("broken", template, image=gone.model_copy(update={"key": catalog.blobs.put(b"<html>")}))
    catalog.meme("large", template, image=catalog.image(noise))
    page = written()
    assert page.text.count("no picture") == 2
    assert len(pictures(page)) == 2
    assert (tmp_path / "page.html").stat().st_size < 120_000, "a picture of six megabytes is embedded small"
    assert all(source.startswith("data:image/") for source in pictures(page))


def test_hostile_texts_stay_text(catalog: Catalog, written: Callable[..., Page], tmp_path: Path) -> None:
    bad = catalog.template(HOSTILE, alt_names=(HOSTILE,), name=HOSTILE, merged_into=None)
    catalog.template("b", "known", id=f"{HOSTILE}2", name=HOSTILE, source="imgflip")
    box = OcrBox(text=HOSTILE, x=0, y=0, width=1, height=1, confidence=90)
    ocr = Ocr(text=HOSTILE, boxes=(box,), confidence=90, engine="fake")
    address = f'https://site.example/"{HOSTILE}'
    catalog.meme(HOSTILE.replace(" ", ""), bad, ocr=ocr, page_url=address, image=catalog.image(SCENES["two_doors"]()))
    for ids in ((), (bad.id,)):
        page = written(*ids)
        check_self_contained((tmp_path / "page.html").read_text(), links=[address], scripts=1)
        assert len(page.of("a")) == 1
        assert page.of("img")[0]["alt"] == HOSTILE
        assert cards(page) == [bad.id]
        assert page.text.count(HOSTILE) >= 3


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//site.example", "http://[", None])
def test_only_addresses_of_the_web_are_links(
    catalog: Catalog, written: Callable[..., Page], address: str | None
) -> None:
    catalog.meme("1", catalog.template("a"), page_url=address, image=catalog.image(SCENES["night_cat"]()))
    page = written()
    assert page.of("a") == []
    assert len(page.of("img")) == 1


def test_an_empty_catalog_has_a_page_and_an_unknown_template_is_one_clear_error(written: Callable[..., Page]) -> None:
    assert "There is nothing to decide." in written().text
    with pytest.raises(MemeloomError, match="no template 'found:x' in the catalog"):
        written("found:x")


def test_the_page_of_one_template_shows_details(catalog: Catalog, written: Callable[..., Page]) -> None:
    scene = SCENES["detective_duck"]()
    template = catalog.template(
        "duck", "known", boxes=BOXES, image=catalog.image(scene.resize((260, 200))),
        clean=Made(image=catalog.image(scene), method="median", made_from=("a" * 64,)),
    )  # fmt: skip
    for number, source in enumerate(("reddit", "reddit", "imgflip")):
        image = catalog.image(meme_of(scene, f"TEXT {number}"))
        when = datetime(2026, 11, 1 + number, tzinfo=UTC)
        catalog.meme(f"{number}", template, source=source, image=image, ocr=read(f"TEXT {number}"), posted_at=when)
    page = written(template.id)
    assert "from its site" in page.text
    assert "recovered from 1 meme" in page.text
    assert "where 3 memes have text" in page.text
    assert "3 recognised, 0 named by their pages; posted 1 November 2026 to 3 November 2026." in page.text
    assert "reddit\n2\nimgflip\n1\n" in page.text
    assert "60 to 70 %\n3\n" in page.text


def meme_of(scene: Pillow.Image, text: str) -> Pillow.Image:
    return draw_caption(scene, (TemplateBox(x=0.05, y=0.0, width=0.9, height=0.2),), [text])


def read(text: str, x: float = 0.1) -> Ocr:
    box = OcrBox(text=text, x=x, y=0.0, width=0.4, height=0.2, confidence=95)
    return Ocr(text=text, boxes=(box,), confidence=95, engine="fake")


def test_texts_are_counted_at_their_position_in_the_template() -> None:
    """A mirrored meme, and one whose left quarter is cut off, have their texts where the others have them."""
    scene = SCENES["rocket_and_snail"]()
    meme = meme_of(scene, "HI")
    straight = (pixels(meme), (OcrBox(text="HI", x=0.3, y=0, width=0.2, height=0.2, confidence=9),))
    mirrored = (pixels(ImageOps.mirror(meme)), (OcrBox(text="IH", x=0.5, y=0, width=0.2, height=0.2, confidence=9),))
    cut = meme.crop((meme.width // 4, 0, meme.width, meme.height))
    cropped = (pixels(cut), (OcrBox(text="HI", x=0.05 / 0.75, y=0, width=0.2 / 0.75, height=0.2, confidence=9),))
    stranger = (pixels(SCENES["night_cat"]()), straight[1])
    counts, placed = count_texts(pixels(scene), [straight, mirrored, cropped, stranger])
    assert placed == 3
    height, width = counts.shape
    inside = counts[int(height * 0.05) : int(height * 0.15), int(width * 0.33) : int(width * 0.47)]
    outside = counts[:, [*range(int(width * 0.25)), *range(int(width * 0.55), width)]]
    assert inside.min() == 3
    assert outside.max() == 0
    layer = unpacked(draw_heat(counts, placed))
    assert layer.shape == (height, width, 4)
    assert (layer[:, :, 3] > 0).sum() == (counts > 0).sum()


def pixels(picture: Pillow.Image) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.asarray(picture.convert("RGB"))[:, :, ::-1])


def only_page(config: Config) -> str:
    (page,) = Path(config.runs).glob("templates-*.html")
    return page.read_text()


@pytest.mark.parametrize(
    ("error", "how"),
    [(KeyboardInterrupt(), "interrupted"), (MemeloomError("the disk is full"), "failed: the disk is full")],
)
def test_an_interrupted_run_has_a_page_and_raises_its_error(
    config: Config, catalog: Catalog, error: BaseException, how: str
) -> None:
    catalog.template("a")
    outcomes: Counter[str] = Counter()

    def run() -> None:
        with reporting(config, outcomes):
            outcomes["matched"] += 7
            outcomes["failed/truncated"] += 2
            raise error

    with pytest.raises(type(error)):
        run()
    page = Page(only_page(config))
    assert how in page.text
    assert "matched\n7\n" in page.text
    assert "truncated\n2\n" in page.text
    assert cards(page) == ["found:a"]


def test_a_run_without_work_has_no_page(config: Config) -> None:
    with reporting(config, Counter()) as page:
        pass
    assert not page.exists()
    with reporting(config, Counter(matched=1)) as page:
        pass
    assert "finished" in Page(page.read_text()).text


def test_a_store_that_is_gone_does_not_hide_the_first_error(config: Config, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = config.store.model_copy(update={"documents": f"sqlite:///{tmp_path}/file/catalog.db"})
    gone = config.model_copy(update={"store": broken})

    def run() -> None:
        with reporting(gone, Counter(matched=1)):
            raise MemeloomError("the first error")

    with pytest.raises(MemeloomError, match="the first error"):
        run()
