"""Texts and templates are read thousands at once, and are what the records say, whoever wrote them."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from memeloom.dataset import texts as module
from memeloom.dataset.examples import EXAMPLE, VALUE, list_headers, parse_example
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.formats.tfrecord import RecordWriter
from memeloom.dataset.schema import DatasetRecord, encode_record
from memeloom.dataset.texts import read_texts

LETTERS = "ab |é☃𝄞"


@cache
def records(count: int, *, pictures: bool = False, seed: int = 1) -> list[DatasetRecord]:
    """Return records whose parts have lengths of one, two and three bytes."""
    rng = random.Random(seed)
    text = "".join(rng.choices(LETTERS, k=40_000))

    def letters(most: int) -> str:
        start = rng.randrange(20_000)
        return text[start : start + rng.randrange(most)]

    return [
        DatasetRecord(
            f"toy:{number}", letters(9) + "t", letters(200), "toy", "train",
            letters(20_000 if rng.random() < 0.02 else rng.choice([2, 60, 200])),
            tuple(letters(30) for _ in range(rng.randrange(5))), letters(70),
            rng.randbytes(rng.choice([0, 100, 20_000])) if pictures and number % 3 else None,
        )
        for number in range(count)
    ]  # fmt: skip


def write(path: Path, payloads: list[bytes]) -> Path:
    with RecordWriter(path) as writer:
        for payload in payloads:
            writer.append(payload)
    return path


def read(path: Path) -> list[tuple[str, str]]:
    found = []
    for part in read_texts(path, "tfrecord"):
        at = 0
        for length, template in zip(part.lengths.tolist(), part.templates, strict=True):
            found.append((part.text[at : at + length], template))
            at += length
        assert at == len(part.text)
    return found


def said(made: list[DatasetRecord]) -> list[tuple[str, str]]:
    return [(record.text, record.template) for record in made]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the parts that were not read side by side."""
    sizes: list[int] = []
    original = module._one_by_one

    def watched(payloads: list[bytes], path: Path, number: int, offset: int) -> module.Texts:
        sizes.append(len(payloads))
        return original(payloads, path, number, offset)

    monkeypatch.setattr(module, "_one_by_one", watched)
    return sizes


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("pictures", [False, True])
def test_our_own_records_are_read_side_by_side(tmp_path: Path, slow: list[int], suffix: str, pictures: bool) -> None:
    made = records(5000 if not pictures else 300, pictures=pictures)
    path = write(tmp_path / f"a.tfrecord{suffix}", [encode_record(record) for record in made])
    assert read(path) == said(made)
    assert slow == []


def test_records_with_pictures_are_taken_apart_some_bytes_at_a_time(
    tmp_path: Path, slow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = records(800, pictures=True)
    path = write(tmp_path / "a.tfrecord", [encode_record(record) for record in made])
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", 1 << 20)
    assert len(list(read_texts(path, "tfrecord"))) > 2
    assert read(path) == said(made)
    assert slow == []


def example(features: Mapping[str, Sequence[bytes]]) -> bytes:
    """Return an Example with these features in this order."""
    parts = []
    for name, values in features.items():
        listed = b"".join(VALUE[len(value)] + value for value in values)
        parts.append(list_headers(name)[len(listed)] + listed)
    body = b"".join(parts)
    return EXAMPLE[len(body)] + body


def features_of(payload: bytes) -> dict[str, list[bytes]]:
    features = parse_example(payload)
    return {name: list(features[name].bytes_list.value) for name in sorted(features)}


def in_another_order(payload: bytes) -> bytes:
    """Return the same Example with its features in reverse, as another writer may do."""
    return example(dict(reversed(features_of(payload).items())))


def with_one_more(payload: bytes) -> bytes:
    return example({**features_of(payload), "zest": [b"lemon"]})


@pytest.mark.parametrize("foreign", [in_another_order, with_one_more])
def test_records_of_other_writers_are_read_all_the_same(
    tmp_path: Path, slow: list[int], foreign: Callable[[bytes], bytes]
) -> None:
    made = records(40)
    payloads = [encode_record(record) for record in made]
    payloads[17] = foreign(payloads[17])
    assert read(write(tmp_path / "a.tfrecord", payloads)) == said(made)
    assert slow == [40]


def no_text(payload: bytes) -> bytes:
    return example({name: values for name, values in features_of(payload).items() if name != "text"})


def bad_text(payload: bytes) -> bytes:
    return example({**features_of(payload), "text": [b"\xff"]})


def half_a_letter(payload: bytes) -> bytes:
    return example({**features_of(payload), "text": ["é".encode()[1:]]})


def bad_template(payload: bytes) -> bytes:
    return example({**features_of(payload), "template": [b"\xff"]})


def nothing(_: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("spoil", [no_text, bad_text, half_a_letter, bad_template, nothing, lambda data: data[:-1]])
def test_what_is_no_record_is_named_with_its_place(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    payloads = [encode_record(record) for record in records(4200)]
    # The record before ends within the character that `half_a_letter` goes on with.
    payloads[4149] = (
        example({**features_of(payloads[4149]), "text": [b"\xc3"]}) if spoil is half_a_letter else payloads[4149]
    )
    payloads[4150] = spoil(payloads[4150])
    path = write(tmp_path / "a.tfrecord", payloads)
    with pytest.raises(DamagedRecords) as quick:
        read(path)
    with pytest.raises(DamagedRecords) as plain:
        list(FORMATS["tfrecord"].read(path))
    assert str(quick.value) == str(plain.value)


def test_bytes_at_random_never_read_as_something_else(tmp_path: Path) -> None:
    rng = random.Random(3)
    for number in range(150):
        payload = bytearray(encode_record(records(1, seed=number)[0])[:300])
        payload[rng.randrange(len(payload))] = rng.randrange(256)
        path = write(tmp_path / f"{number}.tfrecord", [bytes(payload)])
        try:
            expected = said(list(FORMATS["tfrecord"].read(path)))
        except DamagedRecords:
            expected = None
        try:
            found = read(path)
        except DamagedRecords:
            assert expected is None
        else:
            assert expected is None or found == expected
