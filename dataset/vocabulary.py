"""The characters of a dataset, most frequent first, as `vocabulary.json`.

The order is the one of the Imgflip article: index 0 is the most frequent character. Characters that are
equally frequent stand in order of their code points, so equal datasets have equal vocabularies.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from configs.errors import MemeloomError
from configs.outputs import write_json

VOCABULARY = "vocabulary.json"
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
        path = folder / VOCABULARY
        pairs = [list(pair) for pair in zip(self.characters, self.counts, strict=True)]
        write_json(path, {"schema_version": _VERSION, "characters": pairs})
        return path


def read_vocabulary(folder: Path) -> Vocabulary:
    """Read the `vocabulary.json` of a dataset.

    Raises:
        MemeloomError: there is none, or it is not one.
    """
    path = folder / VOCABULARY
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema_version"] != _VERSION:
            raise MemeloomError(
                f"{path}: version {content['schema_version']}, expected {_VERSION}; build the dataset again"
            )
        pairs = [(str(character), int(count)) for character, count in content["characters"]]
    except OSError as error:
        raise MemeloomError(f"{path}: {error.strerror or error}; build the dataset first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise MemeloomError(f"{path}: not a vocabulary; build the dataset again") from error
    return Vocabulary(tuple(character for character, _ in pairs), tuple(count for _, count in pairs))
