"""The error of a parser that does not find what its site has always shown."""

from memeloom.configs.errors import MemeloomError


class LayoutChanged(MemeloomError):
    """A page does not look as its parser knows it: going on would gather nothing, or nonsense."""

    def __init__(self, site: str, selector: str, url: str) -> None:
        super().__init__(
            f"{site}: {selector!r} is not where it should be in {url}: the site has changed its layout, "
            f"or sent something else than the page; look at it in a browser"
        )
        self.site = site
        self.selector = selector
        self.url = url
