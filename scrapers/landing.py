"""The item path: what a page shows becomes durable, pictures looked into and kept as they are.

A meme passes twice. As its page shows it, without its picture: if an earlier crawl has fetched the picture from
the same address, the record is kept with that; otherwise a request for the picture goes into the frontier.
When the picture has come, or cannot be had, the meme passes again and lands.

An item is done only when its blob and its document are durable, or its picture's request is stored. A picture
that cannot be had or is no picture costs the meme its picture, not its caption: a meme with a caption is kept
without one, a meme without is dropped; both are counted.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn, ParamSpec, TypeVar

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from memeloom.catalog.blobs import BlobStore, open_blobs
from memeloom.catalog.documents import DocumentStore, Where, open_documents
from memeloom.catalog.errors import BadImage, StoreUnavailable
from memeloom.catalog.frames import Received, receive
from memeloom.catalog.records import Image, Meme
from memeloom.configs.schema import Config
from memeloom.scrapers.batch import Batch
from memeloom.scrapers.items import Mark, MemeItem, NotLanded, Picture, TemplateItem
from memeloom.scrapers.scheduler import DurableScheduler, scheduler_of
from memeloom.scrapers.session import Session
from memeloom.scrapers.spiders.base import MemeSpider, our_spider

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 4
_BATCH = 100
# A store that is away is waited for as long as the frontier is: so many times the deadline of one call.
_PATIENCE = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
# Posts that slip from one page of a listing to the next are met again soon.
_REMEMBERED = 20_000


@dataclass(slots=True)
class _Question:
    """Whether the catalog has a meme's picture already, and whether a purge has removed the meme."""

    meme: Meme
    image: Image | None = None
    purged: bool = False


class _Purged(Exception):
    """The meme was removed, so nothing of it may be kept."""


class Landing:
    """The item pipeline of one spider. Decoding, hashing and writing happen in threads."""

    _documents: DocumentStore
    _blobs: BlobStore
    _scheduler: DurableScheduler

    def __init__(self, crawler: Crawler, config: Config, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._config = config
        self._spider = spider
        self._session: Session = spider.session
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="landing")
        self._memes: Batch[Meme] = Batch(self._write_memes, _BATCH)
        self._questions: Batch[_Question] = Batch(self._answer, _BATCH)
        self._recent: OrderedDict[str, None] = OrderedDict()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Landing":
        """The pipeline of one spider, which must be one of ours."""
        return cls(crawler, crawler.settings["MEMELOOM_CONFIG"], our_spider(crawler))

    async def open_spider(self) -> None:
        """Open the stores. Raises StoreError, ConfigError."""
        self._scheduler = scheduler_of(self._crawler)
        self._documents = await self._in_thread(open_documents, self._config.store)
        self._blobs = await self._in_thread(open_blobs, self._config.store)

    async def close_spider(self) -> None:
        """Write what is left and give the stores back."""
        await self._memes.flush()
        await self._in_thread(self._documents.close)
        await self._in_thread(self._blobs.close)
        self._threads.shutdown()

    async def process_item(self, item: MemeItem | TemplateItem | Mark) -> MemeItem | TemplateItem | Mark:
        """Return when the item is durable, or will be in one step with its page. Raises DropItem, StoreError."""
        match item:
            case MemeItem(picture=None):
                await self._meet(item)
            case MemeItem():
                await self._land(item)
            case TemplateItem():
                await self._land_template(item)
            case Mark():
                self._scheduler.mark(item.name, item.value)
        return item

    async def _meet(self, item: MemeItem) -> None:
        """A meme as its page shows it: keep it with the picture that is known, or ask for the picture."""
        meme = item.meme
        if self._met_before(meme.id):
            self._session.reasons["skipped: seen before in this crawl"] += 1
            return
        question = _Question(meme)
        await self._questions.put(question)
        if question.purged:
            self._drop("removed by a purge")
        if question.image is None and meme.image_url:
            if self._ask(item):
                return
            self._session.reasons["image: not an address on the web"] += 1
        if question.image is not None:
            self._session.counts["images known"] += 1
        await self._keep(meme, question.image)

    async def _land(self, item: MemeItem) -> None:
        """A meme whose picture has come, or cannot be had."""
        image = await self._image(item.picture, "image", item.meme.id)
        if image is None and item.fallback_url:
            self._session.counts["fallback pictures"] += 1
            if self._ask(item):
                return
        await self._keep(item.meme, image)

    async def _keep(self, meme: Meme, image: Image | None) -> None:
        if image is None and not meme.boxes:
            self._drop("dropped: neither picture nor caption")
        if not await self._session.admit():
            raise NotLanded("the crawl was stopped")
        await self._memes.put(meme.model_copy(update={"image": image}))
        self._session.land(meme.source)

    async def _land_template(self, item: TemplateItem) -> None:
        template = item.template
        if item.picture is None and template.image_url:
            if self._ask(item):
                return
            self._session.reasons["template image: not an address on the web"] += 1
        image = await self._image(item.picture, "template image")
        changed = await self._patiently(
            self._documents.upsert_templates, [template.model_copy(update={"image": image})]
        )
        self._session.counts["templates"] += 1
        self._session.counts["templates new or changed"] += changed

    def _ask(self, item: MemeItem | TemplateItem) -> bool:
        """Put the request for the picture into the frontier; False if no request can be made of its address."""
        try:
            request = self._spider.picture_request(item)
        except ValueError:
            return False
        self._crawler.engine.crawl(request)
        return True

    async def _image(self, picture: Picture | None, what: str, meme_id: str | None = None) -> Image | None:
        """Check a picture and keep its bytes; None if there are none, or, with the reason counted, no picture.

        Raises DropItem: a purge has removed the meme while its picture was waited for.
        """
        if picture is None or picture.data is None:
            return None
        try:
            received = await self._patiently(self._receive, picture.data, picture.declared, meme_id)
        except _Purged:
            self._drop("removed by a purge")
        except BadImage as error:
            self._session.reasons[f"{what}: {error.reason}"] += 1
            return None
        self._session.counts["images"] += 1
        self._session.counts["bytes"] += len(received.data)
        if received.image.frame_of is not None:
            self._session.counts["first frames"] += 1
        if received.misdeclared:
            self._session.counts["images of another type than declared"] += 1
        return received.image

    def _drop(self, reason: str) -> NoReturn:
        self._session.reasons[reason] += 1
        raise DropItem(reason)

    def _receive(self, data: bytes, declared: str | None, meme_id: str | None) -> Received:
        if meme_id is not None and self._documents.purged([meme_id]):
            raise _Purged
        crawl = self._config.crawl
        received = receive(data, max_bytes=crawl.max_image_bytes, max_pixels=crawl.max_image_pixels, declared=declared)
        self._blobs.put(received.data, received.image.key)
        return received

    def _met_before(self, meme_id: str) -> bool:
        """Whether this process has met the meme lately. The frontier knows all; this spares it the question."""
        if meme_id in self._recent:
            self._recent.move_to_end(meme_id)
            return True
        self._recent[meme_id] = None
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return False

    async def _answer(self, questions: list[_Question]) -> None:
        await self._patiently(self._look_up, questions)

    def _look_up(self, questions: list[_Question]) -> None:
        ids = tuple(question.meme.id for question in questions)
        purged = self._documents.purged(ids)
        known = {meme.id: meme for meme in self._documents.scan(Where(ids=ids))}
        for question in questions:
            old = known.get(question.meme.id)
            question.purged = question.meme.id in purged
            if old is not None and old.image is not None and old.image_url == question.meme.image_url:
                question.image = old.image if self._blobs.has(old.image.key) else None

    async def _write_memes(self, memes: list[Meme]) -> None:
        written = await self._patiently(self._documents.upsert, memes)
        self._session.counts["memes"] += written.inserted + written.updated + written.unchanged
        self._session.counts["new"] += written.inserted
        self._session.counts["updated"] += written.updated
        self._session.counts["unchanged"] += written.unchanged
        if written.removed:
            self._session.reasons["removed by a purge"] += written.removed

    async def _patiently(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a store answers; one that is away, as during a restart, is asked again for a while."""
        deadline = time.monotonic() + _PATIENCE * self._config.store.timeout_seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._in_thread(function, *args, **kwargs)
            except StoreUnavailable:
                if time.monotonic() + pause > deadline or not await self._session.pause(pause):
                    raise
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
