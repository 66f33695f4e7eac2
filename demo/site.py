"""What the copy of one source says about itself; `sites.py` finds them all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from memeloom.demo.context import Host, SiteContext
from memeloom.demo.options import Options
from memeloom.demo.truth import ServedMeme, Serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The copy of one source.

    Attributes:
        hosts: names of its hosts; each gets a port.
        image_hosts: those that serve pictures, which some faults are for.
        routes: returns the routes of each host.
        settings: returns the ``--set`` overrides that point memeloom at it, from the options and its hosts' URLs.
        served: yields every meme that it serves now, as a complete crawl must find it.
    """

    hosts: tuple[Host, ...]
    image_hosts: frozenset[Host]
    routes: Callable[[SiteContext], Mapping[Host, Sequence[web.AbstractRouteDef]]]
    settings: Callable[[Options, Callable[[Host], str]], Sequence[str]]
    served: Callable[[Serving], Iterator[ServedMeme]]
