"""Some pictures of a dataset, small enough to stand in its card."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from memeloom.catalog.embed import embed
from memeloom.catalog.errors import BadImage
from memeloom.catalog.images import decode_image
from memeloom.dataset.card_text import unsafe_pictures
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.schema import DatasetRecord

MOST: Final = 12
# Of templates there are few pictures and many records: so many are looked through for others.
_LOOKED_AT = 300
_SIDE, _QUALITY = 240, 70
# Larger ones are left out: a card is no reason to hold hundreds of megabytes of pixels.
_MOST_PIXELS = 20_000_000


class Thumbnail(NamedTuple):
    """The picture of a record as an address that holds it, and the record without it."""

    record: DatasetRecord
    address: str


def sample_pictures(folder: Path, manifest: Manifest) -> list[Thumbnail]:
    """The first different pictures for training, which stand in random order.

    None of a dataset without pictures, and of one in which some may not be safe for work.

    Raises:
        DamagedRecords: a shard in `folder` cannot be read.
    """
    if manifest.images == "none" or not FORMATS[manifest.format].counted or unsafe_pictures(manifest):
        return []
    return list(itertools.islice(_different(folder, manifest), MOST))


def _different(folder: Path, manifest: Manifest) -> Iterator[Thumbnail]:
    read = FORMATS[manifest.format].read
    records = itertools.chain.from_iterable(read(path) for path in manifest.paths(folder, "train"))
    seen = set[str]()
    for record in itertools.islice(records, _LOOKED_AT):
        if record.image is None or record.image_key in seen:
            continue
        seen.add(record.image_key)
        try:
            picture = decode_image(record.image, max_pixels=_MOST_PIXELS)
        except BadImage:
            continue
        yield Thumbnail(record._replace(image=None), embed(picture, _SIDE, _QUALITY))
