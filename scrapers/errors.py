"""How a crawl fails."""

from configs.errors import MemeloomError


class CrawlFailed(MemeloomError):
    """The crawl did not come to a good end; what it gathered is kept."""
