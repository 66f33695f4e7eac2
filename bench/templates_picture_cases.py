"""Memes whose picture without words is known: captions drawn on templates, and the same picture left alone.

    for template in clean_templates(Path("DATA"), "report", 40):
        memes = template.memes(50, seed=0)

Templates are split in half by the hash of their file's name: "tune" is for choosing settings, "report" for the table.
Each meme is drawn on its own copy, resized, cropped a little, framed or mirrored now and then, and saved as a JPEG.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

import cv2
import numpy as np
from PIL import Image

from bench.ocr_letters import Look, can_draw, draw, find_fonts, fit
from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox, TemplateBox
from memeloom.demo.corpus import Blank
from memeloom.demo.corpus_folder import FolderCorpus

Half: TypeAlias = Literal["tune", "report"]

_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
_COLOURS = ((255, 235, 40), (255, 60, 50), (90, 230, 90), (80, 200, 255), (255, 150, 30), (255, 120, 220))
_SIDES = (360, 440, 500, 600, 700)  # square roots of the area of what is saved
_LEAST_LETTER = 12  # pixels an em
_LONGEST = 160  # characters of a caption
_INK = 24  # of 255: a pixel differing less shows no text


@dataclass(frozen=True)
class PictureCase:
    """One meme: a JPEG; its pixels as they were without words, BGR; and where its texts stand.

    boxes: as an OCR engine tells them: around the letters, a little too tight or too wide.
    tags: what was done to it.
    """

    data: bytes
    clean: Pixels
    boxes: tuple[OcrBox, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class CleanTemplate:
    """A template and what draws memes on it. picture: BGR."""

    slug: str
    picture: Pixels
    boxes: tuple[TemplateBox, ...]
    corpus: FolderCorpus
    blank: Blank

    def memes(self, count: int, seed: int, *, plain: bool = False) -> list[PictureCase]:
        """`count` memes; a smaller count gives the beginning of a larger.

        plain: white letters with a black outline only, as most memes of one template have.
        """
        found: list[PictureCase] = []
        for turn in range(40 * count):
            if len(found) == count:
                break
            chance = Random(f"{seed} {self.slug} {turn}")
            texts = self.corpus.post(self.blank, chance.randrange(self.corpus.count(self.blank))).boxes
            case = _draw_case(self, texts, chance, plain=plain)
            if case:
                found.append(case)
        return found


def clean_templates(data: Path, half: Half, count: int) -> Iterator[CleanTemplate]:
    """Up to `count` templates of `half` that have captions of their own, in an order by hash."""
    rows = json.loads((data / "templates" / "manifest.json").read_text(encoding="utf-8"))
    files = {row["imgflip_slug"]: row["file"] for row in rows if row.get("imgflip_id")}
    corpus = FolderCorpus(data, None)
    digests = {blank.slug: hashlib.sha256(files[blank.slug].encode()).digest() for blank in corpus.blanks}
    chosen = [blank for blank in corpus.blanks if digests[blank.slug][-1] % 2 == (half == "report")]
    for blank in sorted(chosen, key=lambda blank: digests[blank.slug])[:count]:
        picture = np.asarray(corpus.picture(blank))[:, :, ::-1]
        yield CleanTemplate(blank.slug, np.ascontiguousarray(picture), blank.boxes, corpus, blank)


def _draw_case(template: CleanTemplate, texts: Sequence[str], chance: Random, *, plain: bool) -> PictureCase | None:
    """None if the caption is not fit to be drawn."""
    texts = [" ".join(text.split()) for text in texts]
    if not 4 <= len("".join(texts)) <= _LONGEST or len(texts) > len(template.boxes):
        return None
    style = "outlined" if plain else chance.choices(("outlined", "coloured", "dark", "strip"), (65, 10, 10, 15))[0]
    fonts = find_fonts_once()
    kind = "condensed" if plain else chance.choices(list(fonts), [70 if k == "condensed" else 10 for k in fonts])[0]
    font = fonts[kind][chance.choice(list(fonts[kind]))]
    if chance.random() < (0.9 if kind == "condensed" else 0.3):
        texts = [text.upper() for text in texts]
    if not all(can_draw(text, font) for text in texts):
        return None
    tags = [style]
    picture = template.picture
    if chance.random() < 0.1:
        picture, tags = picture[:, ::-1], [*tags, "mirrored"]
    side = chance.choice(_SIDES)
    factor = side / (picture.shape[0] * picture.shape[1]) ** 0.5
    size = round(picture.shape[1] * factor), round(picture.shape[0] * factor)
    flags = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    clean = Image.fromarray(np.ascontiguousarray(cv2.resize(picture, size, interpolation=flags)[:, :, ::-1]))
    drawn = (
        _write_strip(clean, texts, font, chance)
        if style == "strip"
        else _write(clean, template, texts, font, style, chance)
    )
    if drawn is None:
        return None
    clean, layers = drawn
    return _save(clean, layers, chance, tags)


def find_fonts_once() -> dict[str, dict[str, Path]]:
    """This machine's fonts for Latin letters."""
    if not _fonts:
        _fonts.update({kind: fonts for kind, fonts in find_fonts().items() if kind != "devanagari"})
    return _fonts


_fonts: dict[str, dict[str, Path]] = {}
# The picture without words, and for each text the picture after it was written, its text and letters' height.
Layers: TypeAlias = list[tuple[Image.Image, str]]


def _write(
    clean: Image.Image, template: CleanTemplate, texts: Sequence[str], font: Path, style: str, chance: Random
) -> tuple[Image.Image, Layers] | None:
    canvas, layers = clean.copy(), []
    side = (clean.width * clean.height) ** 0.5
    look = Look(chance.choice(_COLOURS) if style == "coloured" else _WHITE, _BLACK, chance.uniform(0.04, 0.1))
    if style == "dark":
        look = Look(_BLACK, _WHITE, chance.choice((0.0, 0.06)))
    for box, text in zip(template.boxes, texts, strict=False):
        if not text:
            continue
        room = round(box.width * clean.width), round(box.height * clean.height)
        fitted = fit(text, font, look, room, (_LEAST_LETTER, 0.13 * side))
        if fitted is None:
            return None
        draw(canvas, box, fitted, look)
        layers.append((canvas.copy(), text))
    return (clean, layers) if layers else None


def _write_strip(
    clean: Image.Image, texts: Sequence[str], font: Path, chance: Random
) -> tuple[Image.Image, Layers] | None:
    """The caption on white above the picture."""
    text = " ".join(text for text in texts if text)
    tall = round(clean.height * chance.uniform(0.15, 0.3))
    whole = Image.new("RGB", (clean.width, clean.height + tall), _WHITE)
    whole.paste(clean, (0, tall))
    box = TemplateBox(x=0.03, y=0.04 * tall / whole.height, width=0.94, height=0.92 * tall / whole.height)
    room = round(box.width * whole.width), round(box.height * whole.height)
    fitted = fit(text, font, Look(_BLACK), room, (_LEAST_LETTER, 0.09 * whole.width))
    if fitted is None:
        return None
    canvas = whole.copy()
    draw(canvas, box, fitted, Look((15, 15, 15)))
    return whole, [(canvas, text)]


def _save(clean: Image.Image, layers: Layers, chance: Random, tags: list[str]) -> PictureCase | None:
    before, after = _pixels(clean), _pixels(layers[-1][0])
    boxes, last = [], before
    for canvas, text in layers:
        now = _pixels(canvas)
        box = _ink_box(last, now, text, chance)
        boxes += [box] if box else []
        last = now
    height, width = before.shape[:2]
    left = top = 0
    if chance.random() < 0.2:
        cuts = [chance.uniform(0, 0.06) for _ in range(4)]
        left, top = round(cuts[0] * width), round(cuts[1] * height)
        area = slice(top, height - round(cuts[2] * height)), slice(left, width - round(cuts[3] * width))
        before, after, tags = before[area], after[area], [*tags, "cropped"]
    if chance.random() < 0.15:
        wide, tall = round(chance.uniform(0.01, 0.1) * width), round(chance.uniform(0.01, 0.1) * height)
        colour = chance.choice((_WHITE, _BLACK, (60, 60, 60)))
        edges = (tall, tall, wide, wide)
        before, after = (
            np.asarray(cv2.copyMakeBorder(each, *edges, cv2.BORDER_CONSTANT, value=colour), np.uint8)
            for each in (before, after)
        )
        left, top, tags = left - wide, top - tall, [*tags, "framed"]
    moved = [_moved(box, left, top, (width, height), before.shape[1::-1]) for box in boxes]
    quality = chance.randint(50, 95)
    data = cv2.imencode(".jpg", after, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
    return PictureCase(data, np.ascontiguousarray(before), tuple(moved), (*tags, f"q{quality // 10}x"))


def _pixels(image: Image.Image) -> Pixels:
    return np.ascontiguousarray(np.asarray(image)[:, :, ::-1])


def text_area(before: Pixels, after: Pixels) -> Pixels:
    """Where words changed a picture: 255 there, (height, width)."""
    return np.asarray(255 * (cv2.absdiff(before, after).max(axis=2) > _INK), np.uint8)


def _ink_box(before: Pixels, after: Pixels, text: str, chance: Random) -> OcrBox | None:
    """The box around what a text changed, as an engine would see it."""
    ink = text_area(before, after)
    height, width = ink.shape
    x, y, wide, tall = cv2.boundingRect(ink)
    if not wide or not tall:
        return None
    slack = [chance.uniform(-0.012, 0.015) * min(width, height) for _ in range(4)]
    left, top = max(0.0, x - slack[0]), max(0.0, y - slack[1])
    right, bottom = min(width, x + wide + slack[2]), min(height, y + tall + slack[3])
    return OcrBox(
        text=text, x=left / width, y=top / height, width=(right - left) / width, height=(bottom - top) / height,
        confidence=90.0,
    )  # fmt: skip


def _moved(box: OcrBox, left: int, top: int, old: tuple[int, int], new: tuple[int, ...]) -> OcrBox:
    """`box` in a picture that begins at (left, top) of the old one; what is cut off is not read."""
    x1, y1 = max(0.0, box.x * old[0] - left), max(0.0, box.y * old[1] - top)
    x2 = min(float(new[0]), (box.x + box.width) * old[0] - left)
    y2 = min(float(new[1]), (box.y + box.height) * old[1] - top)
    return box.model_copy(
        update={"x": x1 / new[0], "y": y1 / new[1], "width": (x2 - x1) / new[0], "height": (y2 - y1) / new[1]}
    )
