"""The vocabularies of a dataset, most frequent first: characters in `vocabulary.json`, words in `words.json`.

The order is the one of the Imgflip article: index 0 is the most frequent. What is equally frequent stands in order of
its code points, so equal datasets have equal vocabularies.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import write_json

VOCABULARY = "vocabulary.json"
WORDS = "words.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`characters[i]` stands `counts[i]` times in the texts (separators included) of all splits."""

    characters: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, tally: Mapping[str, int]) -> "Vocabulary":
        """The vocabulary of characters counted in `tally`."""
        ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
        return cls(tuple(character for character, _ in ordered), tuple(count for _, count in ordered))

    def write(self, folder: Path) -> Path:
        """Write `vocabulary.json` into `folder`, atomically, and return its path."""
        pairs = list(zip(self.characters, self.counts, strict=True))
        return _write(folder / VOCABULARY, "characters", pairs)


def read_vocabulary(folder: Path) -> Vocabulary:
    """Read the `vocabulary.json` of a dataset.

    Raises:
        MemeloomError: there is none, or it is not one.
    """
    pairs = _read(folder / VOCABULARY, "characters")
    return Vocabulary(tuple(character for character, _ in pairs), tuple(count for _, count in pairs))


def write_words(folder: Path, words: Sequence[tuple[str, int]]) -> Path:
    """Write `words.json` into `folder`, atomically, and return its path.

    words: with the number of times that each stands in the texts (separators included), most frequent first.
    """
    return _write(folder / WORDS, "words", words)


def read_words(folder: Path) -> list[tuple[str, int]]:
    """The words of a dataset and how often each stands in its texts, most frequent first.

    Raises:
        MemeloomError: there is no `words.json`, or it is not one.
    """
    return _read(folder / WORDS, "words")


def _write(path: Path, what: str, pairs: Sequence[tuple[str, int]]) -> Path:
    write_json(path, {"schema_version": _VERSION, what: pairs})
    return path


def _read(path: Path, what: str) -> list[tuple[str, int]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema_version"] != _VERSION:
            raise MemeloomError(
                f"{path}: version {content['schema_version']}, expected {_VERSION}; build the dataset again"
            )
        return [(str(entry), int(count)) for entry, count in content[what]]
    except OSError as error:
        raise MemeloomError(f"{path}: {error.strerror or error}; build the dataset first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise MemeloomError(f"{path}: not a vocabulary; build the dataset again") from error
