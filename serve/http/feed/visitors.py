"""Visitors of the feed: a random cookie, their budgets, and the check that requests come from the page itself."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from fastapi import Request, Response
from limits import RateLimitItem
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter

from memeloom.serve.http.middleware.keys import Budget, read_rate
from memeloom.serve.http.problems import Problem
from memeloom.serve.http.resources import Resources

COOKIE: Final = "memeloom_feed"
_BYTES: Final = 16
_TOKEN: Final = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}")
_YEAR: Final = 365 * 24 * 3600
# Persons behind one address.
_PERSONS: Final = 10
# The network of one customer in IPv6, in bits.
_NETWORK: Final = 64
# What requests cost, in votes.
PAGE, VOTE, REPORT, CAPTION, PICTURE = 1, 1, 5, 10, 20


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sent a request. person: as of `Feed`; it cannot be turned back into the cookie. token: the cookie."""

    person: str
    token: str

    @classmethod
    def of(cls, request: Request) -> "Visitor | None":
        """Return the visitor whose cookie came with `request`."""
        token = request.cookies.get(COOKIE, "")
        return cls.with_token(token) if _TOKEN.fullmatch(token) else None

    @classmethod
    def with_token(cls, token: str) -> "Visitor":
        """Return the visitor of a cookie."""
        return cls(f"feed:{hashlib.sha256(token.encode()).hexdigest()[:32]}", token)

    def remember(self, response: Response, base_url: str) -> None:
        """Set the cookie. base_url: address that clients reach the server under."""
        response.set_cookie(
            COOKIE, self.token, max_age=_YEAR, httponly=True, samesite="lax", secure=base_url.startswith("https:")
        )

    def forget(self, response: Response, base_url: str) -> None:
        """Delete the cookie."""
        response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=base_url.startswith("https:"))


class Doorkeeper:
    """Lets requests in that change something: from the feed's own pages, within the budgets of person and address.

    rate: of a person, such as ``120/minute``. The budgets are those of one worker.
    """

    def __init__(self, rate: str) -> None:
        self._person = read_rate(rate)
        self._address: RateLimitItem = type(self._person)(_PERSONS * self._person.amount, self._person.multiples)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def admit(self, request: Request, resources: Resources, cost: int) -> Visitor:
        """Return who sends `request`; a new visitor if there was no cookie.

        cost: in votes.

        Raises:
            Problem: 403 the request comes from another site's page, 429 a budget is used up.
        """
        if not _is_same_origin(request, resources.base_url(request)):
            raise Problem(403, None, "the request comes from a page of another site", "origin")
        known = Visitor.of(request)
        await self.charge(request, cost)
        if known is not None:
            await self._charge(Budget(self._person, known.person, self._limiter), cost)
        return known or Visitor.with_token(secrets.token_hex(_BYTES))

    async def charge(self, request: Request, cost: int) -> None:
        """Charge the address. Raises Problem (429)."""
        host = request.client.host if request.client else ""
        await self._charge(Budget(self._address, f"address {_network(host)}", self._limiter), cost)

    async def _charge(self, budget: Budget, cost: int) -> None:
        wait = await budget.charge(cost)
        if wait is not None:
            raise Problem(429, None, f"too many requests; try again in {wait} s", headers={"Retry-After": str(wait)})


def _is_same_origin(request: Request, base_url: str) -> bool:
    """Return whether no other site's page sent the request. Programs that are no browsers send neither header."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    return request.headers.get("origin", base_url) == base_url


def _network(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(int(address) >> 128 - _NETWORK) if address.version == 6 else host
