"""TFRecord files of `tf.train.Example`, for TensorFlow, JAX and everything that knows them."""

from collections.abc import Iterator
from pathlib import Path

from memeloom.dataset.examples import NotAnExample
from memeloom.dataset.formats.contract import Check, Compression
from memeloom.dataset.formats.packed import DamagedRecords
from memeloom.dataset.schema import DatasetRecord, decode_record, encode_record
from memeloom.dataset.tfrecord import FRAME_BYTES, RecordWriter, read_records


class TFRecordFile:
    """Writes records, each as a `tf.train.Example`."""

    def __init__(self, path: Path, compression: Compression, *, pictures: bool) -> None:  # noqa: ARG002
        # The name says how it is packed, and an Example without a picture has no feature for it.
        self.path = path
        self.records = self.bytes = 0
        self.sha256 = ""
        self._writer = RecordWriter(path)
        self.abandon = self._writer.abandon

    def write(self, record: DatasetRecord) -> None:
        """Append a record."""
        self._writer.write(encode_record(record))
        self.records += 1

    def close(self) -> None:
        """Write what is buffered and make it durable."""
        self._writer.close()
        self.bytes, self.sha256 = self._writer.bytes, self._writer.sha256


def read_tfrecords(path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:
    """As `Read`."""
    offset = 0
    for number, payload in enumerate(read_records(path), start=1):
        try:
            record = decode_record(payload)
        except NotAnExample as error:
            raise DamagedRecords(path, str(error), offset=offset, record=number) from error
        if check is not None and (fault := check(record)):
            raise DamagedRecords(path, fault, offset=offset, record=number)
        yield record
        offset += FRAME_BYTES + len(payload)
