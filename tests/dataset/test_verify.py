"""`verify` finds whatever is wrong with a dataset, and names the first of it."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from memeloom.catalog.records import Meme
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset import verify
from memeloom.dataset.build import build_dataset
from memeloom.dataset.formats.contract import FormatName
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.manifest import MANIFEST, Manifest, NotADataset, file_sha256, read_manifest
from memeloom.dataset.schema import DatasetRecord
from memeloom.dataset.verify import records_of, verify_dataset
from memeloom.dataset.vocabulary import VOCABULARY, WORDS

MakeConfig = Callable[..., Config]
MakeMemes = Callable[..., list[Meme]]
Fill = Callable[[Config, Iterable[Meme]], None]
Make = Callable[..., Path]


@pytest.fixture
def built(config: MakeConfig, fill: Fill, english: MakeMemes) -> Make:
    """Builds a dataset of 200 captions; returns its folder."""

    def make(format_: FormatName = "tfrecord", compression: str = "none") -> Path:
        settings = config(format=format_, compression=compression, shard_records=70)
        fill(settings, english(200))
        build_dataset(settings, Silent())
        return Path(settings.dataset.output)

    return make


def rewrite(folder: Path, change: Callable[[list[DatasetRecord]], None], shard: int = 0) -> Path:
    """Change the records of a shard; the manifest goes along with what is seen from outside."""
    manifest = read_manifest(folder)
    changed = manifest.shards[shard]
    records = list(records_of(folder, manifest, changed))
    change(records)
    path = folder / changed.name
    path.unlink()
    file = FORMATS[manifest.format].create(path, manifest.compression, pictures=manifest.images != "none")
    for record in records:
        file.write(record)
    file.close()
    edit(folder, path.name, records=len(records), bytes=file.bytes, sha256=file.sha256)
    return path


def edit(folder: Path, name: str = "", **changes: Any) -> None:
    """Change the manifest, or what it says of one file."""
    path = folder / MANIFEST
    content = json.loads(path.read_text())
    files = [*content["shards"], content["vocabulary"], content["word_list"]]
    next((file for file in files if file["name"] == name), content).update(changes)
    path.write_text(json.dumps(content))


def edit_file(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    edit(folder, name, bytes=path.stat().st_size, sha256=file_sha256(path))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_whole_dataset_is_verified(built: Make, format_: FormatName) -> None:
    folder = built(format_)
    assert verify_dataset(folder) == read_manifest(folder)


def test_a_flipped_byte_names_file_offset_and_record(built: Make) -> None:
    folder = built()
    path = next(iter(sorted(folder.glob("train-*.tfrecord"))))
    data = bytearray(path.read_bytes())
    second = 16 + int.from_bytes(data[:8], "little")
    data[second + 100] ^= 1
    path.write_bytes(data)
    read_manifest(folder)
    with pytest.raises(DamagedRecords, match=rf"{path.name}: wrong crc of a record at byte {second} \(record 2\)") as e:
        verify_dataset(folder)
    assert (e.value.path, e.value.offset, e.value.record) == (path, second, 2)


@pytest.mark.parametrize("format_", ["tfrecord", "parquet", "webdataset"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_flipped_byte_anywhere_is_found_in_every_format(built: Make, format_: FormatName, compression: str) -> None:
    folder = built(format_, compression)
    path = folder / read_manifest(folder).shards[0].name
    whole = path.read_bytes()
    for at in range(3, len(whole), len(whole) // 12):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises((DamagedRecords, NotADataset), match=path.name):
            verify_dataset(folder)
    path.write_bytes(whole)
    verify_dataset(folder)


def test_valid_records_that_are_others_are_found_by_the_sha256(built: Make) -> None:
    folder = built()
    manifest = (folder / MANIFEST).read_text()
    rewrite(folder, lambda records: records.reverse())
    (folder / MANIFEST).write_text(manifest)
    with pytest.raises(NotADataset, match=r"train-00000-of-00004\.tfrecord: its sha256 is not the manifest's"):
        verify_dataset(folder)


@pytest.mark.parametrize("name", [VOCABULARY, WORDS])
def test_a_flipped_byte_of_a_vocabulary_is_found(built: Make, name: str) -> None:
    folder = built()
    path = folder / name
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"e"', b'"f"') if name == VOCABULARY else data.replace(b'"when"', b'"whem"'))
    with pytest.raises(NotADataset, match=rf"{name}: its sha256"):
        verify_dataset(folder)


def first(**changes: Any) -> Callable[[list[DatasetRecord]], None]:
    def change(records: list[DatasetRecord]) -> None:
        records[0] = records[0]._replace(**changes)

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (first(id=""), r"record without id, template or source at byte 0 \(record 1\)"),
        (first(split="test"), r"record of split 'test' in a shard for train at byte 0 \(record 1\)"),
        (first(text="something else|"), r"record whose text differs from its boxes at byte 0"),
        (first(image=b"unasked"), r"record with a picture at byte 0"),
    ],
)
def test_a_record_that_breaks_the_schema_is_named(
    built: Make, change: Callable[[list[DatasetRecord]], None], fault: str
) -> None:
    folder = built()
    rewrite(folder, change)
    with pytest.raises(DamagedRecords, match=rf"train-00000-of-00004\.tfrecord: {fault}"):
        verify_dataset(folder)


def test_bytes_that_are_no_record_are_named(built: Make) -> None:
    from memeloom.dataset.formats.tfrecord import RecordWriter

    folder = built()
    shard = read_manifest(folder).shards[0]
    path = folder / shard.name
    path.unlink()
    with RecordWriter(path) as writer:
        writer.write(b"no example")
    edit(folder, shard.name, bytes=writer.bytes, sha256=writer.sha256)
    with pytest.raises(DamagedRecords, match=r"not a .* at byte 0 \(record 1\)"):
        verify_dataset(folder)


def test_a_picture_that_is_not_its_key_is_named(built: Make) -> None:
    folder = built()
    manifest = read_manifest(folder)
    picture = b"\xff\xd8\xff picture"
    key = hashlib.sha256(picture).hexdigest()
    edit(folder, images="meme")

    def with_pictures(records: list[DatasetRecord]) -> None:
        records[:] = [record._replace(image=picture, image_key=key) for record in records]

    for shard in range(len(manifest.shards)):
        rewrite(folder, with_pictures, shard)
    verify_dataset(folder)

    def lie(records: list[DatasetRecord]) -> None:
        records[3] = records[3]._replace(image=picture + b"!")

    rewrite(folder, lie)
    with pytest.raises(DamagedRecords, match=r"picture whose sha256 is not its key at byte .* \(record 4\)"):
        verify_dataset(folder)


def test_a_caption_on_two_sides_is_found_whatever_its_case_and_boxes(built: Make) -> None:
    folder = built()
    manifest = read_manifest(folder)
    test = next(shard for shard in manifest.shards if shard.split == "test")
    leaked = next(iter(records_of(folder, manifest, test)))
    words = " ".join(leaked.boxes).upper()

    def leak(records: list[DatasetRecord]) -> None:
        at = next(n for n, record in enumerate(records) if record.template == leaked.template)
        records[at] = records[at]._replace(boxes=(words,), text=f"{words}|")

    path = rewrite(folder, leak)
    recount(folder)
    with pytest.raises(NotADataset, match=rf"in {path.name} and {leaked.id} in {test.name} are the same caption"):
        verify_dataset(folder)


def recount(folder: Path) -> None:
    """Let the vocabulary say what the records say now, so that only the overlap is wrong."""
    from collections import Counter

    from memeloom.dataset.vocabulary import Vocabulary

    manifest = read_manifest(folder)
    texts = [record.text for shard in manifest.shards for record in records_of(folder, manifest, shard)]
    vocabulary = Vocabulary.of(Counter("".join(texts)))
    path = vocabulary.write(folder)
    edit(folder, VOCABULARY, bytes=path.stat().st_size, sha256=file_sha256(path))
    edit(folder, characters=len(vocabulary.characters))


def test_an_id_that_stands_twice_is_found(built: Make) -> None:
    folder = built()

    def twice(records: list[DatasetRecord]) -> None:
        records[5] = records[5]._replace(id=records[0].id)

    rewrite(folder, twice)
    with pytest.raises(NotADataset, match=r"imgflip:\w+ is in train-\S+ and again in train-\S+; build"):
        verify_dataset(folder)


@pytest.mark.parametrize("hashes", [10, 100])
def test_overlaps_are_found_across_files_of_hashes(built: Make, hashes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_FILE_HASHES", hashes)
    monkeypatch.setattr(verify, "_BUFFER_BYTES", 100)
    folder = built()
    verify_dataset(folder)
    test_an_id_that_stands_twice_is_found(lambda: folder)


def drop_last(records: list[DatasetRecord]) -> None:
    records.pop()


def test_too_few_records_are_found(built: Make) -> None:
    folder = built()
    path = rewrite(folder, drop_last)
    expected = read_manifest(folder).shards[0].records + 1
    edit(folder, path.name, records=expected)
    with pytest.raises(NotADataset, match=rf"{path.name}: {expected - 1} records, expected {expected}"):
        verify_dataset(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": 201}, "records ''.*: 200, expected 201"),
        ({"kept": {"imgflip": 199, "reddit": 1}}, "source 'imgflip': 200, expected 199"),
        ({"characters": 3}, r"characters '': \d+, expected 3"),
        ({"words": 3}, r"words '': \d+, expected 3"),
    ],
)
def test_a_count_that_is_wrong_is_named(built: Make, changes: dict[str, Any], message: str) -> None:
    folder = built()
    edit(folder, **changes)
    with pytest.raises(NotADataset, match=message):
        verify_dataset(folder)


def test_a_count_of_the_vocabulary_that_is_wrong_is_named(built: Make) -> None:
    folder = built()
    content = json.loads((folder / VOCABULARY).read_text())
    character, count = content["characters"][0]
    content["characters"][0][1] = count + 1
    (folder / VOCABULARY).write_text(json.dumps(content))
    path = folder / VOCABULARY
    edit(folder, VOCABULARY, bytes=path.stat().st_size, sha256=file_sha256(path))
    with pytest.raises(NotADataset, match=rf"character {character!r}: {count:,}, expected {count + 1:,}"):
        verify_dataset(folder)


def test_a_template_that_is_not_there_is_named(built: Make) -> None:
    folder = built()
    content = json.loads((folder / MANIFEST).read_text())
    content["templates"][0]["id"] = "nobody"
    (folder / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(NotADataset, match=r"template 'nobody': 0, expected \d+"):
        verify_dataset(folder)


def test_a_dataset_without_records_is_whole(built: Make) -> None:
    folder = built()
    manifest = read_manifest(folder)
    for shard in manifest.shards:
        (folder / shard.name).unlink()
    nothing = manifest.model_copy(
        update={"records": 0, "splits": dict.fromkeys(manifest.splits, 0), "kept": {}, "shards": (), "templates": ()}
    )
    nothing.write(folder)
    recount(folder)
    assert verify_dataset(folder).records == 0


# Verifies the datasets in the folders, one after the other, and writes the peak memory of the process after each.
SCRIPT = """
import sys
from pathlib import Path
from memeloom.configs.runs import peak_rss_mb
from memeloom.dataset import verify
from memeloom.dataset.verify import verify_dataset

verify._FILE_HASHES, verify._BUFFER_BYTES = 2000, 2**16
for folder in sys.argv[1:]:
    verify_dataset(Path(folder))
    sys.stdout.write(f"{peak_rss_mb()}\\n")
"""


def grown(folder: Path, times: int) -> Path:
    """A copy with each record so many times over, under other ids and in other words."""
    copy = folder.with_name(f"times{times}")
    shutil.copytree(folder, copy)

    def more(records: list[DatasetRecord]) -> None:
        records[:] = [
            record._replace(id=f"{record.id}x{n}", boxes=(*record.boxes, f"{n}"), text=f"{record.text}{n}|")
            for record in records
            for n in range(times)
        ]

    for shard in range(len(read_manifest(folder).shards)):
        rewrite(copy, more, shard)
    manifest: Manifest = read_manifest(copy)
    edit(
        copy,
        records=manifest.records * times,
        splits={split: count * times for split, count in manifest.splits.items()},
        kept={source: count * times for source, count in manifest.kept.items()},
        templates=[t.model_dump(mode="json") | {"captions": t.captions * times} for t in manifest.templates],
    )
    recount(copy)
    return copy


def test_ten_times_the_records_take_no_more_memory(built: Make) -> None:
    folder = built()
    small, large = grown(folder, 20), grown(folder, 200)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(small), str(large)], capture_output=True, text=True, timeout=240, check=True
    )
    few, many = map(int, done.stdout.split())
    assert few > 20
    assert many - few < 10, f"{few} MB for 4,000 records, {many} MB for 40,000"
