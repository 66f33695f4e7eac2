"""What the routes work with: the catalog, its templates, decoded pictures, and threads for all that blocks."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Annotated, ParamSpec, Self, TypeVar

from fastapi import Depends, Request

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.schema import Config
from memeloom.serve.http.fetching import PictureFetcher
from memeloom.serve.http.pictures.plan import renderer_version
from memeloom.serve.http.pictures.rendering import Renderer
from memeloom.serve.http.problems import Problem
from memeloom.serve.http.templates import TemplateLookup

P = ParamSpec("P")
T = TypeVar("T")


class Resources(AbstractAsyncContextManager["Resources"]):
    """The parts that all requests of one server process share. Open it on the event loop; close it at shutdown.

    Attributes:
        config: the settings.
        documents, blobs: the catalog, read only. Use them in `run`.
        renderer: draws pictures. Use it in `run`.
        fetcher: fetches pictures by the web addresses that clients name.

    Raises:
        StoreError: the catalog is missing or cannot be opened.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.documents: DocumentStore = open_documents(config.store, read_only=True)
        self.blobs: BlobStore = open_blobs(config.store)
        self.renderer = Renderer(config, self.blobs)
        self.fetcher = PictureFetcher(config)
        workers = config.serve.threads or (os.cpu_count() or 1) + 1
        self._threads = ThreadPoolExecutor(workers, "serve")
        self._busy = 0
        self._most = workers + config.serve.thread_queue
        self._lookup: TemplateLookup | None = None
        self._lookup_until = 0.0
        self._reading: asyncio.Task[TemplateLookup] | None = None

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function in one of the threads and return its result.

        Raises:
            Problem: 503, `serve.thread_queue` calls are waiting already.
        """
        if self._busy >= self._most:
            raise Problem(503, None, "the server is busy; try again", headers={"Retry-After": "1"})
        self._busy += 1
        work = asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))
        # The thread stays occupied when the request is cancelled.
        work.add_done_callback(self._done)
        return await asyncio.shield(work)

    async def templates(self) -> TemplateLookup:
        """Return the templates of the catalog, at most `serve.refresh_seconds` old, older while they are being read."""
        now = asyncio.get_running_loop().time()
        if self._reading is None and (self._lookup is None or now >= self._lookup_until):
            self._reading = asyncio.create_task(self._read_templates())
        if self._lookup is not None:
            return self._lookup
        assert self._reading is not None
        return await asyncio.shield(self._reading)

    def base_url(self, request: Request) -> str:
        """Return the address that clients reach the server under, without a slash at the end."""
        return self.config.serve.public_url or str(request.base_url).rstrip("/")

    async def aclose(self) -> None:
        """Wait for the threads, then close the catalog."""
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        await self.fetcher.close()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        self.blobs.close()
        self.documents.close()

    async def __aenter__(self) -> Self:
        """Look for fonts, so that no request waits for it on the event loop."""
        await self.run(renderer_version)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _done(self, work: asyncio.Future[T]) -> None:
        self._busy -= 1
        if not work.cancelled():
            work.exception()  # retrieved: the request may be gone

    async def _read_templates(self) -> TemplateLookup:
        try:
            lookup = await asyncio.get_running_loop().run_in_executor(
                self._threads, TemplateLookup.read, self.documents
            )
            self._lookup = lookup
            return lookup
        finally:
            self._lookup_until = asyncio.get_running_loop().time() + self.config.serve.refresh_seconds
            self._reading = None


async def resources_of(request: Request) -> Resources:
    """Return the resources of the server that handles `request`, for ``Depends``."""
    resources: Resources = request.app.state.resources
    return resources


Shared = Annotated[Resources, Depends(resources_of)]
