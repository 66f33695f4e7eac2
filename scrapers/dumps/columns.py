"""Which column of own data is which fact of a meme: guessed from the names, or named by the user."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from memeloom.configs.errors import ConfigError, MemeloomError

# For each fact the names of columns that mean it, in lower case with underscores, the surest first.
FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "picture": ("file_name", "filename", "picture", "image", "img", "image_path", "img_path", "image_file", "path"),
        "image_url": ("image_url", "img_url", "picture_url", "url"),
        "caption": ("caption", "captions", "text", "meme_text", "sentence", "txt", "description", "alt_text"),
        "boxes": ("boxes", "texts"),
        "template": ("template", "template_name", "meme_name"),
        "id": (),  # numbers of two files may be equal, so only the user can say that they are unique
        "title": ("title",),
        "score": ("score", "votes", "likes", "upvotes", "ups"),
        "views": ("views",),
        "posted_at": ("posted_at", "created_at", "created_utc", "date", "timestamp"),
        "over_18": ("over_18", "nsfw"),
        "page_url": ("page_url", "permalink", "post_url"),
    }
)
FOLDER: Final = "folder"  # a column that every row with a picture by path has
_PAIRS: Final = (("top", "bottom"), ("top_text", "bottom_text"), ("text_top", "text_bottom"), ("toptext", "bottomtext"))
_NUMBERED = re.compile(r"(text|box|line|caption)_?(\d{1,2})")
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of each fact; those of `boxes` in the order of the boxes, of the others the first with a value."""

    fields: Mapping[str, tuple[str, ...]]
    unused: tuple[str, ...]

    def __str__(self) -> str:
        text = ", ".join(f"{field} = {' + '.join(columns)}" for field, columns in self.fields.items())
        return f"{text} (not used: {listed(self.unused)})" if self.unused else text


def parse_maps(maps: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns that ``FIELD=COLUMN`` names; a field without a column is not read.

    Raises:
        ConfigError: not of this form, or an unknown field.
    """
    chosen: dict[str, tuple[str, ...]] = {}
    for text in maps:
        field, separator, column = text.partition("=")
        if not separator:
            raise ConfigError(f"--map {text}: write FIELD=COLUMN, for example caption=text")
        if field not in FIELDS:
            raise ConfigError(
                f"--map {text}: no field {field!r} ({_nearest(field, FIELDS)}); fields are {', '.join(FIELDS)}"
            )
        chosen[field] = (*chosen.get(field, ()), *([column] if column else []))
    if {"caption", "boxes"} <= chosen.keys():
        raise ConfigError("--map: a row has a caption, or the boxes of one; name columns for one of the two")
    return chosen


def choose_columns(names: Sequence[str], chosen: Mapping[str, tuple[str, ...]], place: object) -> Columns:
    """Return the columns of each fact: `chosen` by the user, the rest guessed.

    Raises:
        MemeloomError: a chosen column does not exist, or there is no column of a picture or a caption.
    """
    for field, columns in chosen.items():
        for column in columns:
            if column not in names and column != FOLDER:
                raise MemeloomError(
                    f"{place}: no column {column!r} for {field} ({_nearest(column, names)}); "
                    f"columns are {listed(names)}"
                )
    found = columns_by_field(names, chosen)
    if not {"picture", "image_url", "caption", "boxes"} & found.keys():
        raise MemeloomError(
            f"{place}: no column of a picture or a caption among {listed(names)}; name it: --map caption=COLUMN"
        )
    used = {column for columns in found.values() for column in columns}
    return Columns(found, tuple(name for name in names if name not in used))


def columns_by_field(
    names: Sequence[str], chosen: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> dict[str, tuple[str, ...]]:
    """Return the columns of each fact that is among `names`: `chosen`, the rest guessed."""
    # A template or an id may be named like the picture.
    taken = {column for field, columns in chosen.items() if field not in ("template", "id") for column in columns}
    simple = {name: re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in names if name not in taken}
    found: dict[str, tuple[str, ...]] = {}
    for field, guesses in FIELDS.items():
        if field in chosen:
            columns = chosen[field]
        else:
            columns = tuple(name for guess in guesses for name in simple if simple[name] == guess)[:1]
        if columns:
            found[field] = columns
    texts = {"caption", "boxes"} & chosen.keys()
    if not texts and "boxes" not in found:
        found |= _several_texts(simple)
    if "boxes" in found and "caption" in found:
        found.pop("caption" if "caption" not in texts else "boxes")
    return {field: found[field] for field in FIELDS if field in found}


def _several_texts(simple: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return a pair such as top and bottom, or numbered texts, as boxes; numbered captions as captions."""
    by_name = {each: name for name, each in simple.items()}
    for pair in _PAIRS:
        if all(each in by_name for each in pair):
            return {"boxes": tuple(by_name[each] for each in pair)}
    numbered: dict[str, list[tuple[int, str]]] = {}
    for each, name in by_name.items():
        if match := _NUMBERED.fullmatch(each):
            numbered.setdefault(match[1], []).append((int(match[2]), name))
    for kind, places in numbered.items():
        if len(places) > 1:
            return {"caption" if kind == "caption" else "boxes": tuple(name for _, name in sorted(places))}
    return {}


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name.lower(), list(known), n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}?" if near else "nothing is named like it"


def listed(names: Iterable[str]) -> str:
    """Return the first of some names or values, for a message."""
    shown = [name if len(name) <= 40 else f"{name[:40]}…" for name in names]
    return ", ".join([*shown[:_SHOWN], *([f"… and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else [])])
