"""Texts that are no captions are counted with them, and make a model better where captions are few."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.schema import Config
from memeloom.train.characters import END, Alphabet
from memeloom.train.corpus import open_dataset
from memeloom.train.fit import train_model
from memeloom.train.model_folder import load_model
from memeloom.train.ngram.contexts import Spelling
from memeloom.train.pretraining import read_pretraining

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

ALPHABET = Alphabet.of("abcdefghijklmnopqrstuvwxyz |")
SPELLING = Spelling.of(ALPHABET, "|")


def texts_of(*paths: Path) -> list[str]:
    text = read_pretraining([str(path) for path in paths], ALPHABET, SPELLING)
    characters = ALPHABET.decode(text.characters.tolist())
    return [characters[first:last] for first, last in zip(text.starts[:-1], text.starts[1:], strict=True)]


def test_lines_and_objects_are_read_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Some  words\n\n\tand more £\n")
    lines = [json.dumps(each) for each in ({"text": "a joke"}, {"title": "a title"}, "bare", 7, {"n": 1})]
    (tmp_path / "b.jsonl").write_text("\n".join([*lines, "{broken"]))
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as stream:
        stream.write('{"text": "packed"}\n')
    found = texts_of(tmp_path / "a.txt", tmp_path / "b.jsonl", tmp_path / "c.jsonl.gz")
    assert found == [f"{text}{END}" for text in ("some words", "and more ", "a joke", "a title", "bare", "packed")]


def test_hostile_files_end_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("x" * 100_000 + "\nfine words\n")
    (tmp_path / "deep.jsonl").write_text("[" * 4000 + '\n{"text": "fine"}\n')
    assert texts_of(tmp_path / "long.txt")[-1] == f"fine words{END}"
    assert texts_of(tmp_path / "deep.jsonl") == [f"fine{END}"]
    (tmp_path / "binary.txt").write_bytes(bytes(range(128, 256)) * 9)
    with gzip.open(tmp_path / "cut.txt.gz", "wt") as stream:
        stream.write("words " * 9999)
    (tmp_path / "cut.txt.gz").write_bytes((tmp_path / "cut.txt.gz").read_bytes()[:-20])
    for name in ("binary.txt", "cut.txt.gz", "never.txt"):
        with pytest.raises(MemeloomError, match=rf"^train.pretrain: \S*{name}\b[^\n]*$"):
            texts_of(tmp_path / name)


@pytest.mark.parametrize("kind", ["ngram", "causal"])
def test_other_texts_help_where_captions_are_few(
    tmp_path: Path, toy: Callable[..., Config], write_dataset: Callable[..., Any], kind: str
) -> None:
    words = ("walk into mordor", "eat one cookie", "simply leave", "never sleep")
    learned = [("61533", ("one does not", "abcd"))] * 8
    held = [("61533", (word, word)) for word in words]
    write_dataset(tmp_path / "dataset", {"train": learned, "validation": held, "test": held})
    (tmp_path / "texts.txt").write_text("\n".join(words * 3))
    bits = {}
    for name, pretrain in (("plain", "[]"), ("pretrained", f"[{tmp_path / 'texts.txt'}]")):
        config = toy(tmp_path, output=str(tmp_path / name), model=kind, pretrain=pretrain, steps_per_epoch=12)
        train_model(config)
        check = open_dataset(Path(config.train.dataset)).validation
        scores = load_model(tmp_path / name).score(check, 0, len(check))
        bits[name] = -scores.log_likelihood.sum() / scores.characters.sum()
    assert bits["pretrained"] < bits["plain"] / 1.3
    with pytest.raises(MemeloomError, match="it learned from other texts"):
        train_model(toy(tmp_path, output=str(tmp_path / "pretrained"), model=kind))


def test_kinds_that_read_no_other_texts_say_so(tmp_path: Path, toy: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match="convnet does not read other texts; causal and ngram do"):
        train_model(toy(tmp_path, model="convnet", pretrain=f"[{tmp_path}]"))
