"""What a record must be, whatever it is stored in."""

import hashlib

from memeloom.dataset.manifest import Manifest
from memeloom.dataset.schema import DatasetRecord, Split


def fault_of(record: DatasetRecord, split: Split, manifest: Manifest) -> str:
    """What is wrong with a record in a shard of `split`; "" if nothing.

    A picture is checked by its key, which is its sha256.
    """
    if not record.id or not record.template or not record.source:
        return "record without id, template or source"
    if record.split != split:
        return f"record of split {record.split!r} among those for {split}"
    if record.text != "".join([box + manifest.separator for box in record.boxes]):
        return "record whose text is not that of its boxes"
    if (record.image is None) != (manifest.images == "none"):
        return "record without a picture" if record.image is None else "record with a picture"
    if record.image is not None and hashlib.sha256(record.image).hexdigest() != record.image_key:
        return "picture whose sha256 is not its key"
    return ""
