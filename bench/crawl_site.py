"""The site of the crawl benches, in its own process: `python -m bench.crawl_site PAGES [PICTURES]`.

Prints its port and serves until standard input closes:

- `/page/N`: 40 memes, with links to pages 2N+1 and 2N+2, which no other page links to, and back to N-1;
- `/small/N`: the same links and one meme;
- `/slow/N`: the same as `/small/N`, after 0.5 s;
- `/list/N`: the addresses of pictures 100 N … 100 N + 99;
- `/picture/N.jpg`: a JPEG of the folder PICTURES with a unique comment in its header, so that no two are equal.

Everything is in memory and precomputed, so that no crawler waits for the site.
"""

import argparse
import asyncio
import sys
from pathlib import Path

UNITS = 40
LISTED = 100
_LATENCY_SECONDS = 0.5
_WORDS = ("when", "the", "deploy", "works", "on", "friday", "and", "nobody", "knows", "why", "cat", "stares")


def unit(number: int) -> str:
    """Return the HTML of one meme of a listing, similar to a real one."""
    words = [_WORDS[number * step % len(_WORDS)] for step in (1, 2, 3, 5, 7, 11)]
    title, caption = " ".join(words[:3]), "; ".join((" ".join(words), " ".join(words[::-1])))
    return (
        f'<div class="unit" id="u{number}"><h2 class="unit-title"><a href="/i/k{number:x}">{title}</a></h2>'
        f'<div class="author"><a class="username" href="/user/u{number % 997}">user{number % 997}</a></div>'
        f'<div class="picture"><a href="/i/k{number:x}"><img class="img" src="/picture/{number}.jpg" width="500"'
        f' height="{400 + number % 300}" alt="{title} | {caption} | image tagged in {words[4]},{words[5]}"></a></div>'
        f'<div class="stats">{number % 9000 + 10} views, {number % 300} upvotes, {number % 40} comments</div></div>'
    )


def page(number: int, pages: int, units: int, kind: str) -> bytes:
    """Return page `number` of `pages`: a binary tree numbered from 0, with links back."""
    linked = [link for link in (2 * number + 1, 2 * number + 2, number - 1) if 0 <= link < pages]
    links = "".join(f'<li><a class="next" href="/{kind}/{link}">page {link}</a></li>' for link in linked)
    shown = "\n".join(unit(number * units + place) for place in range(units))
    return (
        f"<!DOCTYPE html><html><head><title>page {number}</title></head><body><div id='units'>{shown}</div>"
        f"<ul class='pager'>{links}</ul></body></html>"
    ).encode()


class Site:
    """The content; `answer` returns the complete response to a path."""

    def __init__(self, pages: int, pictures: list[bytes]) -> None:
        self._pages = pages
        self._pictures = pictures

    def answer(self, path: str) -> bytes:
        """Return headers and body."""
        kind, _, rest = path.strip("/").partition("/")
        number = int(rest.partition(".")[0]) if rest[:1].isdecimal() else 0
        match kind:
            case "page":
                return _found("text/html; charset=utf-8", page(number, self._pages, UNITS, kind))
            case "small" | "slow":
                return _found("text/html; charset=utf-8", page(number, self._pages, 1, kind))
            case "list":
                addresses = (f"/picture/{LISTED * number + place}.jpg" for place in range(LISTED))
                return _found("text/plain", "\n".join(addresses).encode())
            case "picture":
                return _found("image/jpeg", self._picture(number))
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

    def _picture(self, number: int) -> bytes:
        data = self._pictures[number % len(self._pictures)]
        # A comment segment (FF FE, and a length that includes its own two bytes) right after the start of image.
        return data[:2] + b"\xff\xfe\x00\x12" + b"number %09d" % number + data[2:]


def _found(declared: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {declared}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Connection(asyncio.Protocol):
    """One connection, keep-alive unless the client asks otherwise."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each complete request; none has a body."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head, self._received = self._received[:end], self._received[end + 4 :]
            path = head.split(b" ", 2)[1].decode("latin-1")
            close = b"connection: close" in head.lower()
            if path.startswith("/slow/"):
                asyncio.get_running_loop().call_later(_LATENCY_SECONDS, self._send, path, close)
            else:
                self._send(path, close)

    def _send(self, path: str, close: bool) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._site.answer(path))
            if close:
                self._transport.close()


async def serve(site: Site) -> None:
    """Serve on a free port of 127.0.0.1 until standard input closes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(site), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    """Read the pictures, then serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=int)
    parser.add_argument("pictures", type=Path, nargs="?")
    options = parser.parse_args()
    pictures = [path.read_bytes() for path in sorted(options.pictures.iterdir())] if options.pictures else []
    asyncio.run(serve(Site(options.pages, pictures)))


if __name__ == "__main__":
    main()
