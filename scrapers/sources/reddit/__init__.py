"""Reddit: the pictures of subreddits, through its OAuth API."""

from typing import TYPE_CHECKING

from memeloom.configs.errors import ConfigError
from memeloom.configs.sources import Source
from memeloom.scrapers.sources.reddit.settings import Reddit

if TYPE_CHECKING:  # it imports this module
    from memeloom.configs.schema import Crawl


def check(crawl: "Crawl") -> None:
    """Raise ConfigError without an application's id and secret."""
    settings = crawl.section(Reddit)
    if not (settings.client_id and settings.client_secret):
        raise ConfigError(
            "crawl.reddit.client_id, client_secret: needed for the source reddit; "
            "register an application of type script at https://www.reddit.com/prefs/apps"
        )


SOURCE = Source(
    name="reddit",
    about="the pictures of subreddits",
    requests="a token for your application → each of `sorts` of `/r/<sub>`, page by page",
    gets="title, score, date, NSFW mark; the caption comes from OCR",
    settings=Reddit,
    check=check,
    middlewares={"sign_in.RedditToken": 560},
)
