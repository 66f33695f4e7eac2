"""The vocabulary: most frequent first, ties by code point, and back from the file as it was."""

from collections import Counter
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.vocabulary import VOCABULARY, Vocabulary, read_vocabulary


def test_characters_stand_by_frequency_then_by_code_point() -> None:
    vocabulary = Vocabulary.of(Counter("zzza✓ébb||"))
    assert vocabulary.characters == ("z", "b", "|", "a", "é", "✓")
    assert vocabulary.counts == (3, 2, 2, 1, 1, 1)


def test_it_comes_back_as_it_was_written(tmp_path: Path) -> None:
    vocabulary = Vocabulary.of(Counter('say "✓" \\ \t é'))
    vocabulary.write(tmp_path)
    assert read_vocabulary(tmp_path) == vocabulary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "build the dataset first"),
        ("[", "not a vocabulary"),
        ("{}", "not a vocabulary"),
        ('{"schema_version": 9, "characters": []}', "version 9, expected 1"),
        ('{"schema_version": 1, "characters": [1]}', "not a vocabulary"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / VOCABULARY).write_text(content)
    with pytest.raises(MemeloomError, match=message):
        read_vocabulary(tmp_path)
