"""Words are counted exactly, in whatever order and with however little memory."""

import random
from collections import Counter
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.dataset import vocabulary
from memeloom.dataset.vocabulary import WORDS, WordCounter, most_common, read_words, split_words, write_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one does not|simply|", ["one", "does", "not", "|", "simply", "|"]),
        ("don't, won’t", ["don't", ",", "won’t"]),
        ("'quoted' 50% off!!", ["'", "quoted", "'", "50", "%", "off", "!", "!"]),
        ("größe ✓ 猫", ["größe", "✓", "猫"]),
        ("", []),
        (" \n\t ", []),
    ],
)
def test_what_a_word_is(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


def counted(path: Path, all_words: list[str]) -> Path:
    """The file of words and counts that a tally of `all_words` writes."""
    tally = WordCounter(path.with_name("runs"))
    for at in range(0, len(all_words), 100):
        tally.add(all_words[at : at + 100])
    tally.write(path)
    return path


def drawn(number: int) -> list[str]:
    rng = random.Random(4)
    return [f"w{int(rng.paretovariate(0.5)) % 5000}é" for _ in range(number)]


@pytest.mark.parametrize("limit", [10**6, 700, 40])
def test_counts_are_exact_with_little_memory(tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_MAX_IN_MEMORY", limit)
    monkeypatch.setattr(vocabulary, "_MERGED_AT_ONCE", 3)
    all_words = drawn(20_000)
    paths = [counted(tmp_path / f"{part}", all_words[part::7]) for part in range(7)]
    expected = sorted(Counter(all_words).items(), key=lambda item: (-item[1], item[0]))
    assert most_common(paths, 1, 10**6, tmp_path / "merging") == expected
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1", "2", "3", "4", "5", "6"}


def test_rare_words_and_all_but_the_most_frequent_are_left_out(tmp_path: Path) -> None:
    paths = [counted(tmp_path / "1", ["a", "a", "b", "b", "c"]), counted(tmp_path / "2", ["a", "c", "d"])]
    assert most_common(paths, 2, 100, tmp_path / "merging") == [("a", 3), ("b", 2), ("c", 2)]
    assert most_common(paths, 1, 2, tmp_path / "merging") == [("a", 3), ("b", 2)]
    assert most_common(paths, 9, 2, tmp_path / "merging") == []
    assert most_common([], 1, 2, tmp_path / "merging") == []


def test_the_order_of_the_texts_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_MAX_IN_MEMORY", 50)
    all_words = drawn(3000)
    orders = (all_words, sorted(all_words), all_words[::-1])
    found = [most_common([counted(tmp_path / "words", each)], 2, 300, tmp_path / "merging") for each in orders]
    assert found[0] == found[1] == found[2]


def test_the_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    listed = [("|", 12), ('"', 3), ("größe", 2)]
    assert write_words(tmp_path, listed).name == WORDS
    assert read_words(tmp_path) == listed


@pytest.mark.parametrize("content", ["[", '{"schema_version": 1}', '{"schema_version": 1, "words": 5}'])
def test_anything_else_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / WORDS).write_text(content)
    with pytest.raises(MemeloomError, match=r"words\.json: not a vocabulary"):
        read_words(tmp_path)
