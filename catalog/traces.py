"""Where else a removed meme may show: the pages that earlier runs wrote for people to look at."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from memeloom.catalog.documents import batched

# What an id may look like in a page. Pictures are in there as one long word.
_ID = re.compile(rb"(?<![a-z0-9_])[a-z0-9_]{1,64}:[^\s<>\"'/][^\s<>\"']{0,511}(?![^\s<>\"'])")
_ASKED = 5000


def pages_showing(folder: Path, removed: Callable[[Sequence[str]], set[str]]) -> Iterator[Path]:
    """Yield the pages under `folder` (that of the runs) that name a removed meme, in order.

    removed: those of some ids that were removed. A page that cannot be read is passed over.
    """
    for path in sorted(folder.rglob("*.html")):
        try:
            page = path.read_bytes()
        except OSError:
            continue
        names = (html.unescape(found.group().decode(errors="replace")) for found in _ID.finditer(page))
        ids = dict.fromkeys(each for name in names for each in (name, name.rstrip(",.;")))
        if any(removed(part) for part in batched(ids, _ASKED)):
            yield path
