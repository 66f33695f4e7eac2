"""A few browsers, each for one page at a time; one that hangs, dies, is old or has grown is replaced."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError

from memeloom.configs.schema import ImageSearch
from memeloom.scrapers.browsers.browser import Browser, Page
from memeloom.scrapers.browsers.gate import Gate, Upstream
from memeloom.scrapers.browsers.keeper import sweep
from memeloom.scrapers.browsers.launch import Programs, folders
from memeloom.scrapers.errors import BrowserFailed
from memeloom.scrapers.guard import AddressRefused
from memeloom.scrapers.pages.layout import LayoutChanged
from memeloom.scrapers.pages.search import Engine

P = ParamSpec("P")
T = TypeVar("T")

_START_SECONDS = 60.0
_GRACE_SECONDS = 10.0
# A browser that does not start so often in a row will never.
_VAIN_STARTS = 3
# After these the browser is as good as before.
_HARMLESS = (AddressRefused, LayoutChanged)


class BrowserPool:
    """Up to `settings.browsers` browsers, started when they are needed.

    product: who we are, for the User-Agent. allow_hosts: that pages may reach although they are not public.
    """

    def __init__(self, settings: ImageSearch, product: str, allow_hosts: Iterable[str]) -> None:
        self._settings = settings
        self._product = product
        self._threads = ThreadPoolExecutor(settings.browsers, thread_name_prefix="browser")
        self._places = [_Place(self, Gate(allow_hosts)) for _ in range(settings.browsers)]
        self._free: asyncio.LifoQueue[_Place] = asyncio.LifoQueue()
        for place in self._places:
            self._free.put_nowait(place)
        self._finding = asyncio.Lock()
        self._programs: Programs | None = None
        self._vain_starts = 0

    async def show(
        self, url: str, engine: Engine, results: int, stopped: Callable[[], bool], upstream: Upstream | None = None
    ) -> Page | None:
        """The page at `url`, scrolled to its end, once a browser is free; None if we stop before that.

        upstream: the proxy to go through.

        Raises:
            BrowserFailed: there is no browser, or it never starts.
            AddressRefused, LayoutChanged: see `Browser.show`.
            DownloadTimeoutError, DownloadFailedError: another try may do better.
        """
        place = await self._free.get()
        try:
            if stopped():
                return None
            place.gate.upstream = upstream
            return await place.show(url, engine, results, stopped)
        finally:
            self._free.put_nowait(place)

    async def close(self) -> None:
        """End all browsers."""
        await asyncio.gather(*(place.close() for place in self._places))
        self._threads.shutdown()

    async def start(self, gate: Gate, port: int) -> Browser:
        """A new browser behind `gate`. Raises BrowserFailed, DownloadFailedError."""
        async with self._finding:
            if self._programs is None:
                self._programs = await self.in_thread(Programs.find, self._settings, self._product)
                await self.in_thread(sweep, folders())
        browser = Browser(self._programs, self._settings, gate, port)
        alarm = asyncio.get_running_loop().call_later(_START_SECONDS, browser.kill)
        try:
            await self.in_thread(browser.start)
        except DownloadFailedError as error:
            await self.in_thread(browser.close)
            self._vain_starts += 1
            if self._vain_starts >= _VAIN_STARTS:
                raise BrowserFailed(f"image search: {error}") from error
            raise
        except BaseException:
            browser.kill()
            raise
        finally:
            alarm.cancel()
        self._vain_starts = 0
        return browser

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` where it may block."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def is_worn(self, browser: Browser) -> bool:
        """Whether the next page should get another one. Looks at the memory of its processes."""
        settings = self._settings
        return browser.pages >= settings.pages_per_browser or browser.memory_mb() > settings.browser_memory_mb

    @property
    def limit_seconds(self) -> float:
        """After this a browser that shows a page hangs."""
        return self._settings.page_seconds + _GRACE_SECONDS


class _Place:
    """One browser's place: its gate, and the browser while there is one."""

    def __init__(self, pool: BrowserPool, gate: Gate) -> None:
        self.gate = gate
        self._pool = pool
        self._port: int | None = None
        self._browser: Browser | None = None

    async def show(self, url: str, engine: Engine, results: int, stopped: Callable[[], bool]) -> Page:
        """See `BrowserPool.show`. The browser stays for the next page, unless it is better replaced."""
        if self._port is None:
            self._port = await self.gate.open()
        browser, self._browser = self._browser or await self._pool.start(self.gate, self._port), None
        late = asyncio.Event()
        alarm = asyncio.get_running_loop().call_later(self._pool.limit_seconds, _end_late, browser, late)
        good = False
        try:
            page = await self._pool.in_thread(browser.show, url, engine, results, stopped)
        except _HARMLESS:
            good = True
            raise
        except DownloadFailedError as error:
            if late.is_set():
                raise DownloadTimeoutError(f"{url}: the browser hung") from error
            raise
        else:
            good = True
            return page
        finally:
            alarm.cancel()
            self.gate.forget()
            if not good:
                browser.kill()
            if good and not await self._pool.in_thread(self._pool.is_worn, browser):
                self._browser = browser
            else:
                await self._pool.in_thread(browser.close)

    async def close(self) -> None:
        """End the browser."""
        if self._browser is not None:
            await self._pool.in_thread(self._browser.close)
            self._browser = None
        await self.gate.close()


def _end_late(browser: Browser, late: asyncio.Event) -> None:
    late.set()
    browser.kill()
