"""Reddit's token and its budget, for every request that says so in ``meta["reddit"]``.

The token lives in memory only: no secret goes into the frontier.
"""

import asyncio
from typing import Any

from scrapy import FormRequest, Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from w3lib.http import basic_auth_header

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Reddit
from memeloom.scrapers.errors import LayoutChanged
from memeloom.scrapers.pages import reddit
from memeloom.scrapers.retry import rest_host
from memeloom.scrapers.spiders.base import MemeSpider, our_spider

_LONGEST_WAIT = 600.0


class RedditRefused(MemeloomError):
    """Reddit does not accept the application or its token."""


class RedditToken:
    """Signs requests with an application's token, and rests when the budget that Reddit states is used up.

    The API is entered with an application's own credentials under Reddit's terms for it, so its
    robots.txt, which is for crawlers of pages, is not asked; that of the image hosts is.
    """

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._settings: Reddit = spider.config.crawl.reddit
        self._token = ""
        self._refresh = asyncio.Lock()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "RedditToken":
        """The middleware of one spider."""
        return cls(crawler, our_spider(crawler))

    async def process_request(self, request: Request) -> None:
        """Sign the request. Raises RedditRefused, LayoutChanged."""
        if request.meta.get("reddit"):
            async with self._refresh:
                if not self._token:
                    self._token = await self._fetch()
            request.headers["Authorization"] = f"Bearer {self._token}"

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        """The response, or, if the token has run out, the request again for a fresh one. Raises RedditRefused."""
        if not request.meta.get("reddit"):
            return response
        if response.status == 401:
            return self._again(request, response)
        if seconds := seconds_to_wait(response):
            rest_host(self._crawler, request, seconds)
        return response

    def _again(self, request: Request, response: Response) -> Request:
        if request.meta.get("refreshed"):
            raise RedditRefused(f"{response.url}: Reddit refuses a fresh token (HTTP 401)")
        if request.headers.get("Authorization") == f"Bearer {self._token}".encode():
            self._token = ""
        return request.replace(meta=request.meta | {"refreshed": True}, dont_filter=True)

    async def _fetch(self) -> str:
        settings = self._settings
        secret = settings.client_secret.get_secret_value() if settings.client_secret else ""
        request = FormRequest(
            f"{settings.site}/api/v1/access_token",
            formdata={"grant_type": "client_credentials"},
            headers={"Authorization": basic_auth_header(settings.client_id or "", secret)},
            meta={"dont_obey_robotstxt": True},
        )
        response: Any = await self._crawler.engine.download_async(request)
        if response.status in (400, 401, 403):
            raise RedditRefused(
                f"{response.url}: Reddit refuses the application (HTTP {response.status}): "
                f"check crawl.reddit.client_id and client_secret"
            )
        try:
            return str(response.json()["access_token"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LayoutChanged(reddit.SITE, "access_token", response.url) from None


def seconds_to_wait(response: Response) -> float:
    """How long Reddit's rate limit asks us to rest: until its window ends, once the window's budget is used up."""
    try:
        remaining = float(response.headers.get("x-ratelimit-remaining") or b"1")
        reset = float(response.headers.get("x-ratelimit-reset") or b"0")
    except ValueError:
        return 0.0
    return min(reset, _LONGEST_WAIT) if remaining < 1 else 0.0
