"""What goes wrong on the real web, as switchable faults. Seed, address and count decide which request is hit."""

import asyncio
import hashlib
import re
import struct
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypeAlias

from aiohttp import web

from configs.errors import ConfigError
from demo.world import HOSTS, IMAGE_HOSTS, Handler, Host

Settings: TypeAlias = Mapping[str, Any]
Apply: TypeAlias = Callable[[web.Request, Handler, Settings], Awaitable[web.StreamResponse]]

PAGE_HOSTS: frozenset[Host] = frozenset({"imgflip", "bing"})
ALL_HOSTS: frozenset[Host] = frozenset(HOSTS) - {"control"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One fault, switched on.

    fault: its name in `FAULTS`.
    share: of the addresses that it can hit, the part that it does hit (0-1).
    times: how many requests of each address it hits before it lets them pass; None: all.
    path: a pattern to be found in host and path, as in ``imgflip/meme/.*page=2``.
    settings: what the fault itself can be told; its docstring names them.
    """

    fault: str
    share: float = 1.0
    times: int | None = 1
    path: str = ""
    settings: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a fault that does not exist."""
        if self.fault not in FAULTS:
            raise ConfigError(f"faults: no fault is called {self.fault!r}; there are {', '.join(FAULTS)}")
        re.compile(self.path)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the control endpoint."""
        return asdict(self)


class Switchboard:
    """The rules in force, and how often each has hit each address."""

    def __init__(self, rules: Sequence[Rule], seed: int) -> None:
        self._seed = seed
        self.set(rules)

    def set(self, rules: Sequence[Rule]) -> None:
        """Replace all rules and forget what the old ones hit."""
        self.rules = tuple(rules)
        self._hits: Counter[tuple[int, str]] = Counter()

    def pick(self, host: Host, request: web.Request) -> Rule | None:
        """The first rule that hits this request."""
        address = f"{host}{request.path_qs}"
        for number, rule in enumerate(self.rules):
            if (
                host in FAULTS[rule.fault].hosts
                and re.search(rule.path, address)
                and self._chosen(rule, address)
                and (rule.times is None or self._hits[number, address] < rule.times)
            ):
                self._hits[number, address] += 1
                return rule
        return None

    def _chosen(self, rule: Rule, address: str) -> bool:
        digest = hashlib.sha256(f"{self._seed}/{rule.fault}/{address}".encode()).digest()
        return int.from_bytes(digest[:6], "big") < rule.share * 2**48


async def rate_limit(_: web.Request, __: Handler, settings: Settings) -> web.StreamResponse:
    """429 with Retry-After: `seconds` (1) from now, as a date if `date` is true."""
    seconds = settings.get("seconds", 1)
    value = str(seconds)
    if settings.get("date"):
        value = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    return web.Response(status=429, text="Too Many Requests", headers={"Retry-After": value})


async def server_error(_: web.Request, __: Handler, settings: Settings) -> web.StreamResponse:
    """A `status` (503) with a page that says nothing."""
    return web.Response(status=settings.get("status", 503), text="Service Unavailable")


async def slow_bytes(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """The right bytes in `pieces` (20), `pause` (0.1) seconds before each."""
    inner, body = await _whole(request, handler)
    response = web.StreamResponse(status=inner.status, headers=_headers(inner))
    response.content_length = len(body)
    await response.prepare(request)
    size = max(1, -(-len(body) // settings.get("pieces", 20)))
    for start in range(0, len(body), size):
        await asyncio.sleep(settings.get("pause", 0.1))
        await response.write(body[start : start + size])
    return response


async def truncated(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """The first `part` (0.5) of the bytes, then the connection closes; all of them were announced."""
    inner, body = await _whole(request, handler)
    response = web.StreamResponse(status=inner.status, headers=_headers(inner))
    response.content_length = len(body)
    response.force_close()
    await response.prepare(request)
    await response.write(body[: int(len(body) * settings.get("part", 0.5))])
    if request.transport is not None:
        request.transport.close()
    return response


async def cut_file(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """A file that ends too early: the first `part` (0.5) of the bytes, and no more were announced."""
    inner, body = await _whole(request, handler)
    return web.Response(
        status=inner.status, body=body[: int(len(body) * settings.get("part", 0.5))], headers=_headers(inner)
    )


async def lying_type(_: web.Request, __: Handler, ___: Settings) -> web.StreamResponse:
    """A page that calls itself a JPEG."""
    page = b"<!DOCTYPE html><html><body><h1>Hotlinking is not allowed</h1></body></html>"
    return web.Response(body=page, content_type="image/jpeg")


async def bomb(_: web.Request, __: Handler, settings: Settings) -> web.StreamResponse:
    """A tiny PNG that claims to be `side` x `side` (50,000) pixels."""
    side = settings.get("side", 50_000)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 4096)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return web.Response(body=data, content_type="image/png")


async def redirect_private(_: web.Request, __: Handler, settings: Settings) -> web.StreamResponse:
    """A redirect `to` an address that no crawler should follow; by default a cloud's metadata service."""
    return web.Response(
        status=302, headers={"Location": settings.get("to", "http://169.254.169.254/latest/meta-data/")}
    )


async def changed_layout(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """The page after a redesign: other class names and ids."""
    inner, body = await _whole(request, handler)
    if inner.content_type != "text/html":
        return inner
    html = re.sub(rb"\b(class|id)=\"([^\"]*)\"", rb'\1="x-\2-2"', body)
    return web.Response(status=inner.status, body=html, content_type="text/html", charset="utf-8")


async def endless_paging(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """Listings that always have a next page, and begin anew after the last one."""
    request["endless_paging"] = True
    return await handler(request)


async def expired_token(_: web.Request, __: Handler, ___: Settings) -> web.StreamResponse:
    """401, as when the bearer token has run out."""
    return web.json_response({"message": "Unauthorized", "error": 401}, status=401)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to a request, and on which hosts."""

    apply: Apply
    hosts: frozenset[Host]


FAULTS: dict[str, Fault] = {
    "rate_limit": Fault(rate_limit, ALL_HOSTS),
    "server_error": Fault(server_error, ALL_HOSTS),
    "slow_bytes": Fault(slow_bytes, ALL_HOSTS),
    "truncated": Fault(truncated, ALL_HOSTS),
    "cut_file": Fault(cut_file, IMAGE_HOSTS),
    "lying_type": Fault(lying_type, IMAGE_HOSTS),
    "bomb": Fault(bomb, IMAGE_HOSTS),
    "redirect_private": Fault(redirect_private, ALL_HOSTS),
    "changed_layout": Fault(changed_layout, PAGE_HOSTS),
    "endless_paging": Fault(endless_paging, frozenset({"imgflip", "reddit_api", "bing"})),
    "expired_token": Fault(expired_token, frozenset({"reddit_api"})),
}


def make_rules(faults: Mapping[str, float] | Sequence[Rule]) -> tuple[Rule, ...]:
    """Rules from ``{name: share}``; paging and layout last, other faults pass after the first hit of an address."""
    if not isinstance(faults, Mapping):
        return tuple(faults)
    lasting = ("changed_layout", "endless_paging")
    return tuple(Rule(name, share, None if name in lasting else 1) for name, share in faults.items())


async def _whole(request: web.Request, handler: Handler) -> tuple[web.Response, bytes]:
    response = await handler(request)
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        raise TypeError(f"{request.path}: not a response with a body")
    return response, response.body


def _headers(response: web.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.lower() != "content-length"}
