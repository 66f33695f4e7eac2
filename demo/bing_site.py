"""An image search in the manner of Bing's, and the hosts of the pictures that it finds.

The first 35 results stand in the page; more are fetched by script when one scrolls to the end,
three times, then after a press on "See more results", and so on until there are no more.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import quote

from aiohttp import web

from demo.corpus import Corpus
from demo.reddit_posts import Drawn, spares_used
from demo.world import World, html_response, picture_response, robots, whole_number

_RESULTS_A_PAGE = 35
_REPEAT_EVERY = 20
_MOST_RESULTS = 700

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{query} - Search Images</title><style>
body {{ margin: 0; font-family: sans-serif }}
.dgControl_list {{ list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap }}
.dgControl_list li {{ width: 33%; height: 260px; overflow: hidden }}
.mimg {{ height: 230px }}
.mm_seemore {{ display: none; text-align: center; padding: 30px }}
</style></head><body>
<div id="mmComponent_images_1" class="dgControl"><ul class="dgControl_list">{results}</ul></div>
<div class="mm_seemore"><a class="btn_seemore" href="#more">See more results</a></div>
<script>
const list = document.querySelector(".dgControl_list"), more = document.querySelector(".mm_seemore");
let next = {first}, loads = 3, busy = false, over = next >= {total};
async function load() {{
  if (busy || over) return;
  busy = true;
  try {{
    const answer = await fetch("/images/async?q={quoted}&first=" + next + "&count={size}");
    if (!answer.ok) return;
    const html = await answer.text();
    over = !html.trim();
    list.insertAdjacentHTML("beforeend", html);
    next += {size};
    loads -= 1;
    more.style.display = !over && loads <= 0 ? "block" : "none";
  }} finally {{ busy = false; }}
}}
window.addEventListener("scroll", () => {{
  const left = document.documentElement.scrollHeight - window.scrollY - window.innerHeight;
  if (left < 400 && loads > 0) load();
}});
more.querySelector("a").addEventListener("click", event => {{ event.preventDefault(); loads = 3; load(); }});
</script></body></html>
"""


class Bing:
    """Handlers of the search and of the image host."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._found = list(found_pictures(world.corpus, world.options.posts, world.options.pictures))
        self._by_name = {drawn.name: drawn for drawn in self._found}

    def site(self) -> list[web.AbstractRouteDef]:
        """Routes of www.bing.com."""
        return [
            web.get("/robots.txt", robots()),
            web.get("/images/search", self.search),
            web.get("/images/async", self.more),
        ]

    def images(self) -> list[web.AbstractRouteDef]:
        """Routes of the host where the pictures lie."""
        return [web.get("/robots.txt", robots()), web.get("/p/{name}.jpg", self.picture)]

    async def search(self, request: web.Request) -> web.Response:
        """The result page of a query."""
        query = request.query.get("q", "")
        results = self._ranked(query)
        first = whole_number(request, "first", 1) or 1
        part = results[first - 1 : first - 1 + _RESULTS_A_PAGE]
        page = _PAGE.format(
            query=escape(query), quoted=quote(query), results=self._list(part), size=_RESULTS_A_PAGE,
            first=first - 1 + _RESULTS_A_PAGE, total=len(results),
        )  # fmt: skip
        return html_response(page)

    async def more(self, request: web.Request) -> web.Response:
        """Results from place `first` on, as the page's script asks for them; nothing after the last."""
        results = self._ranked(request.query.get("q", ""))
        first = whole_number(request, "first", 0)
        if "endless_paging" in request:
            first %= max(1, len(results))
        size = min(_RESULTS_A_PAGE, whole_number(request, "count", _RESULTS_A_PAGE))
        return html_response(self._list(results[first : first + size]))

    async def picture(self, request: web.Request) -> web.Response:
        """A picture that the search found."""
        drawn = self._by_name.get(request.match_info["name"])
        if drawn is None:
            raise web.HTTPNotFound
        return picture_response(await self._world.draw(self._world.studio.meme, drawn.blank, drawn.boxes))

    def _ranked(self, query: str) -> Sequence[Drawn]:
        """All pictures, from another one on for each query; every twentieth place repeats an earlier result."""
        start = int.from_bytes(hashlib.sha256(query.encode()).digest()[:4], "big") % max(1, len(self._found))
        ranked: list[Drawn] = []
        for drawn in self._found[start:] + self._found[:start]:
            ranked.append(drawn)
            if len(ranked) % _REPEAT_EVERY == 0:
                ranked.append(ranked[-7])
        return ranked[:_MOST_RESULTS]

    def _list(self, results: Sequence[Drawn]) -> str:
        return "".join(map(self._result, results))

    def _result(self, drawn: Drawn) -> str:
        address = picture_address(self._world.url("pictures"), drawn)
        facts = {
            "sid": "", "cturl": "", "cid": drawn.name[:8], "purl": f"https://example.org/memes/{drawn.name}",
            "murl": address, "turl": address, "md5": drawn.name.ljust(32, "0"), "shkey": "",
            "t": f"Funny memes & more \ue000{drawn.name[:4]}\ue001", "mid": drawn.name.upper(), "desc": "",
        }  # fmt: skip
        return (
            f'<li><div class="iuscp"><div class="imgpt"><a class="iusc" m="{escape(json.dumps(facts))}" '
            f'href="/images/search?view=detailV2&amp;id={drawn.name}"><div class="img_cont">'
            f'<img class="mimg" loading="lazy" src="{escape(address)}" alt="Image result"></div></a></div></div></li>\n'
        )


def found_pictures(corpus: Corpus, posts: int, count: int) -> Iterator[Drawn]:
    """The pictures that the image search knows, drawn from captions that neither Imgflip nor Reddit shows."""
    first = spares_used(posts)
    for number in range(count):
        blank, boxes = corpus.spare(first + number)
        name = hashlib.sha256(f"found {number}".encode()).hexdigest()[:20]
        yield Drawn(name, blank, boxes)


def picture_address(host: str, drawn: Drawn) -> str:
    """Where the picture lies; `host` is the base address."""
    return f"{host}/p/{drawn.name}.jpg"
