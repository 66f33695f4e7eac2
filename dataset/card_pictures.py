"""Thumbnails of a dataset for its card."""

import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

from memeloom.catalog.errors import BadImage
from memeloom.dataset.card_text import unsafe_pictures
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.output import Output
from memeloom.dataset.pictures import Pictures
from memeloom.dataset.schema import DatasetRecord

MOST: Final = 12
# Records searched for distinct pictures: templates have few pictures and many records.
_LOOKED_AT = 300
_SIDE, _QUALITY = 240, 70
# Larger pictures are left out to keep the card small.
_MOST_PIXELS = 20_000_000


class Thumbnail(NamedTuple):
    """A record without its picture, and the picture as a ``data:`` address."""

    record: DatasetRecord
    address: str


def sample_pictures(output: Output, manifest: Manifest) -> list[Thumbnail]:
    """Return the first distinct pictures of the training split, which is in random order.

    Empty for a dataset without pictures, or with pictures that may not be safe for work.

    Raises:
        DamagedRecords: a shard cannot be read.
    """
    if manifest.images == "none" or not FORMATS[manifest.format].has_records or unsafe_pictures(manifest):
        return []
    return list(itertools.islice(_different(output, manifest), MOST))


def _different(output: Output, manifest: Manifest) -> Iterator[Thumbnail]:
    # Here: most datasets have no pictures.
    from memeloom.catalog.images import decode_image
    from memeloom.report.pictures import embed

    read = FORMATS[manifest.format].read
    train = (output.local(shard.name) for shard in manifest.shards if shard.split == "train")
    records = itertools.chain.from_iterable(map(read, train))
    for file in manifest.picture_files:
        output.local(file.name)
    pictures = Pictures(output.folder, manifest)
    seen = set[str]()
    for record in itertools.islice(records, _LOOKED_AT):
        if record.image_key in seen:
            continue
        seen.add(record.image_key)
        try:
            picture = decode_image(pictures.of(record) or b"", max_pixels=_MOST_PIXELS)
        except BadImage:
            continue
        yield Thumbnail(record._replace(image=None), embed(picture, _SIDE, _QUALITY))
