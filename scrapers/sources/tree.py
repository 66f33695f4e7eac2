"""An HTML page with its elements indexed by class and id.

A selector library evaluates each selector over the whole page. On pages that mark everything with classes and ids,
indexing takes a third of the time.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

from parsel import Selector

Element: TypeAlias = Any  # of lxml


class Tree:
    """An element and its descendants, indexed by ``.class`` and ``#id``, in document order."""

    def __init__(self, root: Element) -> None:
        self.root = root
        self._found: dict[str, list[Element]] = {}
        for element in root.iter():
            if classes := element.get("class"):
                for name in classes.split():
                    self._found.setdefault(f".{name}", []).append(element)
            if name := element.get("id"):
                self._found.setdefault(f"#{name}", []).append(element)

    def all(self, name: str) -> list[Element]:
        """Return the elements with that ``.class`` or ``#id``."""
        return self._found.get(name, [])

    def first(self, name: str) -> Element | None:
        """Return the first of them, or None."""
        found = self._found.get(name)
        return found[0] if found else None

    def text(self, name: str) -> str | None:
        """Return the trimmed text of the first of them, or None."""
        return text_of(self.first(name))


def read_page(html: str) -> Tree:
    """Parse a page."""
    # Without a type, a page that is JSON would be read as JSON.
    return Tree(Selector(html, type="html").root)


def joiner(url: str) -> Callable[[str], str]:
    """Return `urljoin` for the page at `url`, several times faster for URLs that start with a slash.

    It returns an empty string for an address that cannot be parsed: one link must not make a whole page unreadable.
    """
    scheme, host = urlsplit(url)[:2]

    def join(address: str) -> str:
        if address.startswith("/") and "[" not in address and "]" not in address and address.isascii():
            return f"{scheme}:{address}" if address.startswith("//") else f"{scheme}://{host}{address}"
        try:
            return urlsplit(urljoin(url, address)).geturl()
        except ValueError:
            return ""

    return join


def below(element: Element | None, tag: str) -> Iterator[Element]:
    """Yield `element` and its descendants with this tag."""
    return iter(()) if element is None else element.iter(tag)


def attribute(element: Element | None, name: str) -> str | None:
    """Return a trimmed attribute, or None if missing or empty."""
    value = None if element is None else element.get(name)
    return value.strip() or None if value else None


def text_of(element: Element | None) -> str | None:
    """Return an element's trimmed text, or None if missing or empty."""
    return None if element is None else "".join(element.itertext()).strip() or None
