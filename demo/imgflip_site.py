"""Imgflip: its pages, its templates API and its image host."""

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from aiohttp import web

from memeloom.demo.context import Host, SiteContext, html_response, picture_response, robots, whole_number
from memeloom.demo.corpus import Blank, Post
from memeloom.demo.imgflip_pages import editor_page, listing_page, meme_page, template_list_page, template_page
from memeloom.demo.site import Site
from memeloom.demo.truth import ServedMeme, Serving

_MEMES_A_PAGE = 15
_TEMPLATES_A_PAGE = 10
_FOUND_A_PAGE = 40
_LAST_SEARCH_PAGE = 250
_API_TEMPLATES = 100
_FILES = re.compile(r"(?P<key>[0-9a-z]{1,12})\.(?P<suffix>jpg|png|gif|mp4)$")


class Imgflip:
    """Handlers of the three hosts."""

    def __init__(self, context: SiteContext) -> None:
        self._context = context
        self._images = context.addresses["imgflip_images"]
        self._by_id = {blank.id: blank for blank in context.corpus.blanks}
        self._by_slug = {blank.slug: blank for blank in context.corpus.blanks}

    def site(self) -> list[web.AbstractRouteDef]:
        """Return the routes of imgflip.com."""
        return [
            web.get("/robots.txt", robots("/orig/", "/browse/")),
            web.get("/", self._templates),
            web.get("/memetemplates", self._templates),
            web.get("/memesearch", self._search),
            web.get("/memetemplate/{id}", self._template),
            web.get("/memetemplate/{id}/{slug}", self._template),
            web.get("/memegenerator/{id}", self._editor),
            web.get("/meme/{slug}", self._listing),
            web.get("/meme/{id}/{slug}", self._listing),
            web.get("/i/{key}", self._meme),
        ]

    def api(self) -> list[web.AbstractRouteDef]:
        """Return the routes of api.imgflip.com."""
        return [web.get("/robots.txt", robots()), web.get("/get_memes", self._get_memes)]

    def images(self) -> list[web.AbstractRouteDef]:
        """Return the routes of i.imgflip.com."""
        return [
            web.get("/robots.txt", robots()),
            web.get("/{file}", self._picture),
            web.get("/4/{file}", self._thumbnail),
        ]

    async def _templates(self, request: web.Request) -> web.Response:
        """Return the template list; `sort=top-new` reverses it."""
        blanks = list(self._context.corpus.blanks)
        if request.query.get("sort") == "top-new":
            blanks.reverse()
        return self._template_list(request, "Meme Templates", blanks, _TEMPLATES_A_PAGE)

    async def _search(self, request: web.Request) -> web.Response:
        """Return templates whose names contain the words of `q`; pages past 250 are a server error."""
        if whole_number(request, "page", 1) > _LAST_SEARCH_PAGE:
            return web.Response(status=500, text="Internal Server Error")
        words = request.query.get("q", "").lower().split()
        found = [
            blank
            for blank in self._context.corpus.blanks
            if all(word in " ".join((blank.name, *blank.alt_names)).lower() for word in words)
        ]
        return self._template_list(request, "Meme Search", found, _FOUND_A_PAGE)

    async def _template(self, request: web.Request) -> web.Response:
        blank = self._by_id.get(request.match_info["id"])
        if blank is None:
            raise web.HTTPNotFound
        renderer = self._context.renderer
        size, data = await self._context.draw(lambda: (renderer.size(blank), renderer.blank(blank)))
        return html_response(template_page(blank, self._images, size, len(data)))

    async def _editor(self, request: web.Request) -> web.Response:
        blank = self._by_id.get(request.match_info["id"])
        if blank is None:
            raise web.HTTPNotFound
        size = await self._context.draw(self._context.renderer.size, blank)
        return html_response(editor_page(blank, self._images, size))

    async def _listing(self, request: web.Request) -> web.Response:
        """Return a template's memes, 15 per page, newest first with `sort=latest`."""
        blank = self._by_slug.get(request.match_info["slug"])
        if blank is None or request.match_info.get("id", blank.id) != blank.id:
            raise web.HTTPNotFound
        corpus = self._context.corpus
        page = max(1, whole_number(request, "page", 1))
        if page > 1:
            corpus.publish({blank.id: request.get("moving_listing", 0)})
        count = corpus.count(blank)
        shown = _turn_back(request, page, count, _MEMES_A_PAGE)
        places: Sequence[int] = range((shown - 1) * _MEMES_A_PAGE, min(count, shown * _MEMES_A_PAGE))
        if request.query.get("sort") != "latest":
            places = [count - 1 - place for place in places]
        more = shown != page or page * _MEMES_A_PAGE < count or "endless_paging" in request
        if "empty_page" in request:
            places, more = (), False
        posts = [corpus.post(blank, place) for place in places]
        return html_response(listing_page(blank, posts, self._images, _href(request, page + 1) if more else None))

    async def _meme(self, request: web.Request) -> web.Response:
        return html_response(meme_page(self._find(request.match_info["key"]), self._images))

    async def _get_memes(self, _: web.Request) -> web.Response:
        memes = []
        for blank in self._context.corpus.blanks[:_API_TEMPLATES]:
            width, height = await self._context.draw(self._context.renderer.size, blank)
            memes.append({
                "id": blank.id, "name": blank.name, "url": f"http://{self._images}/{blank.key}.jpg",
                "width": width, "height": height, "box_count": len(blank.boxes),
                "captions": self._context.corpus.count(blank) * 100 + Random(blank.id).randrange(100),
            })  # fmt: skip
        return web.json_response({"success": True, "data": {"memes": memes}})

    async def _picture(self, request: web.Request) -> web.Response:
        """Return a meme's picture, or a template's clean one. A GIF is also served as video and as still picture."""
        key, suffix = _file(request)
        blank = self._by_id.get(str(int(key, 36)))
        if blank is not None and suffix == "jpg":
            return picture_response(await self._context.draw(self._context.renderer.blank, blank))
        post, extra = self._find_picture(key)
        known = ("gif", "mp4", "jpg") if post.kind == "animated" else ("jpg",) if extra else (post.suffix,)
        if suffix not in known:
            raise web.HTTPNotFound
        boxes = post.extra_boxes(extra - 1) if extra else post.boxes
        return picture_response(
            await self._context.draw(self._context.renderer.meme, post.blank, boxes, suffix), suffix
        )

    async def _thumbnail(self, request: web.Request) -> web.Response:
        blank = self._by_id.get(str(int(_file(request)[0], 36)))
        if blank is None:
            raise web.HTTPNotFound
        return picture_response(await self._context.draw(self._context.renderer.blank_thumbnail, blank))

    def _template_list(self, request: web.Request, title: str, blanks: Sequence[Blank], size: int) -> web.Response:
        page = max(1, whole_number(request, "page", 1))
        shown = _turn_back(request, page, len(blanks), size)
        more = shown != page or page * size < len(blanks) or "endless_paging" in request
        part = blanks[(shown - 1) * size : shown * size]
        if "empty_page" in request:
            part, more = (), False
        return html_response(template_list_page(title, part, self._images, _href(request, page + 1) if more else None))

    def _find_picture(self, key: str) -> tuple[Post, int]:
        """Return the meme of a picture, and the number of the other picture; 0 for the first."""
        head, _, number = key.rpartition("x")
        post = self._context.corpus.find(head) if head else None
        if post is not None and key in post.extra_keys:
            return post, int(number)
        return self._find(key), 0

    def _find(self, key: str) -> Post:
        post = self._context.corpus.find(key) if key.isascii() and key.isalnum() else None
        if post is None:
            raise web.HTTPNotFound
        return post


def _turn_back(request: web.Request, page: int, count: int, size: int) -> int:
    """Return `page`, or with endless paging the page that it repeats."""
    if "endless_paging" not in request:
        return page
    return (page - 1) % max(1, -(-count // size)) + 1


def _href(request: web.Request, page: int) -> str:
    return request.rel_url.update_query({"page": str(page)}).raw_path_qs


def _file(request: web.Request) -> tuple[str, str]:
    match = _FILES.match(request.match_info["file"])
    if match is None:
        raise web.HTTPNotFound
    return match["key"], match["suffix"]


def served(serving: Serving) -> Iterator[ServedMeme]:
    """Yield the memes by template, newest first."""
    for blank in serving.corpus.blanks:
        for place in range(serving.corpus.count(blank)):
            yield _served(serving.corpus.post(blank, place), serving)


def _served(post: Post, serving: Serving) -> ServedMeme:
    images, draw = serving.url("imgflip_images"), serving.renderer.meme
    more = (serving.sha256(draw, post.blank, post.extra_boxes(number)) for number in range(len(post.extra_keys)))
    return ServedMeme(
        id=f"imgflip:{post.key}",
        source="imgflip",
        template_id=post.blank.id,
        template_slug=post.blank.slug,
        boxes=post.stated_boxes(),
        title=post.title,
        page_url=f"{serving.url('imgflip')}/i/{post.key}",
        image_url=f"{images}/{post.key}.{post.suffix}",
        score=post.votes or None,
        views=post.views or None,
        over_18=post.over_18 or None,
        sha256=serving.sha256(draw, post.blank, post.boxes, post.suffix),
        flaw=post.flaw,
        kind=post.kind,
        more_images=tuple(f"{images}/{key}.jpg" for key in post.extra_keys),
        more_sha256=tuple(key for key in more if key),
        late=post.late,
    )


def _routes(context: SiteContext) -> Mapping[Host, Sequence[web.AbstractRouteDef]]:
    imgflip = Imgflip(context)
    return {"imgflip": imgflip.site(), "imgflip_api": imgflip.api(), "imgflip_images": imgflip.images()}


SITE = Site(
    hosts=("imgflip", "imgflip_api", "imgflip_images"),
    image_hosts=frozenset({"imgflip_images"}),
    routes=_routes,
    settings=lambda _, url: (f"crawl.imgflip.site={url('imgflip')}", f"crawl.imgflip.api={url('imgflip_api')}"),
    served=served,
)
