"""A row of own data as memes to store: its texts and facts by the columns that mean them, and its picture."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

import orjson

from memeloom.catalog.records import TemplateRef
from memeloom.scrapers.dumps.columns import FOLDER, Columns
from memeloom.scrapers.dumps.json_stream import DumpEntry, Problem
from memeloom.scrapers.dumps.pictures import is_picture
from memeloom.scrapers.dumps.values import Misfit, flag_of, number_of, time_of, url_of

_WEB = re.compile(r"(?:https?:)?//\S+", re.IGNORECASE)
_KEY = re.compile(r"[^\s\x00-\x1f\x7f]{1,400}")
_MOST_NAME: Final = 200
# How a value becomes a fact, and what it must be.
_FACTS: Final[Mapping[str, tuple[Callable[[object], object], str]]] = MappingProxyType(
    {
        "title": (lambda value: _text(value, "title"), "a text"),
        "score": (number_of, "a whole number"),
        "views": (number_of, "a whole number"),
        "posted_at": (time_of, "a time"),
        "over_18": (flag_of, "yes or no"),
        "page_url": (url_of, "a web address"),
    }
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A meme without id, whose picture is not stored yet.

    Attributes:
        place: the file, for messages.
        unit, number: position of its row.
        facts: fields of the `Meme`.
        key: its id at the source, if the user says which column that is.
        picture: bytes, or a path relative to `root`.
        left_out: values that could not be used.
    """

    place: Path
    unit: str
    number: int
    facts: Mapping[str, Any]
    key: str | None
    picture: bytes | str | None
    root: Path | None
    left_out: tuple[Problem, ...] = ()

    def problem(self, reason: str, detail: str = "") -> Problem:
        """Return a problem at the place of the row."""
        return Problem(reason, self.unit, self.number, detail)


class RowReader:
    """Converts the rows of a file.

    Args:
        place: the file.
        root: folder to which paths of pictures are relative, resolved; None if there is none.
        columns: the columns of each fact.
        ref: returns the reference to a template by its name; raises Misfit.
    """

    def __init__(self, place: Path, root: Path | None, columns: Columns, ref: Callable[[object], TemplateRef]) -> None:
        self._place = place
        self._root = root
        self._columns = columns.fields
        self._ref = ref

    def read(self, entry: DumpEntry) -> Iterator[Draft | Problem]:
        """Yield the memes of a row, one for each caption, or why it is none.

        A fact that cannot be used is left out, unless it is the picture, the caption, the template or the id.
        """
        row = entry.value
        if not isinstance(row, dict):
            yield Problem("not a row", entry.unit, entry.number)
            return
        try:
            picture, url = self._picture(row)
            captions = self._captions(row)
            template = self._template(row, picture)
            key = self._key(row)
        except Misfit as misfit:
            yield Problem(str(misfit), entry.unit, entry.number)
            return
        if not captions and picture is None and url is None:
            yield Problem("neither picture nor caption", entry.unit, entry.number)
            return
        facts, left_out = self._facts(row)
        facts |= {"image_url": url, "template": template}
        problems = tuple(Problem(reason, entry.unit, entry.number) for reason in left_out)
        for number, boxes in enumerate(captions or [()], start=1):
            own = key if key is None or number == 1 else f"{key}-{number}"
            first = problems if number == 1 else ()
            known = {**facts, "boxes": boxes}
            yield Draft(self._place, entry.unit, entry.number, known, own, picture, self._root, first)

    def _facts(self, row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the facts beside picture, caption and template, and why others are left out."""
        facts: dict[str, Any] = {}
        left_out: list[str] = []
        for name, (read, kind) in _FACTS.items():
            if (value := self._first(row, name)) is None:
                continue
            try:
                facts[name] = read(value)
            except Misfit:
                facts[name] = None
            if facts[name] is None:
                left_out.append(f"{name}: not {kind}")
        return facts, left_out

    def _first(self, row: Mapping[str, Any], field: str) -> Any:
        """Return the first value that is there among the columns of a field."""
        values = (row.get(column) for column in self._columns.get(field, ()))
        return next((value for value in values if not _is_missing(value)), None)

    def _picture(self, row: Mapping[str, Any]) -> tuple[bytes | str | None, str | None]:
        """Return bytes or path of the picture, and its address on the web."""
        value, address = self._first(row, "picture"), self._first(row, "image_url")
        if isinstance(value, dict):  # as `datasets` stores a picture
            value = value.get("bytes") or value.get("path") or None
        if isinstance(value, str) and _WEB.fullmatch(value.strip()):
            value, address = None, address or value
        if value is not None and not isinstance(value, bytes | str):
            raise Misfit("picture: neither bytes nor path nor address")
        url = url_of(address.strip()) if isinstance(address, str) and _WEB.fullmatch(address.strip()) else None
        if address is not None and url is None:
            raise Misfit("image_url: not a web address")
        return value, url

    def _captions(self, row: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Return the boxes of each caption of a row, without empty captions."""
        if boxes := self._columns.get("boxes"):
            values = [_listed(row.get(column)) for column in boxes]
            texts = [_text(text, "caption") for each in values for text in (each if isinstance(each, list) else [each])]
            return [tuple(texts)] if any(texts) else []
        values = [_listed(row.get(column)) for column in self._columns.get("caption", ())]
        several = [text for each in values for text in (each if isinstance(each, list) else [each])]
        return [(text,) for each in several if (text := _text(each, "caption"))]

    def _template(self, row: Mapping[str, Any], picture: object) -> TemplateRef | None:
        columns = self._columns.get("template", ())
        value = self._first(row, "template")
        if isinstance(picture, str) and value is None and FOLDER in columns:
            value = PurePosixPath(picture).parent.name
        elif isinstance(value, str) and (value == picture or is_picture(value)):
            value = PurePosixPath(value).stem  # each picture is a template
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if _is_missing(value):
            return None
        if not isinstance(value, str) or len(value) > _MOST_NAME or "\0" in value:
            raise Misfit("template: not a name")
        return self._ref(value.strip())

    def _key(self, row: Mapping[str, Any]) -> str | None:
        if "id" not in self._columns:
            return None
        value = self._first(row, "id")
        key = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if not _KEY.fullmatch(key):
            raise Misfit("id: missing, longer than 400 characters or with a space")
        return key


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str | bytes) and not value.strip()) or value != value  # noqa: PLR0124


def _listed(value: object) -> object:
    """Return a list that a text contains as JSON, as in a CSV file; anything else unchanged."""
    if isinstance(value, str) and value.startswith("["):
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
        return found if isinstance(found, list) else value
    return value


def _text(value: object, name: str) -> str:
    """Return a text without white space around it, empty if there is none. Raises Misfit."""
    if _is_missing(value):
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise Misfit(f"{name}: not a text")
    if "\0" in value:
        raise Misfit(f"{name}: NUL character")
    return value.strip()
