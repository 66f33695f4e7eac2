"""A pool of browsers, each showing one page at a time; hung, crashed, old or oversized ones are replaced."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError

from memeloom.configs.schema import ImageSearch
from memeloom.scrapers.aio import in_thread
from memeloom.scrapers.browsers.browser import Browser, Page
from memeloom.scrapers.browsers.gate import Gate, Upstream
from memeloom.scrapers.browsers.keeper import sweep
from memeloom.scrapers.browsers.launch import Programs, find_programs, folders
from memeloom.scrapers.errors import BrowserFailed, LayoutChanged
from memeloom.scrapers.guard import AddressRefused
from memeloom.scrapers.pages.search import Engine

_START_SECONDS = 60.0
_GRACE_SECONDS = 10.0
# Consecutive failed starts before giving up.
_MOST_FAILED_STARTS = 3
# Errors after which the browser is still usable.
_ERRORS_OF_PAGES = (AddressRefused, LayoutChanged)


class BrowserPool:
    """Up to `settings.browsers` browsers, started on demand.

    Args:
        settings: programs and limits.
        product: appended to the User-Agent.
        allow_hosts: hosts that pages may reach although their addresses are not public.
    """

    def __init__(self, settings: ImageSearch, product: str, allow_hosts: Iterable[str]) -> None:
        self._settings = settings
        self._product = product
        self._threads = ThreadPoolExecutor(settings.browsers, thread_name_prefix="browser")
        self._seats = [_Seat(self, Gate(allow_hosts)) for _ in range(settings.browsers)]
        self._free: asyncio.LifoQueue[_Seat] = asyncio.LifoQueue()
        for seat in self._seats:
            self._free.put_nowait(seat)
        self._finding = asyncio.Lock()
        self._programs: Programs | None = None
        self._user_agent = ""
        self._failed_starts = 0

    async def show(
        self, url: str, engine: Engine, results: int, stopped: Callable[[], bool], upstream: Upstream | None = None
    ) -> Page | None:
        """Show the page at `url` in the next free browser; returns None if stopped before that.

        Args:
            url: URL of the page.
            engine: the image search that it belongs to.
            results: number of results wanted.
            stopped: whether the crawl is stopping.
            upstream: the next proxy, if any.

        Raises:
            BrowserFailed: no browser is installed, or none starts.
            AddressRefused, LayoutChanged: see `Browser.show`.
            DownloadTimeoutError, DownloadFailedError: a retry may succeed.
        """
        seat = await self._free.get()
        try:
            if stopped():
                return None
            seat.gate.upstream = upstream
            return await seat.show(url, engine, results, stopped)
        finally:
            self._free.put_nowait(seat)

    async def close(self) -> None:
        """Close all browsers."""
        await asyncio.gather(*(seat.close() for seat in self._seats))
        self._threads.shutdown()

    async def start(self, gate: Gate, port: int) -> Browser:
        """Start a browser behind `gate`. Raises BrowserFailed, DownloadFailedError."""
        async with self._finding:
            if self._programs is None:
                programs = find_programs(self._settings)
                self._user_agent = await in_thread(self._threads, programs.user_agent, self._product)
                await in_thread(self._threads, sweep, folders())
                self._programs = programs
        browser = Browser(self._programs, self._user_agent, self._settings, gate, port)
        alarm = asyncio.get_running_loop().call_later(_START_SECONDS, browser.kill)
        try:
            await in_thread(self._threads, browser.start)
        except DownloadFailedError as error:
            await in_thread(self._threads, browser.close)
            self._failed_starts += 1
            if self._failed_starts >= _MOST_FAILED_STARTS:
                raise BrowserFailed(
                    f"image search: {error} ({self._programs.browser}, {self._programs.driver})"
                ) from error
            raise
        except BaseException:
            browser.kill()
            raise
        finally:
            alarm.cancel()
        self._failed_starts = 0
        return browser

    async def show_with(
        self, browser: Browser, url: str, engine: Engine, results: int, stopped: Callable[[], bool]
    ) -> tuple[Page, bool]:
        """Show a page in `browser`. Returns it, and whether the browser can be reused.

        Kills a browser that exceeds the page timeout. Raises as `Browser.show`; the browser stays usable only
        after `_ERRORS_OF_PAGES`.
        """
        settings = self._settings
        late = asyncio.Event()

        def end_late() -> None:
            late.set()
            browser.kill()

        alarm = asyncio.get_running_loop().call_later(settings.page_seconds + _GRACE_SECONDS, end_late)
        try:
            page = await in_thread(self._threads, browser.show, url, engine, results, stopped)
        except DownloadFailedError as error:
            if late.is_set():
                raise DownloadTimeoutError(f"{url}: the browser hung") from error
            raise
        finally:
            alarm.cancel()
        return page, not await self.is_worn(browser)

    async def is_worn(self, browser: Browser) -> bool:
        """Return whether the browser has reached its limit of pages or memory."""
        settings = self._settings
        if browser.pages >= settings.pages_per_browser:
            return True
        return await in_thread(self._threads, browser.memory_mb) > settings.browser_memory_mb

    async def end(self, browser: Browser) -> None:
        """Close a browser and wait until its processes and files are gone."""
        await in_thread(self._threads, browser.close)


class _Seat:
    def __init__(self, pool: BrowserPool, gate: Gate) -> None:
        self.gate = gate
        self._pool = pool
        self._port: int | None = None
        self._browser: Browser | None = None

    async def show(self, url: str, engine: Engine, results: int, stopped: Callable[[], bool]) -> Page:
        if self._port is None:
            self._port = await self.gate.open()
        browser, self._browser = self._browser or await self._pool.start(self.gate, self._port), None
        usable = False
        try:
            page, usable = await self._pool.show_with(browser, url, engine, results, stopped)
        except _ERRORS_OF_PAGES:
            usable = not await self._pool.is_worn(browser)
            raise
        finally:
            self.gate.forget()
            if usable:
                self._browser = browser
            else:
                browser.kill()
                await self._pool.end(browser)
        return page

    async def close(self) -> None:
        if self._browser is not None:
            await self._pool.end(self._browser)
            self._browser = None
        await self.gate.close()
