"""What Scrapy would log of every request and item: nobody reads it, and it costs more than a look-up in the catalog.

Both are counted, and shown while the crawl runs and in its report.
"""

from typing import Any

from scrapy.logformatter import LogFormatter


class QuietFormatter(LogFormatter):
    """Scrapy's log without the lines that tell of success, or of an item that was counted as dropped."""

    def crawled(self, *_: Any, **__: Any) -> Any:
        """Say nothing."""

    def scraped(self, *_: Any, **__: Any) -> Any:
        """Say nothing."""

    def dropped(self, *_: Any, **__: Any) -> Any:
        """Say nothing."""
