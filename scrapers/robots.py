"""robots.txt, obeyed also by requests that wait for it."""

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred


class Robots(RobotsTxtMiddleware):
    """The downloader middleware that filters requests by robots.txt.

    Scrapy 2.19 filters only the first two requests to a host that arrive before its robots.txt: the deferred result
    that the others await too is None once the second has consumed it.
    """

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the rules of the request's host, None if it has none, once they are known."""
        await super().robot_parser(request)
        rules = self._parsers[urlparse_cached(request).netloc]
        assert not isinstance(rules, Deferred)
        return rules
