"""The inputs of `convnet`: every prefix of every caption once a pass, in an order that the seed fixes."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.manifest import Manifest, read_manifest
from memeloom.dataset.schema import Split
from memeloom.dataset.vocabulary import read_vocabulary
from memeloom.train.characters import Alphabet, prefix
from memeloom.train.contract import Prompt
from memeloom.train.convnet.examples import Cut, compose, examples_of, one_pass_of
from memeloom.train.convnet.model import ConvnetCaptioner, build_convnet
from memeloom.train.corpus import Captions, read_captions
from memeloom.train.decoding.sampling import by_threshold, write_captions

Writer: TypeAlias = Callable[..., Manifest]
LENGTH = 40
ROOM_FOR_TEXT = LENGTH - 18


def odd_captions(seed: int) -> list[tuple[str, tuple[str, ...]]]:
    """Long, short, empty and many boxes; letters of several alphabets; three templates."""
    rng = random.Random(seed)
    made = [("doge", ("x",)), ("61533", ("", "")), ("61533", ("a" * 90, "é" * 3)), ("12", ("☃",) * 12)]
    for _ in range(40):
        boxes = tuple("".join(rng.choices("abc dé☃", k=rng.randrange(30))) for _ in range(rng.randrange(1, 5)))
        made.append((rng.choice(["doge", "61533", "12"]), boxes))
    return made


def slowly(captions: list[tuple[str, tuple[str, ...]]], alphabet: Alphabet) -> list[tuple[tuple[int, ...], int]]:
    """All examples as the article describes them, one by one."""
    examples = []
    for template, boxes in captions:
        text = "".join(f"{box}|" for box in boxes)
        for at, character in enumerate(text):
            so_far = text[:at]
            seen = prefix(template, so_far.count("|")) + so_far[max(0, at - ROOM_FOR_TEXT) :]
            numbers = [alphabet.characters.index(letter) + 1 for letter in seen]
            examples.append((tuple([0] * (LENGTH - len(numbers)) + numbers), alphabet.characters.index(character)))
    return examples


def examples(captions: Captions, batches: Iterable[Any]) -> list[tuple[tuple[int, ...], int]]:
    """What the network is shown for the places of `batches`."""
    cut = Cut(captions, LENGTH)
    return [
        (tuple(row.tolist()), int(label))
        for places, labels in batches
        for row, label in zip(np.asarray(cut(places)), labels, strict=True)
    ]


def steps_of(captions: Captions, batch: int, seed: int, steps: range) -> Iterable[Any]:
    return (examples_of(captions, step, batch=batch, seed=seed) for step in steps)


def one_pass(captions: Captions, batch: int, seed: int, batches: int | None = None) -> Iterable[Any]:
    every = range(-(-captions.examples // batch))
    return (one_pass_of(captions, step, batch=batch, seed=seed) for step in every[:batches])


def read(folder: Path, split: Split = "train") -> tuple[Captions, Alphabet]:
    alphabet = Alphabet.of(read_vocabulary(folder).characters)
    return read_captions(folder, read_manifest(folder), split, alphabet), alphabet


@pytest.fixture
def odd(tmp_path: Path, write_dataset: Writer) -> Manifest:
    rows = {"train": odd_captions(1), "validation": odd_captions(2), "test": odd_captions(3)}
    return write_dataset(tmp_path, rows, shard_records=17)


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize(("split", "seed"), [("train", 1), ("validation", 2)])
def test_a_pass_yields_every_prefix_of_every_caption_of_its_split_once(
    tmp_path: Path, write_dataset: Writer, split: Split, seed: int, compression: str
) -> None:
    rows = {"train": odd_captions(1), "validation": odd_captions(2), "test": odd_captions(3)}
    write_dataset(tmp_path, rows, compression, shard_records=17)
    captions, alphabet = read(tmp_path, split)
    shown = examples(captions, one_pass(captions, batch=50, seed=4))
    assert Counter(shown) == Counter(slowly(odd_captions(seed), alphabet))


def test_training_passes_are_complete_and_differ_in_order(tmp_path: Path, odd: Manifest) -> None:
    captions, alphabet = read(tmp_path)
    total = captions.examples
    shown = examples(captions, steps_of(captions, 64, 9, range(2 * total // 64 + 1)))
    first, second = shown[:total], shown[total : 2 * total]
    expected = slowly(odd_captions(1), alphabet)
    assert Counter(first) == Counter(second) == Counter(expected)
    assert first != second
    assert first != expected


def test_batches_depend_only_on_seed_and_step(tmp_path: Path, odd: Manifest) -> None:
    captions, _ = read(tmp_path)

    def shown(seed: int, steps: range) -> list[tuple[tuple[int, ...], int]]:
        return examples(captions, steps_of(captions, 32, seed, steps))

    whole = shown(3, range(200))
    assert shown(3, range(150, 200)) == whole[150 * 32 :]
    assert shown(4, range(200)) != whole


def test_the_validation_sample_is_always_the_same(tmp_path: Path, odd: Manifest) -> None:
    captions, _ = read(tmp_path, "validation")
    once, again = (examples(captions, one_pass(captions, batch=32, seed=5, batches=3)) for _ in range(2))
    assert len(once) == 96
    assert once == again


def test_unknown_characters_are_skipped(tmp_path: Path, odd: Manifest) -> None:
    alphabet = Alphabet.of("abc|")
    captions = read_captions(tmp_path, odd, "train", alphabet)
    known = [
        (template, tuple("".join(c for c in box if c in alphabet.characters) for box in boxes))
        for template, boxes in odd_captions(1)
    ]
    shown = examples(captions, one_pass(captions, batch=50, seed=4))
    assert Counter(shown) == Counter(slowly(known, alphabet))


class Parrot(ConvnetCaptioner):
    """Recites a caption and records the inputs of its network."""

    def __init__(self, numbers: list[int], alphabet: Alphabet, manifest: Manifest) -> None:
        network = build_convnet(len(alphabet), filters=1, embedding=1, sequence_length=LENGTH, dropout=0, seed=1)
        super().__init__(network, alphabet, manifest.templates, "|")
        self.shown: list[tuple[tuple[int, ...], int]] = []
        self._numbers = numbers
        self.following = self._recite

    def _recite(self, *parts: Any) -> Any:
        following = self._numbers[len(self.shown)] - 1
        self.shown.append((tuple(np.asarray(compose(*parts))[0].tolist()), following))
        return np.log(np.eye(len(self.alphabet), dtype=np.float32)[[following]] + np.float32(1e-12))


def test_generation_gives_the_network_the_same_inputs_as_training(tmp_path: Path, write_dataset: Writer) -> None:
    boxes = ("when the caption is longer than what fits", "", *"abcdefghij", "the end")
    manifest = write_dataset(tmp_path, {"train": [("doge", boxes)]})
    captions, alphabet = read(tmp_path)
    parrot = Parrot(captions.characters.tolist(), alphabet, manifest)
    rng = np.random.default_rng(1)
    written = write_captions(parrot, [Prompt(manifest.templates[0])], by_threshold(1), max_characters=500, rng=rng)
    assert written[0].texts == boxes
    trained = examples(captions, one_pass(captions, batch=50, seed=4))
    assert Counter(parrot.shown) == Counter(trained)


def test_a_split_without_captions_is_refused(tmp_path: Path, write_dataset: Writer) -> None:
    write_dataset(tmp_path, {"train": odd_captions(1)})
    with pytest.raises(MemeloomError, match="no validation captions"):
        read(tmp_path, "validation")


def test_a_damaged_shard_is_named(tmp_path: Path, write_dataset: Writer) -> None:
    write_dataset(tmp_path, {"train": odd_captions(1)}, "none", shard_records=17)
    shard = tmp_path / "train-00001-of-00003.tfrecord"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(DamagedRecords, match=r"train-00001-of-00003\.tfrecord.*build the dataset again"):
        read(tmp_path)


def test_a_template_that_the_manifest_lacks_is_refused(tmp_path: Path, odd: Manifest) -> None:
    templates = odd.templates[:1]
    odd.model_copy(update={"templates": templates}).write(tmp_path)
    with pytest.raises(MemeloomError, match="template that the manifest lacks"):
        read(tmp_path)
