"""Scrapy's item pipeline: hands records to `Landing`, and runs the picture downloader beside the engine."""

from scrapy.crawler import Crawler

from memeloom.configs.schema import Config
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.items import Mark, MemeItem, TemplateItem
from memeloom.scrapers.landing import Landing
from memeloom.scrapers.pictures.downloader import PictureDownloader
from memeloom.scrapers.scheduler import scheduler_of
from memeloom.scrapers.sources.spider import MemeSpider, our_spider
from memeloom.scrapers.watch import Watch


class Pipeline:
    """The item pipeline of one spider."""

    _landing: Landing
    _downloader: PictureDownloader

    def __init__(self, crawler: Crawler, config: Config, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._config = config
        self._spider = spider

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Pipeline":
        """Create the pipeline of a `MemeSpider`."""
        return cls(crawler, crawler.settings["MEMELOOM_CONFIG"], our_spider(crawler))

    async def open_spider(self) -> None:
        """Open the stores and start the downloader. Raises StoreError, ConfigError."""
        session, queue = self._spider.session, scheduler_of(self._crawler).queue
        watch = self._crawler.get_extension(Watch)
        if watch is None:
            raise CrawlFailed(f"the setting EXTENSIONS must name {Watch.__name__}")
        self._landing = Landing(self._config, session, queue)
        await self._landing.open()
        self._downloader = PictureDownloader(
            self._config.crawl,
            session,
            queue,
            self._landing.land,
            ended=watch.ended,
            failed=watch.store_failed,
        )
        self._downloader.start()

    async def close_spider(self) -> None:
        """Finish the pictures in progress and close the stores."""
        await self._downloader.close()
        await self._landing.close()

    async def process_item(self, item: MemeItem | TemplateItem | Mark) -> MemeItem | TemplateItem | Mark:
        """Return when the item is durable, or will be atomically with its page. Raises NotLanded, StoreError."""
        if isinstance(item, Mark):
            self._spider.queue.mark(item.name, item.value)
        else:
            await self._landing.meet(item)
        return item
