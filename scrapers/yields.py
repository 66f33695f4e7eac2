"""What comes out of the pages: finds those on which a parser saw nothing although it should have.

A callback whose signature says that it yields memes is one whose pages show some. A page of it is empty if it brought
no meme, led to no page of another such callback and had nothing to skip. A meme that is known already comes out
like any other, so an incremental crawl meets no empty pages; the end of a listing is seldom one, and never many.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, get_args, get_type_hints

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from memeloom.scrapers.items import MemeItem
from memeloom.scrapers.spiders.base import our_spider
from memeloom.scrapers.watch import Watch

_EMPTY = "skipped: page without a meme"
# Not what a page held; the first is counted by the frontier and the landing, whenever they find out.
_NOT_OF_A_PAGE = ("skipped: seen before in this crawl", _EMPTY)


class Yields:
    """The spider middleware that tells `Watch` of each page whether it was empty."""

    def __init__(self, crawler: Crawler) -> None:
        self._spider = our_spider(crawler)
        self._crawler = crawler
        self._promising = {
            name for name, method in inspect.getmembers(type(self._spider), callable) if _promises_memes(name, method)
        }

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Yields":
        """The middleware of one spider, which must be one of ours."""
        return cls(crawler)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterable[Any]:
        """Hand everything on."""
        name = self._name(response)
        return result if name is None else self._counted(response, name, result)

    async def process_spider_output_async(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Hand everything on."""
        name, before, fruit = self._name(response), self._skipped(), False
        async for each in result:
            fruit = fruit or (name is not None and self._is_fruit(each, response, name))
            yield each
        if name is not None:
            self._read(response, name, empty=not fruit and self._skipped() == before)

    def _counted(self, response: Response, name: str, result: Iterable[Any]) -> Iterator[Any]:
        before, fruit = self._skipped(), False
        for each in result:
            fruit = fruit or self._is_fruit(each, response, name)
            yield each
        self._read(response, name, empty=not fruit and self._skipped() == before)

    def _name(self, response: Response) -> str | None:
        """The name of the callback that reads the page; None if it promises no memes, or if an errback is at work."""
        request = response.request
        if request is None or "page" not in request.meta or not 200 <= response.status < 300:
            return None
        name = getattr(request.callback, "__name__", "")
        return name if name in self._promising else None

    def _is_fruit(self, each: Any, response: Response, name: str) -> bool:
        if isinstance(each, Request):
            other = getattr(each.callback, "__name__", "")
            again = response.request is not None and each.url == response.request.url
            return again or (other != name and other in self._promising)
        return isinstance(each, MemeItem)

    def _skipped(self) -> int:
        reasons = self._spider.session.reasons
        return sum(
            n for reason, n in reasons.items() if reason.startswith("skipped: ") and reason not in _NOT_OF_A_PAGE
        )

    def _read(self, response: Response, name: str, *, empty: bool) -> None:
        if empty:
            self._spider.session.reasons[_EMPTY] += 1
        watch = self._crawler.get_extension(Watch)
        if watch is not None:
            watch.page_read(name, response.url, empty=empty)


def _promises_memes(name: str, method: Callable[..., Any]) -> bool:
    """Whether a public method takes a response and says that it yields memes."""
    if name.startswith("_") or not inspect.isfunction(method):
        return False
    try:
        hints = get_type_hints(method)
    except NameError:
        return False
    takes = any(isinstance(hint, type) and issubclass(hint, Response) for hint in hints.values())
    return takes and MemeItem in _parts(hints.get("return"))


def _parts(hint: Any) -> set[Any]:
    """`hint` and all that it is made of."""
    return {hint}.union(*(_parts(part) for part in get_args(hint)))
