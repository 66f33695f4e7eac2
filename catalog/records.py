"""The records that every room shares: a meme, the template it is made on, and what was read from it."""

import hashlib
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

SCHEMA_VERSION: Final = 1

# What every store can hold; a site that states more is not to be believed.
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
# A limit makes pydantic look into the text: half an emoji (a lone surrogate) is refused, no store could keep it.
Text = Annotated[str, Field(max_length=100_000)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# What may move; one of its frames stands for it.
Container: TypeAlias = Literal["gif", "webp", "mp4", "webm"]
# What is said of a template, the weightier last.
_STATES: Final = ("found", "known", "rejected")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Record(BaseModel):
    """Frozen and closed: a stage that adds a fact adds a field. Numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Image(Record):
    """A stored picture.

    key: sha256 of the original bytes, which is also their key in the blob store.
    width, height: pixels, after EXIF rotation.
    format: ``jpeg``, ``png``, ``gif``, ``webp`` … as the bytes say, not as the site said.
    phash64, phash256: perceptual hashes in hex (16 and 64 digits), bits compared by Hamming distance.
    frame_of: what the bytes are the first frame of, if the meme moves (they are a PNG then); None for a still.
    """

    key: Sha256
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    format: Text
    bytes: Annotated[int, Field(gt=0)]
    phash64: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    phash256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    frame_of: Container | None = None


class Made(Record):
    """A picture that was computed from others, and how.

    method: ``inpaint`` (one meme's text filled in from around it), ``template`` (filled in from its clean
        template) or ``median`` (a template's picture, from many memes made on it).
    made_from: keys of the pictures it was made from, in order.
    mask: key of a PNG of the same size that is white where text stood, of ``inpaint`` and ``template``.
    """

    image: Image
    method: Literal["inpaint", "template", "median"]
    made_from: tuple[Sha256, ...]
    mask: Sha256 | None = None

    @property
    def keys(self) -> tuple[Sha256, ...]:
        """The blobs that belong to it: the picture, and its mask."""
        return (self.image.key,) if self.mask is None else (self.image.key, self.mask)


class TemplateRef(Record):
    """Which template a meme is made on, and how that is known.

    id: the source's own id (Imgflip's number), else its slug.
    known: ``page`` if the source said so, ``match`` if the picture was recognised.
    distance: for a match, per cent of the template in view that the picture does not show (text covers some).
    """

    id: Text
    slug: Text
    name: Text
    known: Literal["page", "match"] = "page"
    distance: int | None = None


class OcrBox(Record):
    """One text box that was read: its text, and where it stands, in fractions of the picture."""

    text: Text
    x: float
    y: float
    width: float
    height: float
    confidence: float


class Ocr(Record):
    """What an engine read in the picture.

    text: all boxes, one a line, in reading order; empty when nothing was kept.
    confidence: mean over the words kept, 0-100.
    dropped: why the reading is not a caption (``no text``, ``too much text`` …); None if it is one.
    """

    text: Text
    boxes: tuple[OcrBox, ...] = ()
    confidence: float
    engine: Text
    dropped: Text | None = None


class Meme(Record):
    """One post of one meme.

    id: ``<source>:<id at the source>``, the upsert key. The same post found twice is one record. Of a page with
        several pictures each is a meme: the first has the page's own id, further ones ``<id>-2``, ``<id>-3`` …
    boxes: the caption, one text a box in the template's order, as the page states it; an empty box is ``""``.
    score, views: as the site counted when we looked.
    author: salted hash of the author's name, and only if a config asked for it.
    clean: the picture without its words.
    fetched_at: when these facts were last seen to change; None if the source (an old dump) does not say.
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
    clean: Made | None = None
    fetched_at: AwareDatetime | None = None
    schema_version: Literal[1] = SCHEMA_VERSION

    @property
    def blobs(self) -> tuple[Sha256, ...]:
        """The blobs that the record refers to: its picture, and what was made without words; each once."""
        keys = (*((self.image.key,) if self.image else ()), *(self.clean.keys if self.clean else ()))
        return tuple(dict.fromkeys(keys))

    @property
    def caption(self) -> tuple[str, ...]:
        """The texts of the boxes: as the page states them, else as they were read; empty if neither is known."""
        if self.boxes:
            return self.boxes
        if self.ocr is not None and self.ocr.dropped is None:
            return tuple(box.text for box in self.ocr.boxes)
        return ()

    def merged(self, newer: Self) -> Self:
        """This record with the facts of `newer` laid over it.

        A fact that `newer` lacks (None, no boxes) never erases one that is known; facts that were fetched
        before ours, or nobody knows when (a dump imported after a crawl), only fill gaps; and a template
        that a page named is not replaced by one that was only recognised. If nothing else changes,
        `fetched_at` stays: writing the same facts twice changes nothing.
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
    """How a template's text is usually set.

    size: height of a capital letter, in fractions of the picture's height.
    colour, outline: as ``#rrggbb``; no outline is None.
    capitals: whether it is written in capitals only.
    """

    size: float
    colour: Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")]
    outline: Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")] | None = None
    capitals: bool


class TemplateBox(Record):
    """Where a template expects a text: fractions of the picture's width and height, angle in degrees.

    style: how that text looks, if it was learned from memes.
    """

    x: float
    y: float
    width: float
    height: float
    angle: float = 0.0
    style: TextStyle | None = None


class Template(Record):
    """A picture that memes are made on.

    id: the source's own id, else its slug. slug: as it stands in the site's URLs.
    box_count: texts that the template takes, if the source says so.
    image: the clean picture; `image_url` is where it is to be had.
    clean: the picture without words that was made from memes; it stands in for `image` where no site gives one.
    state: ``known`` to a site or named by a person; ``found`` among memes; ``rejected`` by a person: no template.
    merged_into: id of the template that this one turned out to be.
    first_seen: when it was found.
    """

    id: Text
    slug: Text
    name: Text
    alt_names: tuple[Text, ...] = ()
    box_count: Int64 | None = None
    boxes: tuple[TemplateBox, ...] = ()
    image_url: Text | None = None
    image: Image | None = None
    clean: Made | None = None
    state: Literal["known", "found", "rejected"] = "known"
    merged_into: Text | None = None
    first_seen: AwareDatetime | None = None
    source: Text

    @property
    def picture(self) -> Image | None:
        """The picture without words: the one that a site gives, else the one that was made from memes."""
        return self.image or (self.clean.image if self.clean else None)

    @property
    def usable(self) -> bool:
        """Whether memes may be made on it: it is neither rejected nor another one's second record."""
        return self.state != "rejected" and self.merged_into is None

    def merged(self, newer: Self) -> Self:
        """This record with the facts of `newer` laid over it; `newer` is what a site, an import or a stage says.

        A fact that `newer` lacks (None, nothing in a list) erases none. Else the newer one wins, but for:

        - `state`: ``known`` outweighs ``found``, and ``rejected`` both. A page seen again brings back nothing
          that a person rejected, and a template found again does not forget that it got a name.
        - Everything, if ours is known or rejected and `newer` only found: it fills gaps.
        - `boxes`: those that a source states win over those learned from memes (the ones with a style), whoever
          comes first; of boxes in the same places those with a style are kept.
        - `first_seen`: the earlier.

        A person's decision that erases something goes through `DocumentStore.revise_template` instead.
        If nothing changes, this very record is returned.
        """
        only_gaps = newer.state == "found" and self.state != "found"
        changes: dict[str, object] = {}
        for name, value in newer.__dict__.items():
            known = getattr(self, name)
            if value not in (None, ()) and value != known and not (only_gaps and known not in (None, ())):
                changes[name] = value
        changes["state"] = max(self.state, newer.state, key=_STATES.index)
        if not (only_gaps and self.boxes):
            changes["boxes"] = _merged_boxes(self.boxes, newer.boxes)
        if self.first_seen and newer.first_seen:
            changes["first_seen"] = min(self.first_seen, newer.first_seen)
        changes = {name: value for name, value in changes.items() if value != getattr(self, name)}
        return self.model_copy(update=changes) if changes else self

    def ref(self) -> TemplateRef:
        """How a meme whose page names this template refers to it."""
        return TemplateRef(id=self.id, slug=self.slug, name=self.name)


def _merged_boxes(known: tuple[TemplateBox, ...], newer: tuple[TemplateBox, ...]) -> tuple[TemplateBox, ...]:
    """Boxes that a source states before learned ones, newer before older; nothing is laid over itself bare."""
    if not (known and newer):
        return known or newer
    known_is_learned, newer_is_learned = (any(box.style for box in boxes) for boxes in (known, newer))
    same_places = _places(known) == _places(newer)
    if known_is_learned and not newer_is_learned:
        return known if same_places else newer
    if newer_is_learned and not known_is_learned:
        return newer if same_places else known
    return newer


def _places(boxes: tuple[TemplateBox, ...]) -> list[TemplateBox]:
    return [box.model_copy(update={"style": None}) for box in boxes]


def author_hash(name: str, salt: str) -> str:
    """A salted sha256 of an author's name: enough to find their memes when they ask for removal."""
    return hashlib.sha256(f"{salt}\0{name}".encode()).hexdigest()


def hamming(a: str, b: str) -> int:
    """Return the number of bits in which two hashes (hex, same length) differ."""
    if len(a) != len(b):
        raise ValueError(f"hashes of {4 * len(a)} and {4 * len(b)} bits cannot be compared")
    return (int(a, 16) ^ int(b, 16)).bit_count()
