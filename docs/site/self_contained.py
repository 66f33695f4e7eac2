"""Fail the build if a page or style sheet of the site loads anything from another host."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

_FOREIGN = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?\s*(?P<address>(?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
# A <link> with another rel, such as canonical, is not loaded.
_LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


def on_post_build(config: MkDocsConfig) -> None:
    """Check the pages that were built."""
    site = Path(config.site_dir)
    found = [
        f"{path.relative_to(site)}: {address}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css", ".svg")
        for address in foreign_assets(path.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("loaded from other hosts:\n" + "\n".join(found))


def foreign_assets(text: str) -> Iterator[str]:
    """Yield the addresses on other hosts that a page or style sheet loads without a click."""
    for match in _STYLE.finditer(text):
        yield match["address"]
    page = _Page()
    page.feed(text)
    yield from page.found


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        names = ["src", "srcset", "poster", "data"]
        if tag in ("image", "use"):
            names += ["href", "xlink:href"]
        if tag == "link" and _LOADED_LINKS & set(attributes.get("rel", "").split()):
            names.append("href")
        self.found += [attributes[name] for name in names if _FOREIGN.match(attributes.get(name, ""))]
