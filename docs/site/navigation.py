"""Expand ``folder/*.md`` in the navigation, and leave out sections without a page."""

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files

_PATTERN = "/*.md"


@event_priority(-100)  # after the hooks that generate pages
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace each pattern by the pages that match it."""
    assert config.nav is not None
    pages = [file.src_uri for file in files.documentation_pages()]
    config.nav = expanded(config.nav, pages)
    return files


def expanded(nav: list[Any], pages: list[str]) -> list[Any]:
    """Return `nav` with the pages of its patterns, none of them twice: index pages first, the others as in `pages`."""
    return _expanded(nav, sorted(pages, key=lambda page: not page.endswith("/index.md")), set(_named(nav)))


def _expanded(nav: list[Any], pages: list[str], named: set[str]) -> list[Any]:
    result: list[Any] = []
    for item in nav:
        if isinstance(item, str) and item.endswith(_PATTERN):
            folder = item.removesuffix(_PATTERN)
            result += [page for page in pages if page.rpartition("/")[0] == folder and page not in named]
        elif isinstance(item, dict):
            ((title, content),) = item.items()
            inner = _expanded(content, pages, named) if isinstance(content, list) else content
            result += [{title: inner}] if inner else []
        else:
            result.append(item)
    return result


def _named(nav: list[Any]) -> list[str]:
    names: list[str] = []
    for item in nav:
        for content in item.values() if isinstance(item, dict) else [item]:
            names += _named(content) if isinstance(content, list) else [content]
    return names
