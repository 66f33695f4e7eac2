"""Reddit: the pictures of subreddits, through its API with the rights of an application."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from scrapy import FormRequest, Request
from scrapy.http import Response, TextResponse
from w3lib.http import basic_auth_header

from catalog.records import Meme
from configs.errors import MemeloomError
from scrapers.items import MemeItem
from scrapers.pages import reddit
from scrapers.pages.layout import LayoutChanged
from scrapers.pages.reddit import PostedImage
from scrapers.spiders.base import MemeSpider

_PAGE = 100
_LONGEST_WAIT = 600.0


class RedditRefused(MemeloomError):
    """Reddit does not accept the application or its token."""


class RedditSpider(MemeSpider):
    """A token, then each subreddit's listing page after page; one fresh token if the first is refused.

    The API is entered with an application's own credentials under Reddit's terms for it, so its
    robots.txt, which is for crawlers of pages, is not asked; that of the image hosts is.
    """

    name = "reddit"
    essential = "data.children[]"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.token = ""
        self.seen: set[str] = set()

    async def start(self) -> AsyncIterator[Request]:
        """Get a token; everything else follows from its answer."""
        yield self.token_request([self.listing(name) for name in self.config.crawl.reddit.subreddits])

    def token_request(self, then: list[Request]) -> Request:
        """Ask for a token, then continue with `then`."""
        settings = self.config.crawl.reddit
        secret = settings.client_secret.get_secret_value() if settings.client_secret else ""
        return self.page(
            f"{settings.site}/api/v1/access_token",
            self.parse_token,
            request=FormRequest,
            formdata={"grant_type": "client_credentials"},
            headers={"Authorization": basic_auth_header(settings.client_id or "", secret)},
            meta={"handle_httpstatus_list": [400, 401, 403], "dont_obey_robotstxt": True},
            cb_kwargs={"then": then},
            dont_filter=True,
        )

    def parse_token(self, response: TextResponse, then: list[Request]) -> list[Request]:
        """Continue with the token in hand."""
        if response.status != 200:
            raise RedditRefused(
                f"{response.url}: Reddit refuses the application (HTTP {response.status}): "
                f"check crawl.reddit.client_id and client_secret"
            )
        try:
            self.token = str(response.json()["access_token"])
        except (ValueError, KeyError, TypeError):
            raise LayoutChanged(reddit.SITE, "access_token", response.url) from None
        return [self.signed(request) for request in then]

    def signed(self, request: Request) -> Request:
        """The request with the token that is in use now."""
        request.meta["token"] = self.token
        return request.replace(headers={"Authorization": f"Bearer {self.token}"}, dont_filter=True)

    def listing(self, subreddit: str, after: str | None = None, gathered: int = 0) -> Request:
        """A page of a subreddit, not signed yet."""
        settings = self.config.crawl.reddit
        limit = min(_PAGE, settings.posts_per_subreddit - gathered)
        query = urlencode({"limit": limit, "raw_json": 1} | ({"after": after} if after else {}))
        return self.page(
            f"{settings.api}/r/{subreddit}/{settings.sort}?{query}",
            self.parse_listing,
            meta={"handle_httpstatus_list": [401], "dont_obey_robotstxt": True},
            cb_kwargs={"subreddit": subreddit, "gathered": gathered},
        )

    async def parse_listing(
        self, response: Response, subreddit: str, gathered: int
    ) -> AsyncIterator[Request | MemeItem]:
        """The pictures of one page, and the page after it as soon as the rate limit allows."""
        if response.status == 401:
            yield self.again(response)
            return
        page = reddit.parse_listing(response.body, response.url)
        self.skip(dict(page.skipped))
        fresh = [image for image in page.images if image.id not in self.seen]
        self.session.reasons["skipped: seen before in this crawl"] += len(page.images) - len(fresh)
        for image in fresh:
            self.seen.add(image.id)
            yield self.meme(image)
        gathered += page.posts
        more = page.after and page.posts and gathered < self.config.crawl.reddit.posts_per_subreddit
        if more and await self.session.pause(seconds_to_wait(response)):
            yield self.signed(self.listing(subreddit, page.after, gathered))

    def again(self, response: Response) -> Request:
        """A listing whose token was refused: once more, with the newer token or a fresh one."""
        request = response.request
        if request is None or request.meta.get("refreshed"):
            raise RedditRefused(f"{response.url}: Reddit refuses a fresh token (HTTP 401)")
        request.meta["refreshed"] = True
        if request.meta["token"] != self.token:
            return self.signed(request)
        return self.token_request([request])

    def meme(self, image: PostedImage) -> MemeItem:
        """The record of a picture; what it says is left to OCR."""
        return MemeItem(
            Meme(
                id=f"{self.name}:{image.id}",
                source=self.name,
                page_url=image.page_url,
                image_url=image.image_url,
                title=image.title,
                score=image.score,
                over_18=image.over_18,
                posted_at=image.posted_at,
                author=self.author(image.author),
                fetched_at=self.now(),
            )
        )


def seconds_to_wait(response: Response) -> float:
    """How long Reddit's rate limit asks us to rest: until its window ends, once the window's budget is used up."""
    try:
        remaining = float(response.headers.get("x-ratelimit-remaining") or b"1")
        reset = float(response.headers.get("x-ratelimit-reset") or b"0")
    except ValueError:
        return 0.0
    return min(reset, _LONGEST_WAIT) if remaining < 1 else 0.0
