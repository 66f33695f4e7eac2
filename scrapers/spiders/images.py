"""Image search: what a real browser finds for each query; the words in the pictures are left to OCR."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from urllib.parse import urlencode

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest

from catalog.records import Meme
from scrapers.items import MemeItem
from scrapers.pages import bing
from scrapers.pages.bing import FoundImage
from scrapers.settings import user_agent
from scrapers.spiders.base import MemeSpider


class ImagesSpider(MemeSpider):
    """One browser session a query, in a thread of its own; the pictures themselves go the way of all items."""

    name = "images"
    essential = bing.RESULT

    async def start(self) -> AsyncIterator[MemeItem]:
        """Search for each query in turn."""
        from scrapers.browser import browse_results

        seen: set[str] = set()
        for query in self.config.crawl.images.queries:
            url = f"{self.config.crawl.images.bing}/images/search?{urlencode({'q': query, 'form': 'HDRSC2'})}"
            if self.session.stopping or not await self.allowed(url):
                continue
            html = await asyncio.to_thread(
                browse_results,
                url,
                self.config.crawl.images,
                user_agent(self.config.crawl),
                lambda: self.session.stopping is not None,
            )
            self.session.counts["pages"] += 1
            found = bing.parse_results(html, url)[: self.config.crawl.images.results_per_query]
            for image in found:
                if image.image_url not in seen:
                    seen.add(image.image_url)
                    yield self.meme(image)

    async def allowed(self, url: str) -> bool:
        """Ask the site's robots.txt on the browser's behalf."""
        robots = self.crawler.get_downloader_middleware(RobotsTxtMiddleware)
        if robots is None:
            return True
        try:
            await robots.process_request(Request(url))
        except IgnoreRequest:
            self.session.reasons["page: forbidden by robots.txt"] += 1
            return False
        return True

    def meme(self, image: FoundImage) -> MemeItem:
        """The record of a search result; its id is made from the picture's address."""
        return MemeItem(
            Meme(
                id=f"{self.name}:{hashlib.sha256(image.image_url.encode()).hexdigest()[:24]}",
                source=self.name,
                page_url=image.page_url,
                image_url=image.image_url,
                title=image.title,
                fetched_at=self.now(),
            )
        )
