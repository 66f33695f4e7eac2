"""Faults of responses: error statuses, unsafe redirects, wrong pages and damaged files."""

import re
import struct
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypeAlias

from aiohttp import web

from memeloom.demo.context import ADDRESSES, Handler

Settings: TypeAlias = Mapping[str, Any]

HOP = "hop"  # query parameter that counts the redirects of a loop

_METADATA = "/latest/meta-data/"
_LOOPBACK = {  # other notations of 127.0.0.1
    "name": "localhost", "decimal": "2130706433", "hex": "0x7f000001", "octal": "0177.0.0.1", "short": "127.1",
    "mapped": "[::ffff:127.0.0.1]",
}  # fmt: skip
_TRIPLE = re.compile(rb'\[("https?:[^"]+"),(\d+),(\d+)\]')


async def rate_limit(_: web.Request, __: Handler, settings: Settings) -> web.StreamResponse:
    """Return 429 with Retry-After: `seconds` (1) from now, as a date if `date` is true."""
    seconds = settings.get("seconds", 1)
    value = str(seconds)
    if settings.get("date"):
        value = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    return web.Response(status=429, text="Too Many Requests", headers={"Retry-After": value})


async def server_error(_: web.Request, __: Handler, settings: Settings) -> web.StreamResponse:
    """Return `status` (503) with a short text."""
    return web.Response(status=settings.get("status", 503), text="Service Unavailable")


async def expired_token(_: web.Request, __: Handler, ___: Settings) -> web.StreamResponse:
    """Return 401, as for an expired bearer token."""
    return web.json_response({"message": "Unauthorized", "error": 401}, status=401)


async def redirect_private(request: web.Request, _: Handler, settings: Settings) -> web.StreamResponse:
    """Redirect to a private address: a cloud's metadata service, the address `to`, or the demo's host `inside`.

    `form`: notation of the loopback address of `inside`: name, decimal, hex, octal, short, or mapped (to IPv6).
    """
    target = f"http://169.254.169.254{_METADATA}"
    if "form" in settings:
        port = request.app[ADDRESSES]["inside"].rpartition(":")[2]
        target = f"http://{_LOOPBACK[settings['form']]}:{port}{_METADATA}"
    return web.Response(status=302, headers={"Location": settings.get("to", target)})


async def redirect_loop(request: web.Request, _: Handler, settings: Settings) -> web.StreamResponse:
    """Redirect to an address that redirects back; with `chain`, always to a new one."""
    hops = int(request.query.get(HOP, 0))
    step = hops + 1 if settings.get("chain") else 1 - min(hops, 1)
    query = {name: value for name, value in request.query.items() if name != HOP} | ({HOP: str(step)} if step else {})
    return web.Response(status=302, headers={"Location": request.rel_url.with_query(query).raw_path_qs})


async def cut_file(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Return the first `part` (0.5) of the bytes, with a matching Content-Length."""
    inner, body = await whole(request, handler)
    return web.Response(
        status=inner.status, body=body[: int(len(body) * settings.get("part", 0.5))], headers=headers_of(inner)
    )


async def lying_type(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Return a page as image/jpeg; or, with `type`, the right picture with that content type."""
    if "type" in settings:
        inner, body = await whole(request, handler)
        return web.Response(status=inner.status, body=body, content_type=settings["type"])
    page = b"<!DOCTYPE html><html><body><h1>Hotlinking is not allowed</h1></body></html>"
    return web.Response(body=page, content_type="image/jpeg")


async def bomb(_: web.Request, __: Handler, settings: Settings) -> web.StreamResponse:
    """Return a tiny PNG that claims to be `side` x `side` (50,000) pixels."""
    side = settings.get("side", 50_000)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 4096)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return web.Response(body=data, content_type="image/png")


async def changed_layout(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """Return the page after a redesign: other class names and ids, no arrays of addresses and sizes in its scripts."""
    inner, body = await whole(request, handler)
    if inner.content_type != "text/html":
        return inner
    html = re.sub(rb"\b(class|id)=\"([^\"]*)\"", rb'\1="x-\2-2"', body)
    html = _TRIPLE.sub(rb'{"u":\1,"s":"\2x\3"}', html)
    return web.Response(status=inner.status, body=html, content_type="text/html", charset="utf-8")


async def empty_page(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """Return a listing or result page without memes."""
    request["empty_page"] = True
    return await handler(request)


async def endless_paging(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """Return listings that always have a next page and start over after the last."""
    request["endless_paging"] = True
    return await handler(request)


async def moving_listing(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Add `items` (3) memes at the top between pages, so that as many appear again on the next."""
    request["moving_listing"] = settings.get("items", 3)
    return await handler(request)


async def whole(request: web.Request, handler: Handler) -> tuple[web.Response, bytes]:
    """Return the correct response and its body."""
    response = await handler(request)
    if not isinstance(response, web.Response):
        raise TypeError(f"{request.path}: not a response with a body")
    return response, response.body if isinstance(response.body, bytes) else b""


def headers_of(response: web.Response) -> dict[str, str]:
    """Return the headers without Content-Length."""
    return {name: value for name, value in response.headers.items() if name.lower() != "content-length"}
