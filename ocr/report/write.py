"""Writes the page of a run: fetches the few memes that it shows, and their pictures, from the stores."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import Where
from memeloom.catalog.errors import BadImage, BlobMissing, StoreCorrupt
from memeloom.catalog.images import decode_image
from memeloom.catalog.records import Meme
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import write_text
from memeloom.configs.schema import Config
from memeloom.ocr.report.page import card, draw
from memeloom.ocr.report.seen import Seen


@contextmanager
def reporting(config: Config, seen: Seen) -> Iterator[Path]:
    """When the block ends, however it does, write the page about what `seen` has seen by then, if that is anything.

    Yields where it will be. What goes wrong with the page of a run that failed is not raised over its error.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    path = Path(config.runs) / f"ocr-{started:%Y%m%dT%H%M%S.%f}.html"
    try:
        yield path
    except BaseException as error:
        with suppress(MemeloomError, OSError):
            write_report(path, config, seen, time.monotonic() - clock, _ending(error))
        raise
    write_report(path, config, seen, time.monotonic() - clock)


def write_report(path: Path, config: Config, seen: Seen, seconds: float, ended: str = "finished") -> None:
    """Write the page about the run that `seen` saw to `path`, atomically, unless it saw nothing.

    seconds: how long the run took until now. ended: ``finished``, ``interrupted``, or the error that ended it.

    Raises:
        StoreError: a store refused or failed; the page is written all the same, without memes.
        MemeloomError: the page cannot be written.
    """
    if not seen.outcomes:
        return
    began = datetime.now(UTC) - timedelta(seconds=seconds)
    cards: dict[str, str] = {}
    try:
        cards = _cards(config, seen)
    finally:
        write_text(path, draw(seen, cards, began=began, seconds=seconds, ended=ended))


def _ending(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return f"failed: {error if isinstance(error, MemeloomError) else f'{type(error).__name__}: {error}'}"


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
