"""Just enough of a client of the miniature Reddit for tests to read its listings."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from memeloom.demo.internet import Internet
from memeloom.demo.reddit_site import CLIENT_ID, CLIENT_SECRET

Fetch: TypeAlias = Callable[..., Any]
Post: TypeAlias = dict[str, Any]


def token(internet: Internet, fetch: Fetch, secret: str = CLIENT_SECRET, grant: str = "client_credentials") -> Any:
    """What the token endpoint answers."""
    pair = base64.b64encode(f"{CLIENT_ID}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {pair}", "Content-Type": "application/x-www-form-urlencoded"}
    url = internet.url("reddit", "/api/v1/access_token")
    return fetch(url, method="POST", headers=headers, body=f"grant_type={grant}".encode())


def bearer_of(internet: Internet, fetch: Fetch) -> dict[str, str]:
    """Headers with a fresh token."""
    return {"Authorization": f"Bearer {json.loads(token(internet, fetch).body)['access_token']}"}


def listing(internet: Internet, fetch: Fetch, bearer: dict[str, str], path: str) -> Any:
    """One page of posts."""
    answer = fetch(internet.url("reddit_api", path), headers=bearer)
    assert answer.status == 200
    return json.loads(answer.body)["data"]


def all_posts(internet: Internet, fetch: Fetch, bearer: dict[str, str], subreddit: str) -> Iterator[Post]:
    """Every post of a subreddit, page by page, newest first."""
    after = ""
    for _ in range(20):
        page = listing(internet, fetch, bearer, f"/r/{subreddit}/new?limit=20&raw_json=1&after={after}")
        yield from (child["data"] for child in page["children"] if child["kind"] == "t3")
        after = page["after"]
        if after is None:
            return
    raise AssertionError("the listing does not end")
