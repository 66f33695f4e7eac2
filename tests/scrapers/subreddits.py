"""Subreddits on a website of the test's own."""

import time
import zlib
from collections.abc import Callable
from typing import Any

from memeloom.configs.schema import Config
from tests.services.website import Answer, Asked, Website

TOKEN = "/api/v1/access_token"
LISTING = "/r/{}/new?limit=100&raw_json=1"


class Subreddits:
    """Answers as Reddit for the subreddits that a test fills. site: its address if that is not the website's."""

    def __init__(
        self, website: Website, config: Callable[..., Config], picture: Callable[[int], bytes], site: str = ""
    ) -> None:
        self._website = website
        self._config = config
        self._picture = picture
        self._site = site
        website.json(f"{site}{TOKEN}", {"access_token": "t0k3n", "token_type": "bearer", "expires_in": 3600})
        website.pages[f"{site}/robots.txt"] = (200, {}, b"")

    def pictures(self, count: int, seconds: float = 0.0) -> list[str]:
        """Serve pictures, each after `seconds`, and return their URLs."""

        def delayed(data: bytes) -> Callable[[Asked], Answer]:
            def answer(_: Asked) -> Answer:
                time.sleep(seconds)
                return 200, {"Content-Type": "image/jpeg"}, data

            return answer

        for number in range(count):
            self._website.pages[f"/{number}.jpg"] = delayed(self._picture(number))
        return [f"{self._website.url}/{number}.jpg" for number in range(count)]

    def fill(self, *urls: str, name: str = "memes", per_page: int = 100, **facts: Any) -> None:
        """Let subreddit `name` have one post per picture; `facts` are fields of all posts."""
        pages = [urls[start : start + per_page] for start in range(0, len(urls), per_page)] or [()]
        for number, page in enumerate(pages):
            after = f"t3_{number + 1}" if number + 1 < len(pages) else None
            path = self._site + LISTING.format(name) + (f"&after=t3_{number}" if number else "")
            children = [{"kind": "t3", "data": _post(url) | facts} for url in page]
            self._website.json(path, {"kind": "Listing", "data": {"after": after, "children": children}})

    def config(self, *names: str, **crawl: Any) -> Config:
        """Return settings that crawl the subreddits `names`; by default `memes`."""
        site = self._site or self._website.url
        reddit = {
            "site": site, "api": site, "client_id": "me", "client_secret": "secret",
            "subreddits": names or ("memes",), "posts_per_subreddit": 100_000,
        }  # fmt: skip
        return self._config(sources=("reddit",), reddit=reddit, **crawl)


def _post(url: str) -> dict[str, object]:
    name = f"{zlib.crc32(url.encode()):x}"
    return {
        "id": name, "permalink": f"/r/memes/comments/{name}/", "url": url, "title": name, "author": "someone",
        "created_utc": 1_700_000_000, "score": 1, "over_18": False,
    }  # fmt: skip
