"""Texts and templates of a file are those of its records, and the first damaged record is named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memeloom.dataset import texts as module
from memeloom.dataset.examples import EXAMPLE, VALUE, list_headers
from memeloom.dataset.formats.contract import FormatName
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.formats.tfrecord import RecordWriter
from memeloom.dataset.schema import DatasetRecord, encode_record
from memeloom.dataset.texts import read_texts

RECORDS = [
    DatasetRecord(f"toy:{n}", f"t{n % 7}é", "Name", "toy", "train", "ab |é☃𝄞"[: n % 7] * n, (), "", None)
    for n in range(50)
]


def read(path: Path, format_name: FormatName = "tfrecord") -> list[tuple[str, str]]:
    found = []
    for part in read_texts(path, format_name):
        ends = part.lengths.cumsum()
        assert ends[-1] == len(part.text)
        texts = [part.text[end - length : end] for end, length in zip(ends, part.lengths, strict=True)]
        found += list(zip(texts, part.templates, strict=True))
    return found


@pytest.mark.parametrize("format_name", ["tfrecord", "parquet", "webdataset"])
def test_texts_of_each_format(tmp_path: Path, format_name: FormatName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 20)
    path = tmp_path / f"a{FORMATS[format_name].suffixes['none']}"
    file = FORMATS[format_name].create(path, "none", pictures=False)
    for record in RECORDS:
        file.write(record)
    file.close()
    assert read(path, format_name) == [(record.text, record.template) for record in RECORDS]


def example(**features: list[bytes]) -> bytes:
    """Return an Example with these features in this order."""
    parts = []
    for name, values in features.items():
        listed = b"".join(VALUE[len(value)] + value for value in values)
        parts.append(list_headers(name)[len(listed)] + listed)
    body = b"".join(parts)
    return EXAMPLE[len(body)] + body


def write(path: Path, payloads: list[bytes]) -> Path:
    with RecordWriter(path) as writer:
        for payload in payloads:
            writer.write(payload)
    return path


def test_features_of_other_writers_may_be_in_another_order_and_more(tmp_path: Path) -> None:
    payload = example(zest=[b"lemon"], text=["é|".encode()], template=[b"t"])
    assert read(write(tmp_path / "a.tfrecord", [payload])) == [("é|", "t")]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda _: example(template=[b"t"]),
        lambda _: example(template=[b"t"], text=[]),
        lambda _: example(template=[b"t"], text=["é".encode()[1:]]),
        lambda _: example(template=[b"\xff"], text=[b"a"]),
    ],
)
def test_a_damaged_record_is_named_with_its_place(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    payloads = [encode_record(record) for record in RECORDS]
    payloads[40] = damage(payloads[40])
    path = write(tmp_path / "a.tfrecord", payloads)
    with pytest.raises(DamagedRecords) as found:
        read(path)
    assert (found.value.record, found.value.offset) == (41, sum(len(each) + 16 for each in payloads[:40]))
    with pytest.raises(DamagedRecords) as whole:
        list(FORMATS["tfrecord"].read(path))
    assert (whole.value.record, whole.value.offset) == (found.value.record, found.value.offset)
