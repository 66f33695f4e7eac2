"""The pictures that the image searches find, and the host where they lie. Both searches find the same ones."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aiohttp import web

from memeloom.demo.corpus import Blank, Corpus
from memeloom.demo.options import Options
from memeloom.demo.reddit_posts import spares_used
from memeloom.demo.world import World, picture_response, robots

_REPEAT_EVERY = 20
_MOST_RESULTS = 700
_DEAD_TURN, _DEAD_CYCLE = 4, 9


@dataclass(frozen=True, slots=True)
class Found:
    """A picture, by its name; `dead` if only the search engines' thumbnail of it is left."""

    name: str
    blank: Blank
    boxes: tuple[str, ...]
    dead: bool = False

    @property
    def path(self) -> str:
        """Where it lies on the host of the pictures."""
        return f"/p/{self.name}.jpg"

    @property
    def page(self) -> str:
        """The page that it stands on, as far as the searches say."""
        return f"https://example.org/memes/{self.name}"

    @property
    def title(self) -> str:
        """That page's title."""
        return f"Funny memes & more {self.name[:4]}"


def found_pictures(corpus: Corpus, options: Options) -> Iterator[Found]:
    """What the searches know, drawn from captions that neither Imgflip nor Reddit shows."""
    first = spares_used(options)
    for number in range(options.pictures):
        blank, boxes = corpus.spare(first + number)
        name = hashlib.sha256(f"found {number}".encode()).hexdigest()[:20]
        yield Found(name, blank, boxes, options.variety and number % _DEAD_CYCLE == _DEAD_TURN)


class PictureHost:
    """Ranks the pictures by query, and serves them and their thumbnails."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._found = list(found_pictures(world.feed, world.options))
        self._by_name = {found.name: found for found in self._found}
        self._sizes: dict[str, tuple[int, int]] = {}

    def routes(self) -> list[web.AbstractRouteDef]:
        """Routes of the host where the pictures lie."""
        return [web.get("/robots.txt", robots()), web.get("/p/{name}.jpg", self.picture)]

    async def picture(self, request: web.Request) -> web.Response:
        """A picture that is still there."""
        found = self._by_name.get(request.match_info["name"])
        if found is None or found.dead:
            raise web.HTTPNotFound
        return picture_response(await self._world.draw(self._world.studio.meme, found.blank, found.boxes))

    async def thumbnail(self, name: str) -> web.Response:
        """What a search engine keeps of the picture; dead ones too."""
        found = self._by_name.get(name)
        if found is None:
            raise web.HTTPNotFound
        return picture_response(await self._world.draw(self._world.studio.thumbnail, found.blank, found.boxes))

    def address(self, found: Found) -> str:
        """Where the picture is said to lie."""
        return self._world.url("pictures") + found.path

    async def size(self, found: Found) -> tuple[int, int]:
        """Width and height of the picture."""
        blank = found.blank
        if blank.id not in self._sizes:
            self._sizes[blank.id] = await self._world.draw(self._world.studio.size, blank)
        return self._sizes[blank.id]

    def ranked(self, query: str) -> Sequence[Found]:
        """All pictures, from another one on for each query; every twentieth place repeats an earlier result."""
        start = int.from_bytes(hashlib.sha256(query.encode()).digest()[:4], "big") % max(1, len(self._found))
        ranked: list[Found] = []
        for found in self._found[start:] + self._found[:start]:
            ranked.append(found)
            if len(ranked) % _REPEAT_EVERY == 0:
                ranked.append(ranked[-7])
        return ranked[:_MOST_RESULTS]
