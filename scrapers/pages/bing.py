"""Bing's image search: what its result grid says of each picture."""

import json
from dataclasses import dataclass

from parsel import Selector

from scrapers.pages.layout import LayoutChanged

SITE = "bing"

RESULT = "a.iusc"
RESULT_FACTS = "m"
MORE_BUTTON = "a.btn_seemore, input.btn_seemore, .mm_seemore a"

# Around the words of the query, in titles.
_HIGHLIGHT = {0xE000: None, 0xE001: None}


@dataclass(frozen=True, slots=True)
class FoundImage:
    """One result: the picture, the page that it stands on, and that page's title."""

    image_url: str
    page_url: str | None
    title: str | None


def parse_results(html: str, url: str) -> tuple[FoundImage, ...]:
    """The results that `html` shows, in order, each picture once.

    Raises:
        LayoutChanged: no result at all, or results of which none can be read.
    """
    results = Selector(html).css(RESULT)
    found: dict[str, FoundImage] = {}
    for result in results:
        image = _found_image(result.attrib.get(RESULT_FACTS, ""))
        if image:
            found.setdefault(image.image_url, image)
    if not found:
        raise LayoutChanged(SITE, f"{RESULT}[{RESULT_FACTS}]" if results else RESULT, url)
    return tuple(found.values())


def _found_image(facts: str) -> FoundImage | None:
    try:
        known = json.loads(facts)
        image_url = known["murl"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(image_url, str) or not image_url.startswith(("http://", "https://")):
        return None
    title = str(known.get("t") or "").translate(_HIGHLIGHT).strip()
    return FoundImage(image_url, known.get("purl") or None, title or None)
