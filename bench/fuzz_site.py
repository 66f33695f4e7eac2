"""The site of the fuzz: Reddit, Imgflip and Bing on one port of loopback, and a private listener on another.

The listings are right, so that a crawl has something to do; the pictures, meme pages, links, redirects and scripts are
hostile.
"""

import asyncio
import html
import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import cv2
import numpy as np

from bench import fuzz_cases

_PER_PAGE = 100
# Attempts of one page of the browser, and how many run at once.
PER_BROWSER_PAGE = 500
_AT_ONCE = 50
_SECONDS = 30.0

_SCRIPT = """
const urls = %s, ways = [
  u => fetch(u, {mode: "no-cors"}), u => fetch(u, {method: "POST", mode: "no-cors", body: "x"}),
  u => navigator.sendBeacon(u), u => new Promise(d => { const s = new WebSocket(u); s.onerror = s.onopen = d; }),
  u => new Promise(d => { const e = new EventSource(u); e.onerror = e.onopen = () => { e.close(); d(); } }),
  u => element("script", {src: u}), u => element("link", {rel: "stylesheet", href: u}),
  u => element("iframe", {src: u}), u => element("link", {rel: "prefetch", href: u}),
  u => element("object", {data: u}), u => import(u), u => new Worker(u),
  u => { const r = new XMLHttpRequest(); r.open("GET", u); r.send(); return new Promise(d => r.onloadend = d); },
];
function element(name, values) {
  const e = Object.assign(document.createElement(name), values);
  document.body.append(e);
  return new Promise(d => e.onload = e.onerror = d).finally(() => e.remove());
}
const late = () => new Promise(d => setTimeout(d, 500));
(async () => {
  for (let first = 0; first < urls.length; first += %d) {
    const some = urls.slice(first, first + %d);
    await Promise.allSettled(some.map(async ([u, way]) => Promise.race([ways[way %% ways.length](u), late()])));
    await fetch("/tried?n=" + some.length);
    const a = document.createElement("a");
    a.className = "iusc";
    a.setAttribute("m", JSON.stringify({murl: location.origin + "/ok-" + first + location.search}));
    document.body.append(a);
  }
})();
"""


class Site:
    """Both servers, on a loop in a thread of their own, as a context manager.

    Attributes:
        port, private_port: of the site, and of the listener that nothing may reach.
        hits: first lines that the listener received. asked: requests to the site by kind. tried: attempts in browsers.
    """

    def __init__(self, seed: int, cases: int) -> None:
        self.hits: list[bytes] = []
        self.asked: Counter[str] = Counter()
        self.tried = 0
        self.port = self.private_port = 0
        self._seed = seed
        self._cases = cases
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        pixels = np.random.default_rng(seed).integers(0, 255, (90, 120, 3), dtype=np.uint8)
        self._picture = bytes(cv2.imencode(".jpg", pixels)[1])
        self._routes: dict[str, Callable[[str, dict[str, list[str]]], bytes]] = {
            "api": self._token, "r": self._reddit, "get_memes": self._api, "meme": self._imgflip, "i": self._meme_page,
            "f": self._fuzzed, "images": self._bing, "to": self._redirect, "tried": self._count,
        }  # fmt: skip

    def __enter__(self) -> "Site":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def name(self) -> str:
        """The site's host and port; nothing else on this machine may be requested."""
        return f"localhost:{self.port}"

    def address(self, part: str, number: int) -> str:
        """Return the hostile address `number` of a part."""
        return fuzz_cases.address(self._chance(part, number), self.private_port, self.name, number)

    async def _open(self) -> None:
        for answer in (self._serve, self._hit):
            self._servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        self.port, self.private_port = (server.sockets[0].getsockname()[1] for server in self._servers)
        with suppress(OSError):  # a machine without IPv6
            self._servers.append(await asyncio.start_server(self._hit, "::1", self.private_port))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _hit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            self.hits.append(await reader.readline() or b"a connection")
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError, asyncio.CancelledError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _SECONDS)
            parts = urlsplit(head.split(b" ")[1].decode("latin-1"))
            kind = parts.path.strip("/").partition("/")[0]
            self.asked[kind] += 1
            answer = self._routes.get(kind, self._other)
            writer.write(answer(parts.path, parse_qs(parts.query)))
            await writer.drain()
        writer.close()

    def _chance(self, part: str, number: int) -> random.Random:
        return random.Random(f"{self._seed} {part} {number}")

    def _token(self, *_: object) -> bytes:
        return _json({"access_token": "t", "token_type": "bearer", "expires_in": 86400})

    def _reddit(self, _: str, query: dict[str, list[str]]) -> bytes:
        first = int(query["after"][0].removeprefix("t3_")) if "after" in query else 0
        last = min(first + _PER_PAGE, self._cases)
        posts = []
        for number in range(first, last):
            chance = self._chance("way", number)
            own = f"http://{self.name}/" + ("ok" if number % _PER_PAGE == 0 else "f") + f"/{number}.jpg"
            url = own if number % _PER_PAGE == 0 or chance.random() < 0.6 else self.address("reddit", number)
            posts.append({"kind": "t3", "data": {
                "id": f"x{number}", "name": f"t3_x{number}", "permalink": f"/r/f/comments/x{number}/", "url": url,
                "title": str(number), "author": "a", "created_utc": 1_700_000_000, "score": 1, "over_18": False,
                "post_hint": "image", "is_video": False,
            }})  # fmt: skip
        after = f"t3_{last}" if last < self._cases else None
        return _json({"kind": "Listing", "data": {"after": after, "children": posts}})

    def _api(self, *_: object) -> bytes:
        meme = {
            "id": "1",
            "name": "Fuzz",
            "url": f"http://{self.name}/ok.jpg",
            "width": 120,
            "height": 90,
            "box_count": 2,
        }
        return _json({"success": True, "data": {"memes": [meme | {"captions": 9}]}})

    def _imgflip(self, _: str, query: dict[str, list[str]]) -> bytes:
        page = int(query.get("page", ["1"])[0])
        units = []
        for number in range((page - 1) * _PER_PAGE, min(page * _PER_PAGE, self._cases)):
            key = f"{number:x}g"
            units.append(
                f'<div class="base-unit"><h2 class="base-unit-title"><a href="/i/{key}">t</a></h2><a href="/i/{key}">'
                f'<img class="base-img" src="//{self.name}/ok/{number}.jpg" alt="t | A; B | image tagged"></a></div>'
            )
        more = page * _PER_PAGE < self._cases
        link = f'<a class="pager-next" href="/meme/Fuzz?sort=latest&page={page + 1}">Next</a>' if more else ""
        return _html(f'<a class="meme-link"><img src="/4/1.jpg"></a>{"".join(units)}{link}')

    def _meme_page(self, path: str, _: object) -> bytes:
        number = int(path.rpartition("/")[2].rstrip("g") or "0", 16)
        picture = html.escape(self.address("src", number)) or "x"
        own = f"//{self.name}/ok/{number}.jpg"
        src = own if number % 2 else picture
        page = f'<h1 id="img-title">t</h1><img id="im" src="{src}" alt="t | A; B | image tagged in x">'
        chance = self._chance("page", number)
        found = fuzz_cases.answer(chance, self.address("location", number), page.encode(), b"text/html")
        # What the site itself answers as a page, but cannot be parsed, ends the source, as it should.
        whole = b" 200" in found[:13] and page.encode() in found and found.count(b"Content-Length") == 1
        changed = b" 20" in found[:12] and not whole
        return _html(page) if changed else found

    def _fuzzed(self, path: str, _: object) -> bytes:
        number = int(path.rpartition("/")[2].removesuffix(".jpg") or 0)
        return fuzz_cases.answer(
            self._chance("picture", number), self.address("to", number), self._picture, b"image/jpeg"
        )

    def _bing(self, _: str, query: dict[str, list[str]]) -> bytes:
        page = int(query["q"][0].split()[-1])
        attempts = []
        for number in range(page * PER_BROWSER_PAGE, (page + 1) * PER_BROWSER_PAGE):
            direct = number % 4
            attempts.append([self.address("browser", number) if direct else f"/to/{number}", number // 4])
        script = _SCRIPT % (json.dumps(attempts).replace("</", "<\\/"), _AT_ONCE, _AT_ONCE)
        found = [f"http://{self.name}/ok/first{page}.jpg"]
        found += [self.address("result", page * _PER_PAGE + number) for number in range(_PER_PAGE)]
        results = "".join(f'<a class="iusc" m="{html.escape(json.dumps({"murl": url}))}">x</a>' for url in found)
        return _html(f"<body>{results}<script>{script}</script>")

    def _redirect(self, path: str, _: object) -> bytes:
        number = int(path.rpartition("/")[2] or 0)
        where = self.address("browser", number).encode("utf-8", "surrogatepass")
        head = b"HTTP/1.1 302 x\r\nLocation: " + where.replace(b"\r", b"").replace(b"\n", b"").replace(b"\x00", b"")
        return head + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def _count(self, _: str, query: dict[str, list[str]]) -> bytes:
        self.tried += int(query["n"][0])
        return _response(200, b"text/plain", b"")

    def _other(self, path: str, _: object) -> bytes:
        if path.startswith("/ok"):
            return _response(200, b"image/jpeg", self._picture)
        return _response(200, b"text/plain", b"") if path == "/robots.txt" else _response(404, b"text/plain", b"")


def _json(value: object) -> bytes:
    return _response(200, b"application/json", json.dumps(value).encode())


def _html(text: str) -> bytes:
    return _response(200, b"text/html; charset=utf-8", text.encode("utf-8", "surrogatepass"))


def _response(status: int, kind: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %d x\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, kind, len(body)) + body
