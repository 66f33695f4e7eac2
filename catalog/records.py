"""The records that all rooms share: a meme, its template, its picture and what OCR read."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, Self, TypeAlias, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

SCHEMA_VERSION: Final = 1

# What every store can hold.
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
# The limit makes pydantic inspect the text and refuse lone surrogates, which no store can keep.
Text = Annotated[str, Field(max_length=100_000)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# ``#rrggbb``.
Colour = Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")]
Align: TypeAlias = Literal["left", "center", "right"]
# Who stated a template's text boxes, the strongest last.
BoxesFrom: TypeAlias = Literal["memes", "site", "import", "person"]
_BOXES_FROM: Final = ("memes", "site", "import", "person")
# Formats of which the first frame is stored.
Container: TypeAlias = Literal["gif", "webp", "mp4", "webm", "avif", "tiff"]
# In order of precedence, the strongest last.
_STATES: Final = ("found", "known", "rejected")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Record(BaseModel):
    """A frozen record without extra fields or non-finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Image(Record):
    """A stored picture.

    Attributes:
        key: sha256 of the original bytes, their key in the blob store.
        width, height: pixels, after EXIF rotation.
        format: ``jpeg``, ``png``, ``gif``, ``webp`` …, by the bytes.
        phash64, phash256: perceptual hashes in hex, compared by `hamming`.
        frames: number of frames of a moving picture that is stored as it is, by an import; None for one.
        frame_of: the format of the moving picture, AVIF or TIFF whose first frame this is (a PNG); None for others.
    """

    key: Sha256
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    format: Text
    bytes: Annotated[int, Field(gt=0)]
    phash64: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    phash256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    frames: Annotated[int, Field(gt=1)] | None = None
    frame_of: Container | None = None


class DerivedImage(Record):
    """A picture computed from others.

    Attributes:
        method: ``inpaint`` (text filled from its surroundings), ``template`` (filled from the clean template) or
            ``median`` (a template's picture, from many memes).
        made_from: keys of the source pictures, in order.
        mask: key of a PNG of the same size, white where text was; not for ``median``.
        read: number of memes whose texts were known when it was made; None in records of earlier versions.
    """

    image: Image
    method: Literal["inpaint", "template", "median"]
    made_from: tuple[Sha256, ...]
    mask: Sha256 | None = None
    read: Annotated[int, Field(ge=0)] | None = None

    @property
    def keys(self) -> tuple[Sha256, ...]:
        """Keys of the picture and its mask."""
        return (self.image.key,) if self.mask is None else (self.image.key, self.mask)


class TemplateRef(Record):
    """The template that a meme is made on.

    Attributes:
        id: the source's own id (Imgflip's number), else its slug.
        known: ``page`` if the source names it, ``match`` if the picture was recognised.
        distance: for a match, per cent of the visible template that the picture does not show.
    """

    id: Text
    slug: Text
    name: Text
    known: Literal["page", "match"] = "page"
    distance: int | None = None


# x and y of the upper left corner, width and height, in fractions of the picture.
Place: TypeAlias = tuple[float, float, float, float]


class OcrBox(Record):
    """A text box that OCR read; its place is in fractions of the picture.

    lines: places of the lines of its text; readings of older versions have none.
    """

    text: Text
    x: float
    y: float
    width: float
    height: float
    confidence: float
    lines: tuple[Place, ...] = ()


# How a picture has to be turned to be read: degrees clockwise, or mirrored.
Turn: TypeAlias = Literal["90", "180", "270", "mirrored"]


class Ocr(Record):
    """What an OCR engine read.

    Attributes:
        text: all boxes, one a line, in reading order; empty if nothing was kept.
        confidence: mean over the words kept, 0-100.
        dropped: why the text is not a caption (``no text``, ``too much text`` …); None if it is one.
        turned: how the picture was turned to be read; None is not at all. Boxes lie in the picture as it is stored.
    """

    text: Text
    boxes: tuple[OcrBox, ...] = ()
    confidence: float
    engine: Text
    dropped: Text | None = None
    turned: Turn | None = None


class Meme(Record):
    """One post of one meme.

    Attributes:
        id: ``<source>:<id at the source>``, the upsert key; further pictures of a page have ``<id>-2``, ``<id>-3`` …
        boxes: the caption that the page states, one text a box in the template's order; an empty box is ``""``.
        score, views: as counted by the site when fetched.
        author: salted hash of the author's name, only if a setting asks for it.
        clean: the picture without words.
        fetched_at: when these facts last changed; None if the source (an old dump) does not say.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+:[^\s]+$", max_length=512)]
    source: Text
    page_url: Text | None = None
    image_url: Text | None = None
    image: Image | None = None
    template: TemplateRef | None = None
    boxes: tuple[Text, ...] = ()
    title: Text | None = None
    score: Int64 | None = None
    views: Int64 | None = None
    posted_at: AwareDatetime | None = None
    over_18: bool | None = None
    author: Text | None = None
    ocr: Ocr | None = None
    clean: DerivedImage | None = None
    fetched_at: AwareDatetime | None = None
    schema_version: Literal[1] = SCHEMA_VERSION

    @property
    def blobs(self) -> tuple[Sha256, ...]:
        """Keys of the blobs that the record refers to, each once."""
        keys = (*((self.image.key,) if self.image else ()), *(self.clean.keys if self.clean else ()))
        return tuple(dict.fromkeys(keys))

    @property
    def caption(self) -> tuple[str, ...]:
        """The texts of the boxes that the page states, else those that OCR read; empty if there are none."""
        if self.boxes:
            return self.boxes
        if self.ocr is not None and self.ocr.dropped is None:
            return tuple(box.text for box in self.ocr.boxes)
        return ()

    def merged(self, newer: Self) -> Self:
        """Return this record updated with the facts of `newer`.

        A missing fact (None, no boxes) erases none. Facts fetched earlier, or at an unknown time, only fill gaps.
        A match does not replace a template that a page names. Merging the same facts twice changes nothing.
        """
        outdated = (newer.fetched_at or _LONG_AGO) < (self.fetched_at or _LONG_AGO)
        changes = {}
        for name, value in newer.__dict__.items():
            known = getattr(self, name)
            kept = outdated and known not in (None, ())
            if name != "fetched_at" and value not in (None, ()) and value != known and not kept:
                changes[name] = value
        if self.template and newer.template and self.template.known == "page" and newer.template.known == "match":
            changes.pop("template", None)
        if not changes:
            return self
        return self.model_copy(update={**changes, "fetched_at": self.fetched_at if outdated else newer.fetched_at})


class TextStyle(Record):
    """The style of a text box.

    Attributes:
        size: usual height of a capital letter, in fractions of the picture's height; None if unknown.
        colour, outline: ``#rrggbb``; None for no outline.
        capitals: True for capitals only.
        letters: ``lower`` for small letters only, ``mock`` for AlTeRnAtInG ones; None: as `capitals` says.
        align: where lines shorter than the box are.
        font: name of a font, as the drawing knows it; None for the default.
    """

    size: float | None = None
    colour: Colour
    outline: Colour | None = None
    capitals: bool
    letters: Literal["lower", "mock"] | None = None
    align: Align = "center"
    font: Text | None = None


class TemplateBox(Record):
    """Position of a text on a template.

    Attributes:
        x, y, width, height: the room of its texts, in fractions of the picture, before the turn.
        usual: left, top, width and height of its typical text, in the same unit; None unless learned from memes.
        angle: degrees clockwise around the middle.
        style: None if unknown.
        start, stop: when a moving picture shows it, in fractions of its duration.
    """

    x: float
    y: float
    width: float
    height: float
    angle: float = 0.0
    style: TextStyle | None = None
    usual: tuple[float, float, float, float] | None = None
    start: float = 0.0
    stop: float = 1.0


class Template(Record):
    """A picture that memes are made on.

    Attributes:
        id: the source's own id, else its slug.
        slug: its name in the site's URLs.
        box_count: number of texts that it takes, if the source says so.
        boxes_from: who stated `boxes`; None in records of earlier versions, see `boxes_stated_by`.
        example: texts that show how it is used.
        image: the clean picture, from `image_url`; a moving one is drawn on frame by frame.
        clean: the picture without words that was made from memes, used where there is no `image`.
        state: ``known`` to a site or named by a person; ``found`` among memes; ``rejected`` by a person.
        merged_into: id of the template that this one duplicates.
        first_seen: when it was found.
    """

    id: Text
    slug: Text
    name: Text
    alt_names: tuple[Text, ...] = ()
    box_count: Int64 | None = None
    boxes: tuple[TemplateBox, ...] = ()
    boxes_from: BoxesFrom | None = None
    example: tuple[Text, ...] = ()
    image_url: Text | None = None
    image: Image | None = None
    clean: DerivedImage | None = None
    state: Literal["known", "found", "rejected"] = "known"
    merged_into: Text | None = None
    first_seen: AwareDatetime | None = None
    source: Text

    @property
    def picture(self) -> Image | None:
        """The picture without words: the site's, else the one made from memes."""
        return self.image or (self.clean.image if self.clean else None)

    @property
    def boxes_stated_by(self) -> BoxesFrom | None:
        """Who stated its boxes; None without boxes. Before `boxes_from`, only learned boxes had a style."""
        if not self.boxes:
            return None
        return self.boxes_from or ("memes" if any(box.style for box in self.boxes) else "site")

    @property
    def usable(self) -> bool:
        """True if it is neither rejected nor merged."""
        return self.state != "rejected" and self.merged_into is None

    def merged(self, newer: Self) -> Self:
        """Return this record updated with the facts of `newer`, from a site, an import or a stage; itself if unchanged.

        A missing fact (None, an empty list) erases none. Otherwise `newer` wins, except:

        - `state`: ``rejected`` wins over ``known``, and ``known`` over ``found``.
        - A found template only fills gaps of a known or rejected one.
        - `boxes`: a person's win over imported ones, those over a site's, and those over boxes learned from memes;
          boxes in the same places keep a style that the winner lacks.
        - `first_seen`: the earlier wins.

        Decisions of a person that erase facts use `DocumentStore.revise_template`.
        """
        only_gaps = newer.state == "found" and self.state != "found"
        changes: dict[str, object] = {}
        for name, value in newer.__dict__.items():
            known = getattr(self, name)
            if value not in (None, ()) and value != known and not (only_gaps and known not in (None, ())):
                changes[name] = value
        changes["state"] = max(self.state, newer.state, key=_STATES.index)
        boxes = self if only_gaps and self.boxes else _stronger_boxes(self, newer)
        changes |= {"boxes": boxes.boxes, "boxes_from": boxes.boxes_from}
        if self.first_seen and newer.first_seen:
            changes["first_seen"] = min(self.first_seen, newer.first_seen)
        changes = {name: value for name, value in changes.items() if value != getattr(self, name)}
        return self.model_copy(update=changes) if changes else self

    def ref(self) -> TemplateRef:
        """Return the reference of a meme whose page names this template."""
        return TemplateRef(id=self.id, slug=self.slug, name=self.name)


def _stronger_boxes(known: Template, newer: Template) -> Template:
    """Return the template whose boxes win, with the styles of the other's boxes at the same places."""
    if not (known.boxes and newer.boxes):
        return newer if newer.boxes else known
    strengths = [_BOXES_FROM.index(each.boxes_stated_by or "memes") for each in (known, newer)]
    winner, loser = (newer, known) if strengths[1] >= strengths[0] else (known, newer)
    if _places(winner.boxes) != _places(loser.boxes):
        return winner
    styled = (
        box.model_copy(update={"style": box.style or other.style})
        for box, other in zip(winner.boxes, loser.boxes, strict=True)
    )
    return winner.model_copy(update={"boxes": tuple(styled)})


def _places(boxes: tuple[TemplateBox, ...]) -> list[tuple[float, ...]]:
    return [(box.x, box.y, box.width, box.height, box.angle) for box in boxes]


def author_hash(name: str, salt: str) -> str:
    """Return a salted sha256 of an author's name, by which their memes can be found for removal."""
    return hashlib.sha256(f"{salt}\0{name}".encode()).hexdigest()


Box = TypeVar("Box", OcrBox, TemplateBox)


def reading_order(boxes: Iterable[Box]) -> list[Box]:
    """Return text boxes row by row from the top, each row from the left."""
    rows: list[list[Box]] = []
    for box in sorted(boxes, key=lambda box: box.y):
        first = rows[-1][0] if rows else None
        if first and first.y + first.height - box.y > 0.5 * min(first.height, box.height):
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row, key=lambda box: box.x)]


def hamming(a: str, b: str) -> int:
    """Return the number of bits in which two hashes (hex, same length) differ."""
    if len(a) != len(b):
        raise ValueError(f"hashes of {4 * len(a)} and {4 * len(b)} bits cannot be compared")
    return (int(a, 16) ^ int(b, 16)).bit_count()
