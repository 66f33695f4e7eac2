"""Errors of a crawl."""

from memeloom.configs.errors import MemeloomError


class CrawlFailed(MemeloomError):
    """The crawl ended early; everything it stored is kept."""


class BrowserFailed(CrawlFailed):
    """The browser is missing, does not start, crashed or did not exit in time."""


class LayoutChanged(MemeloomError):
    """A page lacks what its parser expects, so continuing would collect nothing or wrong data."""

    def __init__(self, site: str, selector: str, url: str) -> None:
        super().__init__(
            f"{site}: {selector!r} not found in {url}: the site has changed its layout, or answered with another page; "
            f"look at it in a browser"
        )
        self.site = site
        self.selector = selector
        self.url = url
