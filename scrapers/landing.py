"""Records become durable: known pictures are looked up, downloaded ones validated, blobs and documents written.

A record's way: `meet` stores it with the picture that an earlier crawl downloaded from the same URL, or adds a request
for the picture to the queue; `land` stores it with the downloaded picture. Each returns when blob and document are
durable, or the request is in the queue. If the picture fails or is invalid, a meme with a caption is stored without it
and a meme without a caption is dropped; both are counted. An address that is not on the web is not stored.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.errors import BadImage, StoreUnavailable
from memeloom.catalog.frames import Received, receive
from memeloom.catalog.records import Image, Meme, Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.retry import backoff_seconds
from memeloom.configs.schema import Config
from memeloom.scrapers.aio import Batch, in_thread
from memeloom.scrapers.items import MemeItem, NotLanded, Picture, TemplateItem
from memeloom.scrapers.pictures.requests import picture_request
from memeloom.scrapers.queue import RequestQueue
from memeloom.scrapers.reasons import About, Kind, Reason
from memeloom.scrapers.session import CrawlSession

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 4
_BATCH = 100
# A store that is unavailable is retried as long as the frontier is: this many times the timeout of one call.
_PATIENCE = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
# Posts that move to the next page of a listing soon appear again.
_REMEMBERED = 20_000


@dataclass(slots=True)
class _LookUp:
    """A meme, whether it was purged, and its picture if the catalog has one."""

    meme: Meme
    image: Image | None = None
    purged: bool = False


class _Purged(Exception):
    """The meme was purged and must not be stored."""


class Landing:
    """The stores of one source. Decoding, hashing and writing happen in threads."""

    _documents: DocumentStore
    _blobs: BlobStore

    def __init__(self, config: Config, session: CrawlSession, queue: RequestQueue) -> None:
        self._config = config
        self._session = session
        self._queue = queue
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="landing")
        self._memes: Batch[Meme] = Batch(self._write_memes, _BATCH)
        self._look_ups: Batch[_LookUp] = Batch(lambda look_ups: self._retried(self._look_up, look_ups), _BATCH)
        self._recent: OrderedDict[str, None] = OrderedDict()

    async def open(self) -> None:
        """Open the stores. Raises StoreError, ConfigError."""
        self._documents = await in_thread(self._threads, open_documents, self._config.store)
        self._blobs = await in_thread(self._threads, open_blobs, self._config.store)

    async def close(self) -> None:
        """Write pending records and close the stores."""
        await self._memes.flush()
        await in_thread(self._threads, self._documents.close)
        await in_thread(self._threads, self._blobs.close)
        self._threads.shutdown()

    async def meet(self, item: MemeItem | TemplateItem) -> None:
        """Store a record of a page if its picture is known, or request the picture. Raises NotLanded, StoreError."""
        if isinstance(item, TemplateItem):
            await self._meet_template(item)
            return
        meme = item.meme
        if self._met_before(meme.id):
            self._session.count(Reason(Kind.SEEN, about=About.SKIPPED))
            return
        known = _LookUp(meme)
        await self._look_ups.put(known)
        if known.purged:
            self._session.count(Reason(Kind.PURGED))
            return
        if known.image is None and meme.image_url:
            if self._ask(item):
                return
            self._session.count(Reason(Kind.NO_ADDRESS, about=About.IMAGE))
            meme = meme.model_copy(update={"image_url": None})
        if known.image is not None:
            self._session.counts["images known"] += 1
        await self._keep(meme, known.image)

    async def land(self, item: MemeItem | TemplateItem, picture: Picture | None) -> None:
        """Store a record after its picture request, which failed if `picture` is None. Raises NotLanded, StoreError.

        If the picture is invalid, too, the smaller copy is requested.
        """
        if isinstance(item, TemplateItem):
            image = await self._image(picture, About.TEMPLATE_IMAGE) if picture is not None else None
            await self._keep_template(item.template, image)
            return
        try:
            image = await self._image(picture, About.IMAGE, item.meme.id) if picture is not None else None
        except _Purged:
            self._session.count(Reason(Kind.PURGED))
            return
        if image is None and item.fallback_url:
            self._session.counts["fallback pictures"] += 1
            if self._ask(item, smaller=True):
                return
        await self._keep(item.meme, image)

    async def _keep(self, meme: Meme, image: Image | None) -> None:
        if image is None and not meme.boxes:
            self._session.count(Reason(Kind.STATED, "neither picture nor caption", About.DROPPED))
            return
        if not await self._queue.admit():
            raise NotLanded("the crawl was stopped")
        await self._memes.put(meme.model_copy(update={"image": image}))
        self._queue.land()

    async def _meet_template(self, item: TemplateItem) -> None:
        """As `meet`; another address is another picture."""
        template = item.template
        known = await self._retried(self._known_template, template.id)
        image = None
        if known is not None and known.image_url == template.image_url:
            image = known.image
            self._session.counts["template images known"] += 1
        elif template.image_url:
            if self._ask(item):
                return
            self._session.count(Reason(Kind.NO_ADDRESS, about=About.TEMPLATE_IMAGE))
        await self._keep_template(template, image)

    async def _keep_template(self, template: Template, image: Image | None) -> None:
        if image is None and await self._retried(self._known_template, template.id) is not None:
            # The stored picture is kept, so its address is, too.
            template = template.model_copy(update={"image_url": None})
        changed = await self._retried(self._documents.upsert_templates, [template.model_copy(update={"image": image})])
        self._session.counts["templates"] += 1
        self._session.counts["templates new or changed"] += changed

    def _ask(self, item: MemeItem | TemplateItem, *, smaller: bool = False) -> bool:
        """Add the request for the picture to the queue. Returns False if its URL is not http or https."""
        try:
            self._queue.add(picture_request(item, smaller=smaller))
        except ValueError:
            return False
        return True

    async def _image(self, picture: Picture, about: About, meme_id: str | None = None) -> Image | None:
        """Validate and store a picture. Returns None, with the reason counted, if it is invalid.

        Raises _Purged: the meme was purged while its picture was downloaded.
        """
        try:
            received = await self._retried(self._receive, picture.data, picture.declared, meme_id)
        except BadImage as error:
            self._session.count(Reason(Kind.STATED, error.reason, about))
            return None
        self._session.counts["images"] += 1
        self._session.counts["bytes"] += len(received.data)
        if received.image.frame_of is not None:
            self._session.counts["first frames"] += 1
        if received.misdeclared:
            self._session.counts["images of another type than declared"] += 1
        return received.image

    def _receive(self, data: bytes, declared: str | None, meme_id: str | None) -> Received:
        if meme_id is not None and self._documents.purged([meme_id]):
            raise _Purged
        crawl = self._config.crawl
        received = receive(data, max_bytes=crawl.max_image_bytes, max_pixels=crawl.max_image_pixels, declared=declared)
        self._blobs.put(received.data, received.image.key)
        return received

    def _known_template(self, template_id: str) -> Template | None:
        """Return a template of the catalog if its picture is there."""
        known = self._documents.get_template(template_id)
        return known if known is not None and known.image is not None and self._blobs.has(known.image.key) else None

    def _met_before(self, meme_id: str) -> bool:
        """Return whether this process met the meme recently, which saves a call to the frontier."""
        if meme_id in self._recent:
            self._recent.move_to_end(meme_id)
            return True
        self._recent[meme_id] = None
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return False

    def _look_up(self, look_ups: list[_LookUp]) -> None:
        ids = tuple(each.meme.id for each in look_ups)
        purged = self._documents.purged(ids)
        known = {meme.id: meme for meme in self._documents.scan(Where(ids=ids))}
        for each in look_ups:
            old = known.get(each.meme.id)
            each.purged = each.meme.id in purged
            if old is not None and old.image is not None and old.image_url == each.meme.image_url:
                each.image = old.image if self._blobs.has(old.image.key) else None

    async def _write_memes(self, memes: list[Meme]) -> None:
        written = await self._retried(self._documents.upsert, memes)
        self._session.counts["memes"] += written.inserted + written.updated + written.unchanged
        self._session.counts["new"] += written.inserted
        self._session.counts["updated"] += written.updated
        self._session.counts["unchanged"] += written.unchanged
        if written.removed:
            self._session.count(Reason(Kind.PURGED), written.removed)

    async def _retried(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a store in a thread, retrying while it is unavailable."""
        deadline = time.monotonic() + _PATIENCE * self._config.store.timeout_seconds
        attempt = 0
        while True:
            attempt += 1
            try:
                return await in_thread(self._threads, function, *args, **kwargs)
            except StoreUnavailable:
                pause = backoff_seconds(attempt, _FIRST_PAUSE, _LONGEST_PAUSE)
                if time.monotonic() + pause > deadline or not await self._session.pause(pause):
                    raise
