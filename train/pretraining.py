"""Texts that are no captions, to learn a language from: plain text, a text a line, or JSON lines; also gzipped."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from memeloom.configs.errors import MemeloomError
from memeloom.train.characters import END, Alphabet
from memeloom.train.corpus import UNKNOWN_TEMPLATE
from memeloom.train.ngram.contexts import Spelling
from memeloom.train.ngram.text import Text

# The fields of a JSON object that may hold its text; the first one there is used.
_FIELDS: Final = ("text", "title", "body")
# Longer lines are not texts of people.
_LONGEST: Final = 4096
_FEWEST: Final = 2


def read_pretraining(paths: Sequence[str], alphabet: Alphabet, spelling: Spelling) -> Text:
    """Return the texts of files, without characters that the alphabet lacks, as captions of an unknown template.

    Raises:
        MemeloomError: a file cannot be read, or holds no text.
    """
    encoded = [text for path in paths for text in _encoded(Path(path), alphabet)]
    lengths = np.array([len(text) for text in encoded], np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    characters = np.concatenate(encoded) if encoded else np.zeros(0, np.uint16)
    return Text(characters, starts, np.full(len(encoded), UNKNOWN_TEMPLATE, np.int64), spelling)


def check_pretraining(paths: Sequence[str]) -> None:
    """Raise MemeloomError if one of the files cannot be read."""
    for path in paths:
        next(iter(_texts(Path(path))), None)


def _encoded(path: Path, alphabet: Alphabet) -> Iterator[Any]:
    found, end = False, alphabet.encode(END)
    for text in _texts(path):
        numbers = alphabet.encode(alphabet.normalize(" ".join(text.split())))
        if len(numbers) >= _FEWEST:
            found = True
            yield np.concatenate([numbers, end])
    if not found:
        raise MemeloomError(f"train.pretrain: {path} holds no text; it has a text a line, or JSON objects with a text")


def _texts(path: Path) -> Iterator[str]:
    try:
        with _opened(path) as stream:
            as_json = ".jsonl" in path.suffixes or ".json" in path.suffixes
            while line := stream.readline(_LONGEST * 4):
                text = _of_json(line) if as_json else line
                if text and len(text) <= _LONGEST:
                    yield text
    except (OSError, EOFError) as error:
        raise MemeloomError(f"train.pretrain: {path}: {getattr(error, 'strerror', None) or error}") from error


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _of_json(line: str) -> str | None:
    """Return the text of a line; None for one that is no JSON object, or has no text."""
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    fields = [record.get(name) for name in _FIELDS] if isinstance(record, dict) else [record]
    return next((text for text in fields if isinstance(text, str) and text), None)
