"""Readers and writers of other packages for `bench.dataset_io_worker`, each the fastest that its manual shows.

Imports nothing from memeloom.
"""

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]
Way = tuple[Callable[[Path], None], Callable[[Path], Any]]


def tensorflow_frames(compression: str, rows: Rows) -> Way:
    """tf.io.TFRecordWriter and TFRecordDataset: bytes in, bytes out, read in batches of 1,000."""
    tf = _tensorflow()
    payloads = [_example(tf, row) for row in rows]
    kind = {"none": "", "gzip": "GZIP"}[compression]

    def write(folder: Path) -> None:
        with tf.io.TFRecordWriter(str(folder / "a"), kind) as writer:
            for payload in payloads:
                writer.write(payload)

    def read(folder: Path) -> Iterator[bytes]:
        files = tf.data.TFRecordDataset(str(folder / "a"), kind, buffer_size=2**20)
        for batch in files.batch(1000).as_numpy_iterator():
            yield from batch

    return write, read


def tensorflow_records(read_as: str, compression: str, rows: Rows) -> Way:
    """tf.train.Example; read_as: `columns` (arrays of 1,000, not split into records) or `records`."""
    tf = _tensorflow()
    kind = {"none": "", "gzip": "GZIP"}[compression]
    one = tf.io.FixedLenFeature([], tf.string)
    schema = {name: one for name in rows[0] if name != "boxes"} | {"boxes": tf.io.RaggedFeature(tf.string)}

    def write(folder: Path) -> None:
        with tf.io.TFRecordWriter(str(folder / "a"), kind) as writer:
            for row in rows:
                writer.write(_example(tf, row))

    def columns(folder: Path) -> Iterator[bytes]:
        batches = tf.data.TFRecordDataset(str(folder / "a"), kind, buffer_size=2**20).batch(1000)
        for batch in batches.map(lambda data: tf.io.parse_example(data, schema)).as_numpy_iterator():
            yield from batch["id"]

    def single(folder: Path) -> Any:
        files = tf.data.TFRecordDataset(str(folder / "a"), kind, buffer_size=2**20)
        return files.map(lambda data: tf.io.parse_single_example(data, schema)).as_numpy_iterator()

    return write, columns if read_as == "columns" else single


def datasets_generator(rows: Rows) -> Way:
    """`datasets`: Arrow files from a generator."""
    datasets = _datasets()

    def write(folder: Path) -> None:
        # Without a fingerprint it hashes the generator and everything it refers to.
        made = datasets.Dataset.from_generator(lambda: iter(rows), cache_dir=str(folder / "cache"), fingerprint="a")
        made.save_to_disk(str(folder / "saved"))

    return write, lambda folder: iter(datasets.load_from_disk(str(folder / "saved")))


def datasets_list(rows: Rows) -> Way:
    """`datasets`: from_list, with all records in memory, and save_to_disk."""
    datasets = _datasets()

    def write(folder: Path) -> None:
        datasets.Dataset.from_list(rows).save_to_disk(str(folder / "saved"))

    return write, lambda folder: iter(datasets.load_from_disk(str(folder / "saved")))


def tfds_builder(rows: Rows) -> Way:
    """TFDS: a GeneratorBasedBuilder with defaults (it shuffles by key and writes TFRecords)."""
    _tensorflow()
    import tensorflow_datasets as tfds

    class Memes(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]  # it has no types
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            text = {name: tfds.features.Text() for name in rows[0] if name not in {"boxes", "image"}}
            return self.dataset_info_from_configs(
                features=tfds.features.FeaturesDict(
                    {**text, "boxes": tfds.features.Sequence(tfds.features.Text())}
                    | ({"image": tfds.features.Text()} if "image" in rows[0] else {})
                )
            )

        def _split_generators(self, _: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Iterator[tuple[str, Any]]:
            for row in rows:
                yield row["id"], row

    def write(folder: Path) -> None:
        Memes(data_dir=str(folder)).download_and_prepare()

    def read(folder: Path) -> Any:
        return iter(tfds.as_numpy(Memes(data_dir=str(folder)).as_dataset(split="train")))

    return write, read


def webdataset_package(rows: Rows) -> Way:
    """The package `webdataset`: TarWriter and WebDataset."""
    import webdataset

    def write(folder: Path) -> None:
        with webdataset.TarWriter(str(folder / "a.tar")) as tar:
            for at, row in enumerate(rows):
                facts = {name: value for name, value in row.items() if name != "image"}
                picture = {"jpg": row["image"]} if "image" in row else {}
                tar.write({"__key__": f"{at:09}", "json": facts, **picture})

    def read(folder: Path) -> Iterator[Any]:
        for sample in webdataset.WebDataset(str(folder / "a.tar"), shardshuffle=False):
            yield json.load(io.BytesIO(sample["json"]))

    return write, read


def _tensorflow() -> Any:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    return tf


def _datasets() -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    datasets.disable_progress_bars()
    return datasets


def _example(tf: Any, row: Mapping[str, Any]) -> bytes:
    def values(value: Any) -> list[bytes]:
        each = value if isinstance(value, list) else [value]
        return [one if isinstance(one, bytes) else one.encode() for one in each]

    feature = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=values(value))) for name, value in row.items()
    }
    made: bytes = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    return made
