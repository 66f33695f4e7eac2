"""One batch of the OCR stage: lease, read, write the facts back, acknowledge. Runs in a worker process."""

import time
from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache

from catalog.blobs import BlobStore, open_blobs
from catalog.documents import DocumentStore, Lease, Where, open_documents
from catalog.errors import BadImage, BlobMissing, LeaseLost, StoreCorrupt
from catalog.images import decode_image
from catalog.records import Image, Meme, TemplateBox
from configs.schema import Config
from ocr.engine import ReadFailed, open_engine
from ocr.read import read_picture

STAGE = "ocr"

_load_engine = lru_cache(maxsize=1)(open_engine)


def read_batch(config: Config, number: int) -> Counter[str]:  # noqa: ARG001
    """Lease up to `ocr.batch` memes and read them. `number` only tells one batch from another.

    Returns what became of them: ``kept``, ``settled`` (nothing to read any more), ``dropped/REASON``,
    ``failed/REASON`` (for good), ``retried`` (failed, will be tried again) and ``lost`` (the lease ran
    out while we read). Empty if there was no work.

    Raises:
        StoreError: a store refused or failed; the leases run out, and the memes come back.
        EngineMissing: the engine cannot work on this machine.
    """
    documents = open_documents(config.store)
    try:
        leases = documents.lease(STAGE, config.ocr.batch, config.ocr.lease_seconds, config.ocr.attempts)
        if not leases:
            return Counter()
        blobs = open_blobs(config.store)
        try:
            return _Batch(config, documents, blobs, leases).run()
        finally:
            blobs.close()
    finally:
        documents.close()


class _Batch:
    """The leased memes of one batch, and the readings of them that are not written yet."""

    def __init__(self, config: Config, documents: DocumentStore, blobs: BlobStore, leases: list[Lease]) -> None:
        self._config = config
        self._documents = documents
        self._blobs = blobs
        self._engine = _load_engine(config.ocr)
        self._held = {lease.meme_id: lease for lease in leases}
        self._extended = time.monotonic()
        self._readings: dict[str, Meme] = {}
        self._tally: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        memes = list(self._documents.scan(Where(ids=tuple(self._held))))
        places = self._places(memes)
        for meme in memes:
            self._extend_in_time()
            # A meme may have got its caption since it was enqueued, or have been read by one who died too soon.
            if meme.id in self._held and meme.image and not meme.boxes and not meme.ocr:
                self._read(meme, meme.image, places.get(meme.template.id, ()) if meme.template else ())
        self._documents.upsert(self._readings.values())
        self._documents.ack(list(self._held.values()))
        return self._count()

    def _places(self, memes: list[Meme]) -> dict[str, tuple[TemplateBox, ...]]:
        wanted = {meme.template.id for meme in memes if meme.template}
        if not wanted:
            return {}
        return {template.id: template.boxes for template in self._documents.templates() if template.id in wanted}

    def _read(self, meme: Meme, image: Image, places: tuple[TemplateBox, ...]) -> None:
        try:
            picture = decode_image(self._blobs.get(image.key), max_pixels=self._config.crawl.max_image_pixels)
            ocr = read_picture(picture, self._engine, self._config.ocr, places)
        except BadImage as error:
            self._fail(meme.id, error.reason, attempts=1)
        except BlobMissing:
            self._fail(meme.id, "image missing", attempts=1)
        except StoreCorrupt:
            self._fail(meme.id, "image corrupt", attempts=1)
        except ReadFailed as error:
            self._fail(meme.id, error.reason, attempts=self._config.ocr.attempts)
        else:
            # Only the new fact is written: what others learn about the meme meanwhile stays.
            self._readings[meme.id] = Meme(id=meme.id, source=meme.source, ocr=ocr, fetched_at=datetime.now(UTC))

    def _fail(self, meme_id: str, reason: str, attempts: int) -> None:
        lease = self._held.pop(meme_id)
        try:
            self._documents.fail(lease, reason, attempts)
        except LeaseLost:
            self._tally["lost"] += 1
        else:
            self._tally["retried" if lease.attempt < attempts else f"failed/{reason}"] += 1

    def _extend_in_time(self) -> None:
        if time.monotonic() - self._extended < self._config.ocr.lease_seconds / 3:
            return
        self._extended = time.monotonic()
        for meme_id, lease in list(self._held.items()):
            try:
                self._documents.extend(lease, self._config.ocr.lease_seconds)
            except LeaseLost:
                # Someone else reads it now; what we read of it is theirs to write.
                del self._held[meme_id]
                self._readings.pop(meme_id, None)
                self._tally["lost"] += 1

    def _count(self) -> Counter[str]:
        for meme in self._readings.values():
            dropped = meme.ocr and meme.ocr.dropped
            self._tally[f"dropped/{dropped}" if dropped else "kept"] += 1
        self._tally["settled"] = len(self._held) - len(self._readings)
        return +self._tally
