"""Faults of hostile or careless servers: addresses that must not crash a client, wrong types, and refusals."""

import json
import re
from html import escape
from typing import Any
from urllib.parse import quote

from aiohttp import web

from memeloom.demo.context import Handler
from memeloom.demo.faults_responses import Settings, headers_of, whole

# No client can request any of these.
HOSTILE_ADDRESSES = (
    "javascript:alert(1)", "mailto:me@example.org", "http://[bad/", "http://h:99999/", "http://h:x/a.jpg",
    "http://127.0.0.1:7777%2f@x.com/a.jpg", "http://user@/a.jpg", "http:///a.jpg", "http://\u2100.example/a.jpg",
    "data:image/png;base64,AAAA", "file:///etc/passwd", "http://" + "a" * 300 + ".example/a.jpg",
)  # fmt: skip

_IMGFLIP_UNIT = re.compile(r'<div class="base-unit clearfix">.*?</div></div>\n', re.DOTALL)
_BING_UNIT = re.compile(r'<li><div class="iuscp">.*?</li>\n', re.DOTALL)
_SOURCE = re.compile(r'(?<= src=")[^"]*')
_KEY = re.compile(r'(?<="/i/)\w+')
_BING_ADDRESSES = re.compile(r"(?<=&quot;)([mt]url|purl)&quot;: &quot;(.*?)(?=&quot;)")


async def redirect_hostile(request: web.Request, _: Handler, settings: Settings) -> web.StreamResponse:
    """Redirect to an address that cannot be requested: `to`, or one of `HOSTILE_ADDRESSES` by the request's path."""
    place = sum(request.rel_url.raw_path_qs.encode()) % len(HOSTILE_ADDRESSES)
    target = settings.get("to", HOSTILE_ADDRESSES[place])
    return web.Response(status=302, headers={"Location": quote(target, safe=":/@[]%,;?=&()")})


async def hostile_links(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """Add to a listing one more meme for each of `HOSTILE_ADDRESSES`, which is the address of its picture."""
    inner, body = await whole(request, handler)
    text = body.decode()
    if inner.content_type == "application/json":
        text = _with_hostile_posts(text)
    elif found := _IMGFLIP_UNIT.search(text):
        text = text[: found.start()] + "".join(_imgflip_units(found[0])) + text[found.start() :]
    elif found := _BING_UNIT.search(text):
        text = text[: found.start()] + "".join(_bing_units(found[0])) + text[found.start() :]
    return web.Response(status=inner.status, body=text.encode(), headers=headers_of(inner))


async def page_as_picture(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """Return the right page as image/jpeg."""
    inner, body = await whole(request, handler)
    return web.Response(status=inner.status, body=body, content_type="image/jpeg")


async def robots_tag(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Return the response with `tag` (noai) in an X-Robots-Tag header; in a meta tag of the page if `meta` is true."""
    inner, body = await whole(request, handler)
    tag, headers = settings.get("tag", "noai"), headers_of(inner)
    if settings.get("meta"):
        body = body.replace(b"</head>", b'<meta name="robots" content="%s"></head>' % escape(tag).encode(), 1)
    else:
        headers["X-Robots-Tag"] = tag
    return web.Response(status=inner.status, body=body, headers=headers)


def _with_hostile_posts(text: str) -> str:
    listing: dict[str, Any] = json.loads(text)
    children = listing.get("data", {}).get("children", [])
    examples = [child["data"] for child in children if child["data"].get("domain") == "i.redd.it"][:1]
    for example in examples:
        for number, address in enumerate(HOSTILE_ADDRESSES):
            name = f"{example['id']}h{number}"
            post = example | {"id": name, "name": f"t3_{name}", "url": address, "url_overridden_by_dest": address}
            children.append({"kind": "t3", "data": post})
    return json.dumps(listing)


def _imgflip_units(unit: str) -> list[str]:
    return [
        _KEY.sub(lambda key, n=number: f"{key[0]}h{n}", _SOURCE.sub(lambda _, to=address: escape(to), unit))  # type: ignore[misc]
        for number, address in enumerate(HOSTILE_ADDRESSES)
    ]


def _bing_units(unit: str) -> list[str]:
    return [
        _BING_ADDRESSES.sub(
            lambda found, to=address: f"{found[1]}&quot;: &quot;{escape(json.dumps(to)[1:-1])}",  # type: ignore[misc]
            unit,
        )
        for address in HOSTILE_ADDRESSES
    ]
