"""Where Imgflip's pages keep the bytes of what they show: images, GIFs that play as videos, further pictures."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import urlsplit

from memeloom.scrapers.pages.tree import Element, attribute, below, text_of

_PICTURE_PATH = re.compile(r"/(?:\d/)?[0-9a-z]+\.\w+")
_ENDING = re.compile(r"\.(\w+)(?:[?#].*)?$")
_MOVING = frozenset({"gif", "mp4", "webm"})


def shown_address(picture: Element | None, join: Callable[[str], str]) -> tuple[str | None, bool]:
    """Where the bytes of an `img` or `video` are to be had, and whether they move; of a video rather its GIF."""
    if picture is None:
        return None, False
    places = [picture, *below(picture, "source")] if picture.tag == "video" else [picture]
    named = [found for place in places for name in ("src", "data-src") if (found := attribute(place, name))]
    if not named:
        return None, False
    found = next((address for address in named if _ending(address) == "gif"), named[0])
    return join(found), picture.tag == "video" or _ending(found) in _MOVING


def further_pictures(message: Element | None, join: Callable[[str], str], first: str) -> Iterator[tuple[str, bool]]:
    """The pictures behind the `message` that there are more: as many as it says, on the host of the `first`."""
    if message is None:
        return
    stated = re.search(r"\d+", text_of(message) or "")
    pictures = (picture for place in message.itersiblings() for picture in place.iter("img", "video"))
    found = (shown_address(picture, join) for picture in pictures)
    wanted = ((address, moves) for address, moves in found if address and _is_beside(address, first))
    yield from islice(wanted, int(stated[0]) if stated else None)


def _is_beside(address: str, first: str) -> bool:
    there, here = urlsplit(address), urlsplit(first)
    return there.netloc == here.netloc and there.path != here.path and bool(_PICTURE_PATH.fullmatch(there.path))


def _ending(address: str) -> str:
    found = _ENDING.search(address)
    return found[1].lower() if found else ""
