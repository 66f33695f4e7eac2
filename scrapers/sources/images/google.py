"""Parser of Google's image search: its grid is drawn by script, and the results are in two places.

The first results are arrays in inline scripts, ``"<docid>",["<thumbnail>",height,width],["<picture>",height,width],…``
followed by ``"2003":[null,"<id>","<page>","<title>",…``. Results loaded by scrolling have only a link,
``/imgres?imgurl=<picture>&imgrefurl=<page>&…``, which appears under the pointer.
"""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

from parsel import Selector

from memeloom.scrapers.errors import LayoutChanged
from memeloom.scrapers.sources.images.search import Engine, FoundImage, is_web_address

SITE = "google"

RESULT = "div[data-docid]"
MORE = ("input.mye4qd", "a.LZ4I, button.LZ4I")
CONSENT = ("#W0wltc", "#L2AGLb", "form[action*='consent.google'] button")
LINK = "a[href*='/imgres?']"
HOVER = "div[data-docid] a:not([href*='imgurl='])"
ARRAY = '"docid",["thumbnail",h,w],["picture",h,w]'

_TEXT = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_PICTURE = rf"\[\s*{_TEXT}\s*,\s*\d+\s*,\s*\d+\s*\]"
_PAIR = re.compile(rf'"[\w:-]{{6,40}}"\s*,\s*{_PICTURE}\s*,\s*{_PICTURE}')
_PAGE = re.compile(rf'"2003":\s*\[\s*null\s*,\s*{_TEXT}\s*,\s*{_TEXT}\s*,\s*{_TEXT}')
_SCRIPT_BYTE = re.compile(r"\\x([0-9a-fA-F]{2})")
_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})|\\+(.)", re.DOTALL)
_SHORT = {"n": "\n", "t": "\t", "r": "\n", "b": "", "f": ""}


def search_url(site: str, query: str) -> str:
    """Return the URL of the results for `query`; `site` is Google's URL."""
    return f"{site}/search?{urlencode({'q': query, 'udm': '2', 'hl': 'en'})}"


def parse_results(html: str, url: str) -> tuple[FoundImage, ...]:
    """Return the results of a page, those of the arrays first, without duplicates.

    Raises:
        LayoutChanged: no results, or none that can be parsed.
    """
    page = Selector(html, type="html")
    found: dict[str, FoundImage] = {}
    for image in (*_from_arrays(script_text(page)), *_from_links(page)):
        found.setdefault(image.image_url, image)
    if not found:
        raise LayoutChanged(SITE, ARRAY if page.css(RESULT) else RESULT, url)
    return tuple(found.values())


def script_text(page: Selector) -> str:
    r"""Return all inline scripts, with ``\x3d`` and the like decoded, so that arrays within strings are found too."""
    scripts = "\n".join(page.xpath("//script[not(@src)]/text()").getall())
    return _SCRIPT_BYTE.sub(lambda byte: chr(int(byte[1], 16)), scripts)


def _from_arrays(text: str) -> Iterator[FoundImage]:
    pairs = list(_PAIR.finditer(text))
    ends = [*(pair.start() for pair in pairs[1:]), len(text)]
    for pair, end in zip(pairs, ends, strict=False):
        thumbnail, picture = _decoded(pair[1]), _decoded(pair[2])
        if not is_web_address(thumbnail) or not is_web_address(picture):
            continue
        facts = _PAGE.search(text, pair.end(), end)
        page_url, title = (_decoded(facts[2]), _decoded(facts[3])) if facts else ("", "")
        yield FoundImage(picture, page_url if is_web_address(page_url) else None, title.strip() or None, thumbnail)


def _from_links(page: Selector) -> Iterator[FoundImage]:
    for link in page.css(LINK):
        try:
            asked = parse_qs(urlsplit(link.attrib["href"]).query)
        except ValueError:
            continue
        picture, page_url = asked.get("imgurl", [""])[0], asked.get("imgrefurl", [""])[0]
        if is_web_address(picture):
            title, shown = (link.xpath(f".//img/@{name}").get("").strip() for name in ("alt", "src"))
            yield FoundImage(
                picture,
                page_url if is_web_address(page_url) else None,
                title or None,
                shown if is_web_address(shown) else None,
            )


def _decoded(text: str) -> str:
    r"""Decode a script string's escapes, also double ones; unpaired surrogates become U+FFFD."""
    plain = _ESCAPE.sub(lambda part: chr(int(part[1], 16)) if part[1] else _SHORT.get(part[2], part[2]), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


ENGINE = Engine(SITE, RESULT, MORE, CONSENT, HOVER, search_url, parse_results)
