"""Characters and words are counted exactly, in any order and in little memory, and their files are read back."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.dataset import vocabulary
from memeloom.dataset.vocabulary import (
    VOCABULARY,
    WORDS,
    Vocabulary,
    WordCounter,
    read_vocabulary,
    read_words,
    split_words,
    write_words,
)


def test_characters_are_sorted_by_frequency_then_by_code_point(tmp_path: Path) -> None:
    found = Vocabulary.of(Counter('zzz"a✓ébb||'))
    assert found == Vocabulary(("z", "b", "|", '"', "a", "é", "✓"), (3, 2, 2, 1, 1, 1, 1))
    found.write(tmp_path)
    assert read_vocabulary(tmp_path) == found


def test_words_are_read_as_written(tmp_path: Path) -> None:
    listed = [("|", 12), ('"', 3), ("größe", 2)]
    assert write_words(tmp_path, listed).name == WORDS
    assert read_words(tmp_path) == listed


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
def test_a_file_that_is_no_vocabulary_is_an_error(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / VOCABULARY).write_text(content)
    with pytest.raises(MemeloomError, match=message):
        read_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one does not|simply|", ["one", "does", "not", "|", "simply", "|"]),
        ("don't, won’t", ["don't", ",", "won’t"]),
        ("'quoted' 50% off!!", ["'", "quoted", "'", "50", "%", "off", "!", "!"]),
        ("größe ✓ 猫", ["größe", "✓", "猫"]),
        (" \n\t ", []),
    ],
)
def test_split_words(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


def counted(path: Path, words: list[str]) -> Path:
    """Write the counts of `words`, added some at a time."""
    counter = WordCounter(path.with_name("runs"))
    for at in range(0, len(words), 100):
        counter.count(" ".join(words[at : at + 100]))
    counter.write(path)
    return path


def most_common(paths: Sequence[Path], min_count: int, max_words: int, folder: Path) -> list[tuple[str, int]]:
    """Return the most common words of all files together."""
    counter = WordCounter(folder)
    for path in paths:
        counter.add_file(path)
    return counter.most_common(min_count, max_words)


def test_words_are_counted_as_they_are_split(tmp_path: Path) -> None:
    text = "don't,don't! \u00fcber_50%\n'quoted' won\u2019t|  w\u2019 x-y \u200b a\x1cb"
    path = counted(tmp_path / "1", text.split(" "))
    assert most_common([path], 1, 100, tmp_path / "merging") == sorted(Counter(split_words(text)).items(), key=rank)


def rank(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


@pytest.mark.parametrize("limit", [10**6, 700, 40])
def test_counts_are_exact_in_little_memory(tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_MAX_IN_MEMORY", limit)
    monkeypatch.setattr(vocabulary, "_MERGED_AT_ONCE", 3)
    rng = random.Random(4)
    words = [f"w{int(rng.paretovariate(0.5)) % 5000}é" for _ in range(20_000)]
    paths = [counted(tmp_path / f"{part}", words[part::7]) for part in range(7)]
    expected = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
    assert most_common(paths, 1, 10**6, tmp_path / "merging") == expected
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1", "2", "3", "4", "5", "6"}


def test_rare_words_and_all_but_the_most_frequent_are_left_out(tmp_path: Path) -> None:
    paths = [counted(tmp_path / "1", ["a", "a", "b", "b", "c"]), counted(tmp_path / "2", ["a", "c", "d"])]
    assert most_common(paths, 2, 100, tmp_path / "merging") == [("a", 3), ("b", 2), ("c", 2)]
    assert most_common(paths, 1, 2, tmp_path / "merging") == [("a", 3), ("b", 2)]
    assert most_common(paths, 9, 2, tmp_path / "merging") == []
    assert most_common([], 1, 2, tmp_path / "merging") == []
