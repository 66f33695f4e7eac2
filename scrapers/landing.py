"""The item path: fetch the picture, look into it, keep its bytes, then keep the record.

An item is done only when its blob and its document are durable, and the page that it came from
is done only when its items are. A picture that cannot be had or is no picture costs the meme its
picture, not its caption: a meme with a caption is kept without one, a meme without is dropped;
both are counted.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem
from scrapy.http.request import NO_CALLBACK

from catalog.blobs import BlobStore, open_blobs
from catalog.documents import DocumentStore, open_documents
from catalog.errors import BadImage
from catalog.images import inspect_image
from catalog.records import Image, Meme, Template
from configs.schema import Config
from scrapers.batch import Batch
from scrapers.items import MemeItem, TemplateItem
from scrapers.reasons import why
from scrapers.session import Session
from scrapers.spiders.base import our_spider

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 4
_AT_ONCE = 16
_BATCH = 100


class _NoImage(Exception):
    """The picture cannot be had; its text is the reason that is counted."""


class Landing:
    """The item pipeline. At most 16 items are under way; further ones wait, and their pages with them."""

    _documents: DocumentStore
    _blobs: BlobStore

    def __init__(self, crawler: Crawler, config: Config, session: Session) -> None:
        self._crawler = crawler
        self._config = config
        self._session = session
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="landing")
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._memes: Batch[Meme] = Batch(self._write_memes, _BATCH)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Landing":
        """The pipeline of one spider, which must be one of ours."""
        return cls(crawler, crawler.settings["MEMELOOM_CONFIG"], our_spider(crawler).session)

    async def open_spider(self) -> None:
        """Open the stores. Raises StoreError, ConfigError."""
        self._documents = await self._in_thread(open_documents, self._config.store)
        self._blobs = await self._in_thread(open_blobs, self._config.store)

    async def close_spider(self) -> None:
        """Write what is left and give the stores back."""
        await self._memes.flush()
        await self._in_thread(self._documents.close)
        await self._in_thread(self._blobs.close)
        self._threads.shutdown()

    async def process_item(self, item: MemeItem | TemplateItem) -> MemeItem | TemplateItem:
        """Return when the item is durable. Raises DropItem, StoreError."""
        async with self._places:
            match item:
                case MemeItem():
                    await self._land_meme(item.meme)
                case TemplateItem():
                    await self._land_template(item.template)
        return item

    async def _land_meme(self, meme: Meme) -> None:
        if not await self._session.admit():
            self._session.reasons["not fetched: the crawl was stopped"] += 1
            raise DropItem("the crawl was stopped")
        if await self._in_thread(self._documents.purged, [meme.id]):
            self._session.refuse()
            self._session.reasons["removed by a purge"] += 1
            raise DropItem("removed by a purge")
        try:
            image = await self._known_image(meme) or await self._fetch(meme.image_url)
        except _NoImage as reason:
            self._session.reasons[f"image: {reason}"] += 1
            if not meme.boxes:
                self._session.refuse()
                self._session.reasons["dropped: neither picture nor caption"] += 1
                raise DropItem(str(reason)) from None
            image = None
        await self._memes.put(meme.model_copy(update={"image": image}))
        self._session.land(meme.source)

    async def _land_template(self, template: Template) -> None:
        try:
            image = await self._fetch(template.image_url)
        except _NoImage as reason:
            self._session.reasons[f"template image: {reason}"] += 1
            image = None
        changed = await self._in_thread(
            self._documents.upsert_templates, [template.model_copy(update={"image": image})]
        )
        self._session.counts["templates"] += 1
        self._session.counts["templates new or changed"] += changed

    async def _known_image(self, meme: Meme) -> Image | None:
        """The picture that an earlier crawl fetched from the same address, if its bytes are still there."""
        known = await self._in_thread(self._documents.get, meme.id)
        if known is None or known.image is None or known.image_url != meme.image_url:
            return None
        if not await self._in_thread(self._blobs.has, known.image.key):
            return None
        self._session.counts["images known"] += 1
        return known.image

    async def _fetch(self, url: str | None) -> Image:
        """Download, check and keep one picture. Raises _NoImage, StoreError."""
        data = await self._download(url or "")
        crawl = self._config.crawl
        try:
            image = await self._in_thread(
                inspect_image, data, max_bytes=crawl.max_image_bytes, max_pixels=crawl.max_image_pixels
            )
        except BadImage as error:
            raise _NoImage(error.reason) from None
        await self._in_thread(self._blobs.put, data)
        self._session.counts["images"] += 1
        self._session.counts["bytes"] += len(data)
        return image

    async def _download(self, url: str) -> bytes:
        try:
            request = Request(url, callback=NO_CALLBACK, meta={"download_maxsize": self._config.crawl.max_image_bytes})
        except ValueError:
            raise _NoImage("not an address on the web") from None
        try:
            response = await self._crawler.engine.download_async(request)
        except Exception as error:
            phrase = why(error)
            if phrase is None:
                raise
            raise _NoImage(phrase) from None
        if response.status != 200:
            raise _NoImage(f"HTTP {response.status}")
        return response.body

    async def _write_memes(self, memes: list[Meme]) -> None:
        written = await self._in_thread(self._documents.upsert, memes)
        self._session.counts["memes"] += written.inserted + written.updated + written.unchanged
        self._session.counts["new"] += written.inserted
        self._session.counts["updated"] += written.updated
        self._session.counts["unchanged"] += written.unchanged
        if written.removed:
            self._session.reasons["removed by a purge"] += written.removed

    async def _in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
