"""TFRecord files: what is written comes back, and damage is named with file and offset."""

import gzip
import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.formats.packed import DamagedRecords, HashedFile
from memeloom.dataset.formats.tfrecord import RecordWriter, frame, masked_crc, read_records

PAYLOADS = [b"", b"a", "ünïcode ✓".encode(), b"\0" * 1000, random.Random(3).randbytes(300_000)]
NAMES = ["a.tfrecord", "a.tfrecord.gz", "a.tfrecord.zst"]


def write(path: Path, payloads: list[bytes]) -> RecordWriter:
    with RecordWriter(path) as writer:
        for payload in payloads:
            writer.write(payload)
    return writer


def test_masked_crc_is_the_published_one() -> None:
    # CRC-32C of "123456789" is 0xE3069283 (RFC 3720, B.4); masked by hand.
    assert masked_crc(b"123456789") == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_comes_back(tmp_path: Path, name: str) -> None:
    writer = write(tmp_path / name, PAYLOADS)
    assert list(read_records(tmp_path / name)) == PAYLOADS
    assert writer.records == len(PAYLOADS)
    assert writer.bytes == (tmp_path / name).stat().st_size


@pytest.mark.parametrize("name", NAMES)
def test_the_same_records_are_the_same_bytes(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    first = write(tmp_path / name, PAYLOADS)
    monkeypatch.setattr("time.time", lambda: 4e9)
    second = write(tmp_path / "other" / f"other-{name}", PAYLOADS)
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == second.sha256


def test_a_gzip_file_is_one_that_everybody_reads(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord.gz", PAYLOADS)
    unpacked = gzip.decompress((tmp_path / "a.tfrecord.gz").read_bytes())
    assert unpacked == b"".join(frame(payload) for payload in PAYLOADS)


def test_an_empty_file_holds_no_records(tmp_path: Path) -> None:
    assert write(tmp_path / "a.tfrecord", []).records == 0
    assert list(read_records(tmp_path / "a.tfrecord")) == []


def test_a_writer_never_overwrites(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [b"one"])
    with pytest.raises(FileExistsError):
        RecordWriter(tmp_path / "a.tfrecord")


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    whole = b"".join(frame(payload) for payload in (b"first", b"second", b"third"))
    path = tmp_path / "a.tfrecord"
    starts = [0, 21, 43]
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedRecords) as caught:
            list(read_records(path))
        assert caught.value.offset == max(start for start in starts if start <= bit // 8)
        assert caught.value.record == starts.index(caught.value.offset) + 1


def test_a_file_cut_anywhere_is_found_except_between_records(tmp_path: Path) -> None:
    whole = frame(b"first") + frame(b"second")
    path = tmp_path / "a.tfrecord"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        if length in (0, len(frame(b"first"))):
            assert len(list(read_records(path))) == (length > 0)
            continue
        with pytest.raises(DamagedRecords, match="record cut off at byte"):
            list(read_records(path))


def test_what_stands_before_the_damage_is_read_first(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(b"first") + frame(b"second")[:-1])
    records = read_records(path)
    assert next(records) == b"first"
    with pytest.raises(DamagedRecords, match=r"a\.tfrecord: record cut off at byte 21 \(record 2\); build"):
        next(records)


def test_a_length_that_lies_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(b"x" * 2000))
    with pytest.raises(DamagedRecords, match=r"record of 2,000 bytes \(limit 1,000\)"):
        list(read_records(path, max_bytes=1000))


@pytest.mark.parametrize("name", ["a.tfrecord.gz", "a.tfrecord.zst"])
def test_a_packed_file_that_is_cut_or_altered_or_something_else_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    payloads = [b"first", b"second", random.Random(2).randbytes(3000)]
    write(path, payloads)
    whole = path.read_bytes()
    for length in (1, 5, 20, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedRecords, match=r"a\.tfrecord\.(gz|zst): .* of the unpacked stream \(record \d\)"):
            list(read_records(path))
    for at in range(10, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 8]) + whole[at + 1 :])
        try:
            assert list(read_records(path)) == payloads, "a bit that means nothing to the packing"
        except DamagedRecords:
            continue
    for other in (b"neither of them", whole + b"and more", whole + whole):
        path.write_bytes(other)
        with pytest.raises(DamagedRecords, match=r"broken (gzip|zstd) stream"):
            list(read_records(path))


@pytest.mark.parametrize("name", ["a.tfrecord.gz", "a.tfrecord.zst"])
def test_a_packed_bomb_is_refused_after_its_first_record(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    bomb = HashedFile(path)
    bomb.write(frame(b"first"))
    bomb.write(struct.pack("<Q", 2**40) + struct.pack("<I", masked_crc(struct.pack("<Q", 2**40))))
    for _ in range(64):
        bomb.write(bytes(2**20))
    bomb.close()
    assert path.stat().st_size < 2**19
    tracemalloc.start()
    records = read_records(path)
    assert next(records) == b"first"
    with pytest.raises(DamagedRecords, match=r"record of 1,099,511,627,776 bytes"):
        next(records)
    assert tracemalloc.get_traced_memory()[1] < 2**27
    tracemalloc.stop()


@pytest.mark.parametrize("name", NAMES)
def test_records_of_any_size_may_lie_across_what_is_read_at_once(tmp_path: Path, name: str) -> None:
    rng = random.Random(9)
    payloads = [rng.randbytes(rng.choice([0, 3, 2**18 - 17, 2**18 - 16, 2**18, 900_000])) for _ in range(40)]
    write(tmp_path / name, payloads)
    assert list(read_records(tmp_path / name)) == payloads


def test_a_missing_file_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(MemeloomError, match="No such file"):
        list(read_records(tmp_path / "none.tfrecord"))


def test_a_record_beyond_the_limit_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memeloom.dataset.formats.tfrecord.MAX_RECORD_BYTES", 10)
    with RecordWriter(tmp_path / "a.tfrecord") as writer, pytest.raises(ValueError, match="limit is 10"):
        writer.write(b"x" * 11)
