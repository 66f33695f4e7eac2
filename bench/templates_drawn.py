"""Drawn memes with known templates, degraded as on the web.

    known = load_blanks(Path("DATA"))
    for meme in drawn(Path("DATA"), "report", 100):
        ...  # meme.data, meme.blank.name, meme.tags, meme.affine

DATA holds `imgflip_captions.jsonl.gz`, `templates/` and `real_memes/`. Real captions are drawn into the templates' text
boxes; then pictures are cropped, framed, mirrored, marked, scaled and compressed. Templates are split in half by hash
of their name: "tune" for choosing settings, "report" for the tables. Equal arguments give equal bytes. `python -m
bench.templates_drawn --data DATA --sheet FILE` draws a contact sheet.
"""

import argparse
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from bench.templates_alike import ALIKE, KNOWN_MEMES, NO_PICTURE
from memeloom.catalog.images import Pixels
from memeloom.catalog.records import TemplateBox
from memeloom.demo import scenes
from memeloom.demo.corpus_folder import FolderCorpus
from memeloom.serve.drawing import DEFAULT_BOXES, draw_caption, flatten

Half: TypeAlias = Literal["tune", "report"]
Colours: TypeAlias = NDArray[np.uint8]

_LARGEST = 1000  # longer side in pixels of a template to draw on
_LARGEST_SAVED = 1600
_SCENES = tuple(
    function for name, function in sorted(vars(scenes).items())
    if getattr(function, "__module__", "") == scenes.__name__ and not name.startswith("_")
)  # fmt: skip


@dataclass(frozen=True)
class Blank:
    """A template. name: of its file; group: the first template with the same picture; boxes: for its texts."""

    name: str
    group: str
    path: Path
    boxes: tuple[TemplateBox, ...]

    @property
    def half(self) -> Half:
        """Return the half; equal for templates with the same picture."""
        return "report" if _digest(self.group) % 2 else "tune"

    @property
    def left_out(self) -> bool:
        """Return True for the fifth that the index may lack, to measure false positives."""
        return _digest(f"left out {self.group}") % 5 == 0

    @cached_property
    def picture(self) -> Image.Image:
        """Return the picture as RGB, at most 1,000 pixels on a side."""
        with Image.open(self.path) as picture:
            flat = flatten(picture)
        flat.thumbnail((_LARGEST, _LARGEST))
        return flat


@dataclass(frozen=True)
class Drawn:
    """A meme.

    data: a JPEG; tags: how it was changed; scale, quality: of the saved picture.
    mirrored, affine: as in `templates.placing.Placing`: (2, 3), maps (x, y) of the (mirrored) meme to the template,
    both in fractions of width and height.
    other: the template of the other panel, if any.
    """

    data: bytes
    blank: Blank
    texts: tuple[str, ...]
    tags: tuple[str, ...]
    scale: float
    quality: int
    mirrored: bool
    affine: NDArray[np.float64]
    other: Blank | None = None


def load_blanks(data: Path) -> list[Blank]:
    """Return all templates of the folder with a picture, by name."""
    corpus = _corpus(data)
    boxes = {f"imgflip/{blank.slug}.jpg": blank.boxes for blank in corpus.blanks}
    groups = {name: group[0] for group in ALIKE for name in group}
    rows: list[dict[str, Any]] = json.loads((data / "templates" / "manifest.json").read_text(encoding="utf-8"))
    return [
        Blank(row["file"], groups.get(row["file"], row["file"]), path, boxes.get(row["file"]) or _anchored(row))
        for row in sorted(rows, key=lambda row: str(row["file"]))
        if row["file"] not in NO_PICTURE and (path := data / "templates" / row["file"]).is_file()
    ]


def drawn(
    data: Path, half: Half, count: int, seed: int = 0, *,
    blanks: Sequence[Blank] | None = None, harmed: bool = True,
) -> Iterator[Drawn]:  # fmt: skip
    """Draw `count` memes on the templates of `half` in turn; a smaller count gives a prefix of a larger.

    blanks: templates to use instead. harmed: False for memes that are only compressed.
    """
    turns = [blank for blank in load_blanks(data) if blank.half == half] if blanks is None else list(blanks)
    for number in range(count):
        chance = Random(f"{seed} {half} {number}")
        blank = turns[number % len(turns)]
        texts = _caption(data, blank, chance)
        yield harm(draw_caption(blank.picture, blank.boxes, texts), blank, texts, chance, harmed=harmed)


def harm(picture: Image.Image, blank: Blank, texts: Sequence[str], chance: Random, *, harmed: bool = True) -> Drawn:
    """Crop by up to 15 % or frame by up to 15 %, mirror, mark, and scale by 0.3 to 2."""
    frame = _Frame(np.asarray(picture, np.uint8)[:, :, ::-1])
    scale, quality = 1.0, chance.randint(75, 92)
    if harmed:
        kind = chance.random()
        if kind < 0.3:
            frame.crop(chance)
        elif kind < 0.6:
            frame.add_border(chance)
        if chance.random() < 0.2:
            frame.mirror()
        if chance.random() < 0.2:
            frame.add_mark(chance)
        scale = float(np.exp(chance.uniform(np.log(0.3), np.log(2))))
        quality = chance.randint(40, 95)
    data, scale = _save(frame.pixels, scale, quality)
    return Drawn(
        data, blank, tuple(texts), tuple(frame.tags) or ("plain",), scale, quality, frame.mirrored, frame.affine
    )


def stacked(data: Path, half: Half, count: int, seed: int = 0) -> Iterator[Drawn]:
    """Draw memes of which the template is one part: under a text strip, or one of two panels.

    `Drawn.affine` gives its place; the other panel is a template of the same half.
    """
    turns = [blank for blank in load_blanks(data) if blank.half == half]
    for number in range(count):
        chance = Random(f"{seed} stacked {half} {number}")
        blank = turns[number % len(turns)]
        texts = _caption(data, blank, chance)
        kind, other = chance.choice(("strip", "column", "row")), None
        bare = blank.picture if kind == "strip" else draw_caption(blank.picture, blank.boxes, texts)
        frame = _Frame(np.asarray(bare, np.uint8)[:, :, ::-1])
        if kind == "strip":
            frame.add_strip(texts)
        else:
            other = chance.choice([other for other in turns if other.group != blank.group])
            shown = draw_caption(other.picture, other.boxes, _caption(data, other, chance))
            frame.add_panel(np.asarray(shown, np.uint8)[:, :, ::-1], row=kind == "row", first=chance.random() < 0.5)
        quality = chance.randint(40, 95)
        saved, scale = _save(frame.pixels, float(np.exp(chance.uniform(np.log(0.5), np.log(1.5)))), quality)
        yield Drawn(saved, blank, tuple(texts), (kind,), scale, quality, False, frame.affine, other)


def strangers(data: Path, half: Half, count: int, seed: int = 0) -> Iterator[Pixels]:
    """Yield grey pictures to fill the index: parts of real memes of that half and of scenes, rotated and flipped."""
    memes = [path for path in real_memes(data) if (_digest(path.name) % 2 == 1) == (half == "report")]
    sources = [*_SCENES, *memes]
    chance = Random(f"{seed} strangers {half}")
    made = 0
    while made < count:
        source = sources[chance.randrange(len(sources))]
        colours = np.asarray(source(), np.uint8) if callable(source) else cv2.imread(str(source))
        grey = cv2.cvtColor(np.asarray(colours, np.uint8), cv2.COLOR_BGR2GRAY)
        for _ in range(min(10, count - made)):
            height, width = (int(side * chance.uniform(0.4, 0.9)) for side in grey.shape)
            top, left = chance.randrange(grey.shape[0] - height + 1), chance.randrange(grey.shape[1] - width + 1)
            part = np.rot90(grey[top : top + height, left : left + width], chance.randrange(4))
            yield np.ascontiguousarray(part[:, ::-1] if chance.random() < 0.5 else part, np.uint8)
            made += 1


def real_memes(data: Path) -> list[Path]:
    """Return real memes that are on none of the templates."""
    paths = sorted((data / "real_memes").rglob("*.jpg"))
    return [path for path in paths if path.name not in KNOWN_MEMES]


class _Frame:
    """A picture in progress. `pixels` are BGR; left, top, wide, tall: the template's place in them."""

    def __init__(self, pixels: Colours) -> None:
        self.pixels = pixels
        self.left = self.top = 0
        self.tall, self.wide = pixels.shape[:2]
        self.mirrored = False
        self.tags: list[str] = []

    @property
    def affine(self) -> NDArray[np.float64]:
        height, width = self.pixels.shape[:2]
        return np.array(
            [[width / self.wide, 0, -self.left / self.wide], [0, height / self.tall, -self.top / self.tall]]
        )

    def crop(self, chance: Random) -> None:
        height, width = self.pixels.shape[:2]
        cut_x, cut_y = width * chance.uniform(0, 0.15), height * chance.uniform(0, 0.15)
        left, top = int(cut_x * chance.random()), int(cut_y * chance.random())
        self.pixels = self.pixels[top : top + height - int(cut_y), left : left + width - int(cut_x)]
        self.left, self.top = self.left - left, self.top - top
        self.tags.append("crop")

    def add_border(self, chance: Random) -> None:
        """Add a border of one colour: equal on all sides, uneven, or only above and below or at the sides."""
        height, width = self.pixels.shape[:2]
        top, bottom, left, right = (int(chance.uniform(0, 0.15) * side) for side in (height, height, width, width))
        if chance.random() < 0.5:
            bottom, right = top, left
        kind = chance.random()
        if kind < 0.3:
            left = right = 0
        elif kind < 0.5:
            top = bottom = 0
        shade, any_colour = (chance.randrange(256),) * 3, tuple(chance.randrange(256) for _ in range(3))
        colour = chance.choice(((255, 255, 255), (0, 0, 0), shade, any_colour))
        self._pad(top, bottom, left, right, colour)
        self.tags.append("border")

    def mirror(self) -> None:
        self.pixels = self.pixels[:, ::-1]
        self.mirrored = True
        self.tags.append("mirror")

    def add_mark(self, chance: Random) -> None:
        height, width = self.pixels.shape[:2]
        tall = max(14, height // 22)
        if chance.random() < 0.6:
            # Bars are added at the same end whether the picture is mirrored or not.
            self._pad(0, tall, 0, 0, (chance.choice((0, 255, 40)),) * 3)
            place, text = (5, height + tall - tall // 4), "memecenter.com  made with love"
        else:
            place, text = (chance.choice((5, max(5, width - 6 * tall))), height - tall // 3), "imgflip.com"
        self.pixels = np.ascontiguousarray(self.pixels)
        for thickness, shade in ((3, 40), (1, 200)):
            cv2.putText(self.pixels, text, place, cv2.FONT_HERSHEY_SIMPLEX, tall / 32, (shade,) * 3, thickness)
        self.tags.append("watermark")

    def add_strip(self, texts: Sequence[str]) -> None:
        height, width = self.pixels.shape[:2]
        strip = Image.new("RGB", (width, max(30, height // 4)), "black")
        box = TemplateBox(x=0.02, y=0.1, width=0.96, height=0.8)
        letters = 255 - np.asarray(draw_caption(strip, (box,), [" ".join(texts)]), np.uint8)
        self.pixels = np.vstack([letters, self.pixels])
        self.top += letters.shape[0]

    def add_panel(self, other: Colours, *, row: bool, first: bool) -> None:
        """Add another picture below or beside, scaled to fit; `first`: the template comes first."""
        height, width = self.pixels.shape[:2]
        factor = height / other.shape[0] if row else width / other.shape[1]
        size = (
            (max(1, round(other.shape[1] * factor)), height) if row else (width, max(1, round(other.shape[0] * factor)))
        )
        other = np.asarray(cv2.resize(other, size, interpolation=cv2.INTER_AREA), np.uint8)
        pair = [self.pixels, other] if first else [other, self.pixels]
        self.pixels = np.hstack(pair) if row else np.vstack(pair)
        if not first:
            self.left, self.top = self.left + (size[0] if row else 0), self.top + (0 if row else size[1])

    def _pad(self, top: int, bottom: int, left: int, right: int, colour: Sequence[int]) -> None:
        padded = cv2.copyMakeBorder(self.pixels, top, bottom, left, right, cv2.BORDER_CONSTANT, value=list(colour))
        self.pixels = np.asarray(padded, np.uint8)
        self.left, self.top = self.left + left, self.top + top


def _save(pixels: Colours, scale: float, quality: int) -> tuple[bytes, float]:
    scale = min(scale, _LARGEST_SAVED / max(pixels.shape[:2]))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    scaled = cv2.resize(np.ascontiguousarray(pixels), None, fx=scale, fy=scale, interpolation=how)
    return cv2.imencode(".jpg", scaled, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes(), scale


def _caption(data: Path, blank: Blank, chance: Random) -> list[str]:
    """Return a caption of the template, or of another if it has none. Most are in capitals."""
    corpus = _corpus(data)
    own = next((each for each in corpus.blanks if f"imgflip/{each.slug}.jpg" == blank.name), None)
    each = own or corpus.blanks[chance.randrange(len(corpus.blanks))]
    texts = list(corpus.post(each, chance.randrange(corpus.count(each))).boxes)[: len(blank.boxes)]
    return [text.upper() for text in texts] if chance.random() < 0.8 else texts


@lru_cache(maxsize=2)
def _corpus(data: Path) -> FolderCorpus:
    return FolderCorpus(data, None)


def _anchored(row: Mapping[str, Any]) -> tuple[TemplateBox, ...]:
    boxes = []
    for box in row.get("text_boxes_norm") or ():
        x, y = max(0.0, box["anchor_x"]), max(0.0, box["anchor_y"])
        wide, tall = min(box["scale_x"], 1 - x), min(box["scale_y"], 1 - y)
        if wide > 0 and tall > 0:
            boxes.append(TemplateBox(x=x, y=y, width=wide, height=tall, angle=-box["angle"]))
    return tuple(boxes) or DEFAULT_BOXES


def _digest(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


def contact_sheet(memes: Sequence[Drawn], columns: int = 6, cell: int = 300) -> Image.Image:
    """Return the memes in rows, with their tags."""
    sheet = Image.new("RGB", (columns * cell, -(-len(memes) // columns) * cell), (90, 90, 90))
    pen = ImageDraw.Draw(sheet)
    for number, meme in enumerate(memes):
        picture = Image.open(io.BytesIO(meme.data))
        picture.thumbnail((cell - 6, cell - 20))
        x, y = number % columns * cell, number // columns * cell
        sheet.paste(picture, (x, y))
        pen.text((x, y + cell - 18), f"{', '.join(meme.tags)} x{meme.scale:.2f} q{meme.quality}", "white")
    return sheet


def main() -> None:
    """Draw a contact sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds captions and templates/")
    parser.add_argument("--sheet", type=Path, required=True, help="where to write the contact sheet")
    parser.add_argument("--half", choices=("tune", "report"), default="tune")
    parser.add_argument("--kind", choices=("drawn", "stacked"), default="drawn")
    parser.add_argument("--count", type=int, default=36)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw = drawn if arguments.kind == "drawn" else stacked
    memes = draw(arguments.data, arguments.half, arguments.count, arguments.seed)
    contact_sheet(list(memes)).save(arguments.sheet)


if __name__ == "__main__":
    main()
