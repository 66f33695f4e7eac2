"""Files of ratings: one JSON object a line, appended as captions are rated.

    {"number": 12, "grammatical": true, "fits": true, "post": false, "rater": "ann", "sheet": "3f9c0d7a51be"}

Answers may also be 1 and 0, or "y" and "n". Without `rater` the name of the file stands for it; without `sheet` the
line is taken to be about the sheet at hand.
"""

import json
import os
import random
import string
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import unwritable
from memeloom.train.evaluation.reading.sheet import QUESTIONS, Sheet

RATINGS: Final = "ratings.jsonl"
PATTERN: Final = "ratings*.jsonl"
_ANSWERS: Final[Mapping[Any, bool]] = {1: True, 0: False, "y": True, "n": False, "yes": True, "no": False}
_LONGEST_NAME = 64


class Rating(NamedTuple):
    """The answers of one rater about one item, in the order of `QUESTIONS`."""

    number: int
    rater: str
    answers: tuple[bool, ...]


@dataclass
class Ratings:
    """The ratings of a sheet by rater and number; the last one of an item counts.

    skipped: number of lines without a rating of this sheet, by reason. first: place and reason of the first of them.
    """

    found: dict[tuple[str, int], Rating] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    first: str = ""
    last_rater: str = ""

    def read(self, path: Path, sheet: Sheet) -> None:
        """Add the ratings in the file `path`. Raises MemeloomError if it cannot be read."""
        for place, line in enumerate(_lines(path), start=1):
            if not line.strip():
                continue
            try:
                rating = _parse(line, sheet, path.stem)
            except ValueError as error:
                self.skipped[str(error)] += 1
                self.first = self.first or f"{path}:{place}: {error}"
                continue
            at = rating.rater, rating.number
            if at in self.found:
                self.skipped["rated again later"] += 1
            self.found[at] = rating
            self.last_rater = rating.rater


class RatingsFile:
    """A file of ratings that a rater continues.

    rater: the name given, else that of the last rating in the file, else a random one.
    rated: what the rater rated so far, by number.

    Raises:
        MemeloomError: the file cannot be read.
    """

    def __init__(self, path: Path, sheet: Sheet, rater: str | None) -> None:
        self._path, self._sheet = path, sheet
        ratings = Ratings()
        if path.exists():
            ratings.read(path, sheet)
        self.rater = rater or ratings.last_rater or "".join(random.choices(string.ascii_lowercase, k=4))
        self.rated = {number: each for (name, number), each in ratings.found.items() if name == self.rater}

    def append(self, number: int, answers: tuple[bool, ...]) -> None:
        """Append the rating of an item; it is on the disk when this returns. Raises MemeloomError."""
        named = {question.name: answer for question, answer in zip(QUESTIONS, answers, strict=True)}
        line = {"number": number, **named, "rater": self.rater, "sheet": self._sheet.sheet}
        try:
            with self._path.open("a+b") as file:
                file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
                # What a killed process left of a line is not part of this one.
                begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
                file.write(begin + json.dumps(line).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from error
        self.rated[number] = Rating(number, self.rater, answers)


def check_rater(name: str) -> str:
    """Return the name of a rater without spaces around it. Raises ValueError if it cannot be one."""
    name = name.strip()
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError(f"the rater's name must have 1 to {_LONGEST_NAME} printable characters")
    return name


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError as error:
        raise MemeloomError(f"{path}: cannot be read ({error.strerror})") from error


def _parse(line: str, sheet: Sheet, default_rater: str) -> Rating:
    """Return the rating of a line. Raises ValueError, whose text is the reason to skip the line."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a line of JSON") from None
    if not isinstance(said, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  # all reasons to skip are one kind
    if said.get("sheet", sheet.sheet) != sheet.sheet:
        raise ValueError("a rating of another sheet")
    number = said.get("number")
    if type(number) is not int or not 1 <= number <= len(sheet.items):
        raise ValueError("no caption of this number")
    rater = said.get("rater", default_rater)
    if not isinstance(rater, str):
        raise ValueError("the rater is not a text")  # noqa: TRY004
    return Rating(number, check_rater(rater), tuple(_answer(said.get(question.name)) for question in QUESTIONS))


def _answer(said: object) -> bool:
    answer = said.strip().lower() if isinstance(said, str) else said
    if isinstance(answer, (bool, int, str)) and answer in _ANSWERS:
        return _ANSWERS[answer]
    raise ValueError("an answer that is neither yes nor no")
