"""URLs of the pictures on Imgflip's pages: images, GIFs shown as videos, further pictures."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import urlsplit

from memeloom.scrapers.sources.tree import Element, attribute, below, text_of

_PICTURE_PATH = re.compile(r"/(?:\d/)?[0-9a-z]+\.\w+")
_GIF = re.compile(r"\.gif(?:[?#].*)?$", re.IGNORECASE)


def shown_address(picture: Element | None, join: Callable[[str], str]) -> str | None:
    """Return the URL of an `img` or `video`; for a video, preferably that of its GIF."""
    if picture is None:
        return None
    places = [picture, *below(picture, "source")] if picture.tag == "video" else [picture]
    named = [found for place in places for name in ("src", "data-src") if (found := attribute(place, name))]
    return join(next(filter(_GIF.search, named), named[0])) if named else None


def further_pictures(message: Element | None, join: Callable[[str], str], first: str) -> Iterator[str]:
    """Yield the URLs of the pictures after `message`: as many as it states, on the host of `first`."""
    if message is None:
        return
    stated = re.search(r"\d{1,9}", text_of(message) or "")
    pictures = (picture for place in message.itersiblings() for picture in place.iter("img", "video"))
    found = (shown_address(picture, join) for picture in pictures)
    wanted = (address for address in found if address and _is_beside(address, first))
    yield from islice(wanted, int(stated[0]) if stated else None)


def _is_beside(address: str, first: str) -> bool:
    there, here = urlsplit(address), urlsplit(first)
    return there.netloc == here.netloc and there.path != here.path and bool(_PICTURE_PATH.fullmatch(there.path))
