"""Texts and templates of a file are those of its records, and the first damaged record is named."""

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from memeloom.dataset import texts as module
from memeloom.dataset.examples import EXAMPLE, VALUE, list_headers, parse_example
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.formats.tfrecord import RecordWriter
from memeloom.dataset.schema import INTEGERS, DatasetRecord, encode_record
from memeloom.dataset.texts import read_texts

Pairs = list[tuple[str, str]]


@cache
def records(count: int, *, pictures: bool = False, seed: int = 1) -> list[DatasetRecord]:
    """Return records whose parts have lengths of one, two and three bytes."""
    rng = random.Random(seed)
    text = "".join(rng.choices("ab |é☃𝄞", k=40_000))

    def letters(most: int) -> str:
        start = rng.randrange(20_000)
        return text[start : start + rng.randrange(most)]

    return [
        DatasetRecord(
            f"toy:{number}", letters(9) + "t", letters(200), "toy", "train",
            letters(20_000 if rng.random() < 0.02 else rng.choice([2, 60, 200])),
            tuple(letters(30) for _ in range(rng.randrange(5))), letters(70),
            rng.randbytes(rng.choice([0, 100, 20_000])) if pictures and number % 3 else None,
            *(rng.choice([None, 0, -1, 200, 2**40]) for _ in INTEGERS),
        )
        for number in range(count)
    ]  # fmt: skip


def write(path: Path, payloads: list[bytes]) -> Path:
    with RecordWriter(path) as writer:
        for payload in payloads:
            writer.append(payload)
    return path


def read(path: Path) -> Pairs:
    found = []
    for part in read_texts(path, "tfrecord"):
        ends = part.lengths.cumsum()
        assert ends[-1] == len(part.text)
        texts = [part.text[end - length : end] for end, length in zip(ends, part.lengths, strict=True)]
        found += list(zip(texts, part.templates, strict=True))
    return found


def pairs(records: Sequence[DatasetRecord]) -> Pairs:
    return [(record.text, record.template) for record in records]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the parts that were not read in parallel."""
    sizes: list[int] = []
    original = module._one_by_one

    def watched(payloads: list[bytes], path: Path, number: int, offset: int) -> module.Texts:
        sizes.append(len(payloads))
        return original(payloads, path, number, offset)

    monkeypatch.setattr(module, "_one_by_one", watched)
    return sizes


@pytest.mark.parametrize(("suffix", "count", "pictures"), [(".gz", 5000, False), (".zst", 500, False), ("", 800, True)])
def test_our_own_records_are_read_in_parallel(
    tmp_path: Path, slow: list[int], suffix: str, count: int, pictures: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", 1 << 20)
    made = records(count, pictures=pictures)
    path = write(tmp_path / f"a.tfrecord{suffix}", [encode_record(record) for record in made])
    assert read(path) == pairs(made)
    assert slow == []
    assert len(list(read_texts(path, "tfrecord"))) > 2 or not pictures


def example(**features: list[bytes]) -> bytes:
    """Return an Example with these features in this order."""
    parts = []
    for name, values in features.items():
        listed = b"".join(VALUE[len(value)] + value for value in values)
        parts.append(list_headers(name)[len(listed)] + listed)
    body = b"".join(parts)
    return EXAMPLE[len(body)] + body


def features_of(payload: bytes) -> dict[str, list[bytes]]:
    features = parse_example(payload)
    return {name: list(features[name].bytes_list.value) for name in sorted(features) if name not in INTEGERS}


@pytest.mark.parametrize(
    "change",
    [lambda features: dict(reversed(features.items())), lambda features: {**features, "zest": [b"lemon"]}],
)
def test_features_of_other_writers_may_be_in_another_order_and_more(
    tmp_path: Path, slow: list[int], change: Callable[[dict[str, list[bytes]]], dict[str, list[bytes]]]
) -> None:
    made = records(40)
    payloads = [encode_record(record) for record in made]
    payloads[17] = example(**change(features_of(payloads[17])))
    assert read(write(tmp_path / "a.tfrecord", payloads)) == pairs(made)
    assert slow == [40]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda data: example(**{name: values for name, values in features_of(data).items() if name != "text"}),
        lambda data: example(**{**features_of(data), "text": [b"\xff"]}),
        lambda data: example(**{**features_of(data), "text": ["é".encode()[1:]]}),
        lambda data: example(**{**features_of(data), "template": [b"\xff"]}),
    ],
)
@pytest.mark.parametrize("before", [b"fine", b"\xc3"])
def test_a_damaged_record_is_named_with_its_place(
    tmp_path: Path, damage: Callable[[bytes], bytes], before: bytes
) -> None:
    payloads = [encode_record(record) for record in records(4200)]
    # The previous text may end within the character that the damaged one continues.
    payloads[4149] = example(**{**features_of(payloads[4149]), "text": [before]})
    payloads[4150] = damage(payloads[4150])
    path = write(tmp_path / "a.tfrecord", payloads)
    with pytest.raises(DamagedRecords) as quick:
        read(path)
    with pytest.raises(DamagedRecords) as plain:
        list(FORMATS["tfrecord"].read(path))
    assert str(quick.value) == str(plain.value)


def test_random_bytes_never_read_as_another_record(tmp_path: Path) -> None:
    rng = random.Random(3)
    for number in range(150):
        payload = bytearray(encode_record(records(1, seed=number)[0])[:300])
        payload[rng.randrange(len(payload))] = rng.randrange(256)
        path = write(tmp_path / f"{number}.tfrecord", [bytes(payload)])
        outcomes: list[Pairs | None] = []
        for reader in (read, lambda path: pairs(list(FORMATS["tfrecord"].read(path)))):
            try:
                outcomes.append(reader(path))
            except DamagedRecords:
                outcomes.append(None)
        quick, plain = outcomes
        assert quick == plain or (quick and not plain)
