"""Counters of memes by their kind, as both document stores keep them."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from memeloom.catalog.documents import HAS_CAPTION, HAS_IMAGE, HAS_TEMPLATE, IS_READ

# Template ("" if it is unknown), source and flags of a meme.
Kind: TypeAlias = tuple[str, str, int]


class Tallied(NamedTuple):
    """The fields of `Counts` that count memes."""

    memes: int
    images: int
    captions: int
    read: int
    sources: dict[str, int]
    templates: dict[str, int]


def tallied(kinds: Iterable[tuple[str, str, int, int]]) -> Tallied:
    """Add up how many memes there are of each kind: template, source, flags, number."""
    sources, templates, bits = Counter[str](), Counter[str](), Counter[int]()
    for template, source, flags, n in kinds:
        sources[source] += n
        bits[flags] += n
        if flags & HAS_TEMPLATE:
            templates[template] += n
    images, captions, read = (
        sum(n for flags, n in bits.items() if flags & bit) for bit in (HAS_IMAGE, HAS_CAPTION, IS_READ)
    )
    in_order = sorted(templates.items(), key=lambda item: (-item[1], item[0]))
    return Tallied(sources.total(), images, captions, read, dict(sorted(sources.items())), dict(in_order))
