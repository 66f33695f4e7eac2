"""Refuse requests to private addresses, also through links, redirects and DNS.

Names are checked when they are resolved: Twisted connects to the address that `GuardedResolver` returns, which defeats
DNS rebinding. Numeric addresses never reach a resolver; the middleware checks those, for every request and redirect.

A proxy resolves names itself, so only it can check their addresses. Numeric addresses and names without a dot are still
refused here.
"""

import ipaddress
from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, IgnoreRequest
from scrapy.resolver import CachingThreadedResolver
from scrapy.settings import Settings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError

from memeloom.scrapers.addresses import is_public


class AddressRefused(IgnoreRequest):
    """The address is not on the public internet."""


class GuardedResolver(CachingThreadedResolver):
    """Resolves names, refusing private addresses unless the host is allowed."""

    allow_hosts: frozenset[str] = frozenset()

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: ReactorBase) -> "GuardedResolver":
        """Create the resolver; `ALLOW_HOSTS` and the proxies are allowed."""
        resolver = super().from_crawler(crawler, reactor)
        resolver.allow_hosts = frozenset(crawler.settings.getlist("ALLOW_HOSTS")) | proxy_hosts()
        return resolver

    @classmethod
    def install(cls, settings: Settings) -> None:
        """Install the resolver on the running reactor; `ALLOW_HOSTS` and the proxies are allowed."""
        from twisted.internet import reactor

        resolver = cls(cast("ReactorBase", reactor), settings.getint("DNSCACHE_SIZE"), settings.getfloat("DNS_TIMEOUT"))
        resolver.allow_hosts = frozenset(settings.getlist("ALLOW_HOSTS")) | proxy_hosts()
        resolver.install_on_reactor()

    def getHostByName(self, name: str, timeout: Sequence[int] = ()) -> "Deferred[str]":  # noqa: N802 -- Twisted's name
        """Resolve `name`. Fails with AddressRefused."""
        found = super().getHostByName(name, timeout)
        return found if name in self.allow_hosts else found.addCallback(self._checked, name)

    def _checked(self, address: str, name: str) -> str:
        if not is_public(address):
            raise AddressRefused(f"{name} is {address}, which is not a public address")
        return address


class AddressGuard:
    """The downloader middleware that refuses hosts that are, or resolve to, private addresses."""

    def __init__(self, allow_hosts: frozenset[str]) -> None:
        self._allow_hosts = allow_hosts
        self._proxies = proxy_hosts()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "AddressGuard":
        """Create the middleware; `ALLOW_HOSTS` are allowed."""
        return cls(frozenset(crawler.settings.getlist("ALLOW_HOSTS")))

    async def process_request(self, request: Request) -> None:
        """Check a request. Raises AddressRefused."""
        from twisted.internet import reactor

        parts = urlparse_cached(request)
        host = parts.hostname
        if parts.scheme not in ("http", "https") or not host:
            raise AddressRefused(f"{request.url} is not an address on the web")
        if host in self._allow_hosts:
            return
        try:
            address = str(ipaddress.ip_address(host))
        except ValueError:
            if self._proxies and is_proxied(parts.scheme, host):
                self._check_name(host)
                return
            address = await _resolve(reactor, host)
        if not is_public(address):
            raise AddressRefused(f"{host} is not a public address")

    def _check_name(self, host: str) -> None:
        if "." not in host.rstrip(".") or _looks_numeric(host) or host in self._proxies:
            raise AddressRefused(f"{host} is not a public name")


def proxy_hosts() -> frozenset[str]:
    """Return the hosts of the proxies in the environment."""
    hosts = (urlsplit(url if "://" in url else f"//{url}").hostname for url in getproxies().values())
    return frozenset(host for host in hosts if host)


def is_proxied(scheme: str, host: str) -> bool:
    """Return whether a request goes through a proxy."""
    return scheme in getproxies() and not proxy_bypass(host)


def _looks_numeric(host: str) -> bool:
    """Return whether resolvers may read a name as IPv4: its last part is a number, also octal or hexadecimal."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    return last.isdecimal() or last.startswith("0x")


async def _resolve(reactor: ReactorBase, host: str) -> str:
    try:
        found: Deferred[str] = reactor.resolve(host)
        return await maybe_deferred_to_future(found)
    except DNSLookupError as error:
        raise CannotResolveHostError(host) from error
