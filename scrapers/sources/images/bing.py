"""Parser of Bing's image search results."""

import json
from urllib.parse import urlencode

from parsel import Selector

from memeloom.scrapers.errors import LayoutChanged
from memeloom.scrapers.sources.images.search import Engine, FoundImage, is_web_address

SITE = "bing"

RESULT = "a.iusc"
RESULT_FACTS = "m"
MORE = ("a.btn_seemore", "input.btn_seemore", ".mm_seemore a")
CONSENT = ("#bnp_btn_reject", "#bnp_btn_accept")

# Bing puts these around query words in titles.
_HIGHLIGHT = {0xE000: None, 0xE001: None}


def search_url(site: str, query: str) -> str:
    """Return the URL of the results for `query`; `site` is Bing's URL."""
    return f"{site}/images/search?{urlencode({'q': query, 'form': 'HDRSC2'})}"


def parse_results(html: str, url: str) -> tuple[FoundImage, ...]:
    """Return the results of a page in order, without duplicates.

    Raises:
        LayoutChanged: no results, or none that can be parsed.
    """
    results = Selector(html, type="html").css(RESULT)
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
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not is_web_address(image_url):
        return None
    title = str(known.get("t") or "").translate(_HIGHLIGHT).strip()
    page, thumbnail = (value if is_web_address(value) else None for value in (known.get("purl"), known.get("turl")))
    return FoundImage(image_url, page, title or None, thumbnail)


ENGINE = Engine(SITE, RESULT, MORE, CONSENT, None, search_url, parse_results)
