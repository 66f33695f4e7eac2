"""Reddit: tokens, listings with their rate limit, and the image host. Listings need a token."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aiohttp import BasicAuth, web

from memeloom.demo.context import Host, SiteContext, picture_response, robots, whole_number
from memeloom.demo.options import Options
from memeloom.demo.reddit_posts import SITE as REDDIT
from memeloom.demo.reddit_posts import RedditPosts, Submission, as_t3, picture_address
from memeloom.demo.site import Site
from memeloom.demo.truth import ServedMeme, Serving

CLIENT_ID = "miniature-client"
CLIENT_SECRET = "miniature-secret"  # noqa: S105 -- opens nothing but this server

_LONGEST_PAGE = 100
_LONGEST_LISTING = 1000
_REQUESTS, _WINDOW_SECONDS = 600, 600.0


class Reddit:
    """Handlers of the three hosts."""

    def __init__(self, context: SiteContext) -> None:
        self._context = context
        self._posts = RedditPosts(context.corpus, context.options)
        posts = (post for listed in self._posts.posts.values() for post in listed)
        self._pictures = {drawn.name: drawn for post in posts for drawn in post.pictures}
        self._tokens: set[str] = set()
        self._window_end = 0.0
        self._used = 0
        context.feeds["reddit"] = self

    def site(self) -> list[web.AbstractRouteDef]:
        """Return the routes of www.reddit.com."""
        return [
            web.get("/robots.txt", robots()),
            web.post("/api/v1/access_token", self.token),
            web.get("/r/{rest:.*}", self._refuse),
        ]

    def api(self) -> list[web.AbstractRouteDef]:
        """Return the routes of oauth.reddit.com."""
        return [web.get("/robots.txt", robots()), web.get("/r/{subreddit}/{sort:new|hot|top|rising}", self._listing)]

    def images(self) -> list[web.AbstractRouteDef]:
        """Return the routes of i.redd.it and preview.redd.it."""
        return [web.get("/robots.txt", robots()), web.get("/{name}.{suffix:jpg|gif}", self._picture)]

    @property
    def late(self) -> Mapping[str, int]:
        """Return the number of posts published since the start, by subreddit."""
        return self._posts.late

    def publish(self, late: Mapping[str, int]) -> None:
        """Add posts at the top. late: their number by subreddit."""
        for post in self._posts.publish(late):
            self._pictures.update({drawn.name: drawn for drawn in post.pictures})

    async def token(self, request: web.Request) -> web.Response:
        """Return a bearer token for the application's id and secret."""
        try:
            known = BasicAuth.decode(request.headers.get("Authorization", ""))
        except ValueError:
            known = BasicAuth("")
        if (known.login, known.password) != (CLIENT_ID, CLIENT_SECRET):
            return _error(401, "Unauthorized")
        form = await request.post()
        if form.get("grant_type") != "client_credentials":
            return web.json_response({"error": "unsupported_grant_type"})
        token = f"miniature-{len(self._tokens)}-{time.time_ns():x}"
        self._tokens.add(token)
        answer = {"access_token": token, "token_type": "bearer", "expires_in": 3600, "scope": "*"}
        return web.json_response(answer)

    async def _refuse(self, _: web.Request) -> web.Response:
        return _error(403, "Blocked")

    async def _listing(self, request: web.Request) -> web.Response:
        """Return a page of a subreddit's posts, at most 1,000 in all."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token not in self._tokens:
            return _error(401, "Unauthorized")
        budget = self._spend()
        if self._used > _REQUESTS:
            return _error(429, "Too Many Requests", budget)
        subreddit = request.match_info["subreddit"].lower()
        if subreddit not in self._posts.posts:
            return _error(404, "Not Found", budget)
        moved = request.get("moving_listing", 0) if request.query.get("after") else 0
        self.publish({subreddit: moved})
        posts = _sorted(self._posts.posts[subreddit], request.match_info["sort"])[:_LONGEST_LISTING]
        if "empty_page" in request:
            posts = []
        limit = min(_LONGEST_PAGE, whole_number(request, "limit", 25))
        part = _slice(posts, request.query.get("after"), limit, moved)
        more = bool(part) and part[-1] is not posts[-1]
        if "endless_paging" in request:
            part, more = part or posts[:limit], True
        answer: dict[str, Any] = {
            "after": part[-1].fullname if more else None, "dist": len(part), "modhash": None, "geo_filter": "",
            "children": [{"kind": "t3", "data": as_t3(post, self._context.url("reddit_images"))} for post in part],
            "before": part[0].fullname if part and part[0] is not posts[0] else None,
        }  # fmt: skip
        raw = request.query.get("raw_json") == "1"
        return web.json_response({"kind": "Listing", "data": answer if raw else _escaped(answer)}, headers=budget)

    async def _picture(self, request: web.Request) -> web.Response:
        suffix = request.match_info["suffix"]
        drawn = self._pictures.get(request.match_info["name"])
        if drawn is None or drawn.suffix != suffix:
            raise web.HTTPNotFound
        data = await self._context.draw(self._context.renderer.meme, drawn.blank, drawn.boxes, suffix)
        return picture_response(data, suffix)

    def _spend(self) -> dict[str, str]:
        """Count a request of the window; return the rate limit headers."""
        now = time.monotonic()
        if now > self._window_end:
            self._window_end, self._used = now + _WINDOW_SECONDS, 0
        self._used += 1
        left = max(0, _REQUESTS - self._used)
        return {
            "x-ratelimit-remaining": f"{left:.1f}",
            "x-ratelimit-used": str(self._used),
            "x-ratelimit-reset": str(math.ceil(self._window_end - now)),
        }


def _sorted(posts: Sequence[Submission], sort: str) -> list[Submission]:
    match sort:
        case "top":
            return sorted(posts, key=lambda post: (-post.score, post.id))
        case "hot":
            return sorted(posts, key=lambda post: (-post.score / (1 + posts[0].created - post.created), post.id))
        case "rising":
            return list(posts[:25])
    return list(posts)


def _slice(posts: Sequence[Submission], after: str | None, limit: int, moved: int) -> Sequence[Submission]:
    """Return the page after `after`; the first page for unknown names.

    The last `moved` posts of the previous page are repeated.
    """
    names = [post.fullname for post in posts]
    start = max(0, names.index(after) + 1 - moved) if after in names else 0
    return posts[start : start + limit]


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {name: _escaped(item) for name, item in value.items()}
    return value


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"message": message, "error": status}, status=status, headers=headers)


def served(serving: Serving) -> Iterator[ServedMeme]:
    """Yield the pictures of posts that were not removed, without crossposts, which repeat their parent."""
    reddit_posts = RedditPosts(serving.corpus, serving.options)
    reddit_posts.publish(serving.late.get("reddit", {}))
    for post in (post for posts in reddit_posts.posts.values() for post in posts):
        if post.kind in ("removed", "deleted"):
            continue
        several = post.kind in ("gallery", "album")
        for number, (drawn, state) in enumerate(zip(post.pictures, post.states, strict=True), start=1):
            if state != "valid":
                continue
            yield ServedMeme(
                id=f"reddit:{post.id}_{number}" if several else f"reddit:{post.id}",
                source="reddit",
                template_id=drawn.blank.id,
                template_slug=drawn.blank.slug,
                boxes=drawn.boxes,
                title=post.title,
                page_url=f"{REDDIT}{post.permalink}",
                image_url=picture_address(drawn, serving.url("reddit_images"), preview=several),
                score=post.score,
                over_18=post.over_18,
                sha256=serving.sha256(serving.renderer.meme, drawn.blank, drawn.boxes, drawn.suffix),
                kind="animated" if drawn.suffix == "gif" else "still",
                late=post.late,
            )


def _routes(context: SiteContext) -> Mapping[Host, Sequence[web.AbstractRouteDef]]:
    reddit = Reddit(context)
    return {"reddit": reddit.site(), "reddit_api": reddit.api(), "reddit_images": reddit.images()}


def _settings(options: Options, url: Callable[[Host], str]) -> Sequence[str]:
    return (
        f"crawl.reddit.site={url('reddit')}",
        f"crawl.reddit.api={url('reddit_api')}",
        f"crawl.reddit.client_id={CLIENT_ID}",
        f"crawl.reddit.client_secret={CLIENT_SECRET}",
        f"crawl.reddit.subreddits=[{', '.join(options.subreddits)}]",
    )


SITE = Site(
    hosts=("reddit", "reddit_api", "reddit_images"),
    image_hosts=frozenset({"reddit_images"}),
    routes=_routes,
    settings=_settings,
    served=served,
)
