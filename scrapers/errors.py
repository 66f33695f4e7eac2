"""How a crawl fails."""

from memeloom.configs.errors import MemeloomError


class CrawlFailed(MemeloomError):
    """The crawl did not come to a good end; what it gathered is kept."""


class BrowserFailed(CrawlFailed):
    """The browser is missing, did not start, broke down or did not end in time."""
