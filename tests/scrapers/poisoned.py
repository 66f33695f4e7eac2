"""`memeloom`, but its crawling process dies at the picture of one meme: that of the id in $POISON."""

import os
from collections.abc import Iterator
from typing import Any

from scrapy.http import Response

from memeloom.cli.main import main
from memeloom.scrapers.items import MemeItem, TemplateItem
from memeloom.scrapers.sources.spider import MemeSpider

_picture = MemeSpider.picture


def picture(
    self: MemeSpider, response: Response, what: str, record: dict[str, Any], fallback_url: str | None = None
) -> Iterator[MemeItem | TemplateItem]:
    """What the spider's own does, unless it is that picture."""
    if record["id"] == os.environ["POISON"]:
        os._exit(77)
    yield from _picture(self, response, what, record, fallback_url)


# The crawling process is spawned, and so imports this module as well.
MemeSpider.picture = picture  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
