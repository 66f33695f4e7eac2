"""Writes the page of a run: fetches the few memes that it shows, and their pictures, from the stores."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catalog.blobs import BlobStore, open_blobs
from catalog.documents import Where, open_documents
from catalog.errors import BadImage, BlobMissing, StoreCorrupt
from catalog.images import decode_image
from catalog.records import Meme
from configs.outputs import write_text
from configs.schema import Config
from ocr.report.page import card, draw
from ocr.report.seen import Seen


def write_report(path: Path, config: Config, seen: Seen, seconds: float, ended: str = "finished") -> None:
    """Write the page about the run that `seen` saw to `path`, atomically.

    seconds: how long the run took until now. ended: ``finished``, ``interrupted``, or the error that ended it.

    Raises:
        StoreError: a store refused or failed.
        MemeloomError: the page cannot be written.
    """
    began = datetime.now(UTC) - timedelta(seconds=seconds)
    write_text(path, draw(seen, _cards(config, seen), began=began, seconds=seconds, ended=ended))


def _cards(config: Config, seen: Seen) -> dict[str, str]:
    samples = (ids for group in ("dropped", "failed") for ids in seen.sample(group).values())
    ids = [*seen.worst(), *(meme_id for sample in samples for meme_id in sample)]
    if not ids:
        return {}
    documents = open_documents(config.store)
    try:
        memes = list(documents.scan(Where(ids=tuple(ids))))
    finally:
        documents.close()
    blobs = open_blobs(config.store)
    try:
        return {meme.id: card(meme, _picture(meme, blobs, config.crawl.max_image_pixels)) for meme in memes}
    finally:
        blobs.close()


def _picture(meme: Meme, blobs: BlobStore, max_pixels: int) -> NDArray[np.uint8] | None:
    if meme.image is None:
        return None
    try:
        return decode_image(blobs.get(meme.image.key), max_pixels=max_pixels)
    except (BadImage, BlobMissing, StoreCorrupt):
        return None
