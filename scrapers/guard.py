"""No request reaches a private address, whichever link, redirect or name server points at one.

Names are checked where they are resolved: Twisted connects to the very address that
`GuardedResolver` hands out, so a name that answers differently the second time (DNS rebinding)
gains nothing. Numeric addresses never reach a resolver; the middleware checks those, and every
request and redirect passes it.

Behind a proxy it is the proxy that resolves names, so only it can check what they lead to. What a
name alone gives away is refused here all the same: numeric addresses, and names without a dot.
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


class AddressRefused(IgnoreRequest):
    """The request would reach an address that is not on the public internet."""


def is_public(address: str) -> bool:
    """Whether `address` (IPv4 or IPv6) is reachable on the public internet, tunnels looked through."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if inner is not None:
            return is_public(str(inner))
    return parsed.is_global and not parsed.is_multicast


class GuardedResolver(CachingThreadedResolver):
    """Resolves names, and refuses an answer that is not public unless its host is allowed."""

    allow_hosts: frozenset[str] = frozenset()

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: ReactorBase) -> "GuardedResolver":
        """The resolver with the hosts of the setting `ALLOW_HOSTS`, and those of the proxies."""
        resolver = super().from_crawler(crawler, reactor)
        resolver.allow_hosts = frozenset(crawler.settings.getlist("ALLOW_HOSTS")) | proxy_hosts()
        return resolver

    @classmethod
    def install(cls, settings: Settings) -> None:
        """Resolve all names of the installed reactor by these settings."""
        from twisted.internet import reactor

        resolver = cls(cast("ReactorBase", reactor), settings.getint("DNSCACHE_SIZE"), settings.getfloat("DNS_TIMEOUT"))
        resolver.allow_hosts = frozenset(settings.getlist("ALLOW_HOSTS")) | proxy_hosts()
        resolver.install_on_reactor()

    def getHostByName(self, name: str, timeout: Sequence[int] = ()) -> "Deferred[str]":  # noqa: N802 -- Twisted's name
        """The address of `name`. Fails with AddressRefused."""
        found = super().getHostByName(name, timeout)
        return found if name in self.allow_hosts else found.addCallback(self._checked, name)

    def _checked(self, address: str, name: str) -> str:
        if not is_public(address):
            raise AddressRefused(f"{name} is {address}, which is not a public address")
        return address


class AddressGuard:
    """Refuses every request whose host is, or resolves to, an address that is not public."""

    def __init__(self, allow_hosts: frozenset[str]) -> None:
        self._allow_hosts = allow_hosts
        self._proxies = proxy_hosts()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "AddressGuard":
        """The middleware with the hosts of the setting `ALLOW_HOSTS`."""
        return cls(frozenset(crawler.settings.getlist("ALLOW_HOSTS")))

    async def process_request(self, request: Request) -> None:
        """Let the request pass, or raise AddressRefused."""
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
        """A name that a proxy will resolve."""
        if "." not in host.rstrip(".") or _looks_numeric(host) or host in self._proxies:
            raise AddressRefused(f"{host} is not a public name")


def proxy_hosts() -> frozenset[str]:
    """The hosts of the proxies that the environment names."""
    hosts = (urlsplit(url if "://" in url else f"//{url}").hostname for url in getproxies().values())
    return frozenset(host for host in hosts if host)


def is_proxied(scheme: str, host: str) -> bool:
    """Whether a request goes through a proxy."""
    return scheme in getproxies() and not proxy_bypass(host)


def _looks_numeric(host: str) -> bool:
    """Whether some resolvers take a name for an IPv4 address: its last part is a number, also in octal or hex."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    return last.isdecimal() or last.startswith("0x")


async def _resolve(reactor: ReactorBase, host: str) -> str:
    try:
        found: Deferred[str] = reactor.resolve(host)
        return await maybe_deferred_to_future(found)
    except DNSLookupError as error:
        raise CannotResolveHostError(host) from error
