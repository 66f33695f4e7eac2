"""What a dataset wants to know of a meme, read straight from its stored JSON.

`catalog.records.Meme` says the same ten times as slowly: it checks what was checked when it was stored.
`tests/dataset/test_facts.py` holds the two together.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from memeloom.catalog.errors import StoreCorrupt
from memeloom.catalog.records import Template
from memeloom.catalog.resolved import ResolvedTemplates
from memeloom.dataset.steps.caption import Caption
from memeloom.engine.steps import Drop

Pictures: TypeAlias = Literal["none", "template", "meme", "inpainted"]
# Why a meme has no picture of the wanted kind.
NO_PICTURE: Final = MappingProxyType(
    {"template": "no picture", "meme": "no picture", "inpainted": "no picture without words"}
)
HASH_BYTES: Final = 32  # of a perceptual hash
# Later than any post.
NEVER: Final = 2**63 - 1


class Picture(NamedTuple):
    """A picture in the blob store; sides in pixels."""

    key: str
    width: int
    height: int


class Named(NamedTuple):
    """What a template counts as for the memes that name it. box_count: texts it takes; None if nobody says."""

    id: str
    slug: str
    name: str
    box_count: int | None
    picture: Picture | None


# Templates by the id that memes name; None for one that is rejected. An id that is not there is what its meme says.
Naming: TypeAlias = Mapping[str, Named | None]


class Facts(NamedTuple):
    """A caption and what decides about its copies.

    posted: microseconds since 1970 in UTC; `NEVER` if nobody says.
    phash: 32 bytes, the perceptual hash of the meme's own picture; empty without one.
    """

    caption: Caption
    posted: int
    phash: bytes


def naming_of(templates: Iterable[Template]) -> Naming:
    """How the templates of a catalog count now, after merges and rejections."""
    templates = list(templates)
    resolved = ResolvedTemplates(templates)
    return {template.id: _named(resolved.get(template.id)) for template in templates}


def told(naming: Naming, template: str) -> str:
    """All that `naming` says of a template, in short: equal texts, equal captions."""
    return repr(naming.get(template, "unknown"))


def _named(template: Template | None) -> Named | None:
    if template is None:
        return None
    picture = template.picture
    return Named(
        template.id,
        template.slug,
        template.name,
        template.box_count or len(template.boxes) or None,
        Picture(picture.key, picture.width, picture.height) if picture else None,
    )


def read_facts(record: bytes, naming: Naming, pictures: Pictures) -> tuple[str, Facts | Drop, str | None]:
    """The source of a stored meme, its facts (or why it has none), and the id of the template that it names.

    record: its JSON, as `DocumentStore.records` yields it.
    pictures: which one the dataset takes; ``none`` refers to the meme's own.

    Raises:
        StoreCorrupt: that is not the JSON of a meme.
    """
    try:
        meme = orjson.loads(record)
        source, template = meme["source"], meme.get("template")
        if template is None:
            return str(source), Drop("no template"), None
        found = _facts(meme, template, naming, pictures) or Drop("no template")
        if isinstance(found, Facts):
            _check(found)
        return str(source), found, str(template["id"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        start = record[:80].decode(errors="replace")
        raise StoreCorrupt(f"a stored meme cannot be read: {start}… ({type(error).__name__}: {error})") from error


def _facts(meme: dict[str, Any], template: dict[str, Any], naming: Naming, pictures: Pictures) -> Facts | Drop | None:
    name = template["id"]
    named = naming[name] if name in naming else Named(name, template["slug"], template["name"], None, None)
    if named is None:
        return None
    own = meme.get("image")
    picture = _own(own) if pictures in ("none", "meme") else named.picture if pictures == "template" else _clean(meme)
    if picture is None and pictures != "none":
        return Drop(NO_PICTURE[pictures])
    key, width, height = picture or ("", 0, 0)
    posted = meme.get("posted_at")
    caption = Caption(
        meme["id"], meme["source"], named.id, named.name, named.slug, _texts(meme), bool(meme.get("over_18")),
        key, width, height, named.box_count,
    )  # fmt: skip
    return Facts(
        caption,
        NEVER if posted is None else round(datetime.fromisoformat(posted).timestamp() * 1_000_000),
        b"" if own is None else bytes.fromhex(own["phash256"]),
    )


def _check(facts: Facts) -> None:
    """Raises TypeError or ValueError where types are not those that everything after this relies on."""
    caption = facts.caption
    # `join` takes nothing but text, and is the quickest to ask.
    "".join((*caption[:5], *caption.boxes, caption.image_key))
    if caption.width < 0 or caption.height < 0 or len(facts.phash) not in (0, HASH_BYTES):
        raise ValueError("not a picture")


def _texts(meme: dict[str, Any]) -> tuple[str, ...]:
    """As `Meme.caption`: what the page states, else what was read."""
    if boxes := meme.get("boxes"):
        return tuple(boxes)
    ocr = meme.get("ocr")
    if ocr is None or ocr.get("dropped") is not None:
        return ()
    return tuple([box["text"] for box in ocr.get("boxes", ())])


def _own(image: dict[str, Any] | None) -> Picture | None:
    return None if image is None else Picture(image["key"], image["width"], image["height"])


def _clean(meme: dict[str, Any]) -> Picture | None:
    """The meme's picture without its words, if that was made from the picture it has now."""
    own, clean = meme.get("image"), meme.get("clean")
    return _own(clean["image"]) if own and clean and own["key"] in clean["made_from"] else None
