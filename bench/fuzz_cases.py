"""Hostile addresses and answers, from a seed: what untrusted pages and hostile servers may contain.

Every address that can be read at all leads to a port of loopback, in one disguise or another.
"""

import gzip
import random
from collections.abc import Callable
from urllib.parse import quote

# Names that lead to private addresses, as a hostile DNS server may answer; the n-th look-up returns the n-th answer.
NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "inside.example": (("127.0.0.1",),),
    "six.inside.example": (("::1",),),
    "any.inside.example": (("0.0.0.0",),),
    "mapped.inside.example": (("::ffff:127.0.0.1",),),
    "nat64.inside.example": (("64:ff9b::7f00:1",),),
    "both.inside.example": (("1.1.1.1", "127.0.0.1"),),
    "mixed.inside.example": (("2606:4700::1", "::1"),),
    "rebinding.example": (("1.1.1.1",), ("127.0.0.1",)),
    "metadata.internal": (("169.254.169.254",),),
    "localhost.": (("127.0.0.1",),),
    "localhost.localdomain": (("127.0.0.1",),),
}

_V4 = ("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1")
_V6 = (
    "::1", "::", "::ffff:{}", "::{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "2002:7f00:1::1", "fec0::1",
    "fe80::1%25lo", "fe80::1%lo", "::1%1", "fd00::1", "fe80::5efe:{}", "0:0:0:0:0:0:0:1", "0000::0001", "::0.0.0.1",
)  # fmt: skip
_FULL_WIDTH = str.maketrans("0123456789.", "０１２３４５６７８９。")
_CIRCLED = str.maketrans("123456789", "①②③④⑤⑥⑦⑧⑨")
_NASTY = (
    "\t\n\r\x00\x0b \\/@:%#?[]{}<>\"'`|^~.,;=&+*()!$_-0aA\x7f\x80\xad\u200b\u3002\uff0e\uff1a\uff0f\u2100\u202eß\ud800"
)
_SCHEMES = (
    "https", "ftp", "file", "gopher", "ws", "wss", "dict", "ldap", "tftp", "jar:http", "view-source:http", "HTTP",
    "hTtP", "http+unix", "blob:http", "feed", "about", "chrome", "filesystem:http",
)  # fmt: skip
_NO_HOST = (
    "javascript:alert(1)", "mailto:me@x.example", "data:image/png;base64,AAAA", "about:blank", "http://", "http:",
    "http:///", "//", "http://[bad/", "http://h:99999/", "http://h:-1/", "http://h:x/", "http://:80/", "http://./",
    "http://.../", "http://a..b/", "http://[::1", "http://[]/", "http://%/", "http://%zz/", "http://\x00/", "?", "#",
    "http://" + "a" * 300 + ".example/", "http://x.example/" + "a" * 5000, "http://" + "a." * 200 + "example/",
)  # fmt: skip


def address(chance: random.Random, port: int, site: str, number: int) -> str:
    """Return a hostile address. `port` is private, `site` the only host and port that may be requested."""
    if chance.random() < 0.08:
        return chance.choice(_NO_HOST)
    host = _host(chance)
    path = f"hit-{number}.jpg"
    target = f"{host}:{port}"
    shape = chance.choice(_SHAPES)
    url = shape(target, site, path)
    if chance.random() < 0.1:
        url = chance.choice(_SCHEMES) + url[url.find(":") :]
    for _ in range(chance.choice((0, 0, 0, 0, 1, 1, 2, 4))):
        url = _mutated(chance, url)
    return url


_SHAPES: tuple[Callable[[str, str, str], str], ...] = (
    *([lambda target, _, path: f"http://{target}/{path}"] * 8),
    lambda target, site, path: f"http://{site}@{target}/{path}",
    lambda target, site, path: f"http://{site}%2f@{target}/{path}",
    lambda target, site, path: f"http://{target}%2f@{site}/{path}",
    lambda target, site, path: f"http://{target}\\@{site}/{path}",
    lambda target, site, path: f"http://{site}\\@{target}/{path}",
    lambda target, site, path: f"http://{site}#@{target}/{path}",
    lambda target, site, path: f"http://{site}?@{target}/{path}",
    lambda target, site, path: f"http://user:{site}@{target}/{path}",
    lambda target, _, path: f"http:\\\\{target}\\{path}",
    lambda target, _, path: f"http:/{target}/{path}",
    lambda target, _, path: f"http:{target}/{path}",
    lambda target, _, path: f"http:////{target}/{path}",
    lambda target, _, path: f"//{target}/{path}",
    lambda target, _, path: f"\\\\{target}/{path}",
    lambda target, _, path: f" \t\nhttp://{target}/{path}",
    lambda target, _, path: f"ht\ttp:\n//{target}/{path}",
    lambda target, _, path: f"http://{target}?{path}",
    lambda target, _, path: f"http://{target}#{path}",
)


def _host(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.2:
        return chance.choice(list(NAMES))
    four = chance.choice(_V4) if chance.random() < 0.4 else "127.0.0.1"
    if kind < 0.5:
        return f"[{chance.choice(_V6).format(four)}]"
    return _notation(chance, four)


def _notation(chance: random.Random, four: str) -> str:
    """Return an IPv4 address in a notation that some library reads."""
    parts = [int(part) for part in four.split(".")]
    number = int.from_bytes(parts, "big")
    each = [chance.choice((f"{part}", f"0x{part:x}", f"0X{part:02X}", f"0{part:o}", f"{part:03d}")) for part in parts]
    return chance.choice((
        four, four, f"{four}.", str(number), hex(number), f"0{number:o}", str(number + 2**32), ".".join(each),
        f"{parts[0]}.{number & 0xFFFFFF}", f"{parts[0]}.{parts[1]}.{number & 0xFFFF}", four.translate(_FULL_WIDTH),
        four.translate(_CIRCLED), quote(four).replace("1", "%31"), four.replace(".", "%2e"), four.replace(".", "。"),
        f"{four}%00.x.example", f"{four}.x.example", f"x.example%23@{four}",
    ))  # fmt: skip


def _mutated(chance: random.Random, text: str) -> str:
    place = chance.randrange(len(text) + 1)
    new = chance.choice(_NASTY)
    return text[:place] + (new if chance.random() < 0.7 else "") + text[place + chance.randrange(2) :]


_STATUSES = (
    *range(200, 209), *range(300, 310), *range(400, 432), 451, *range(500, 512), 520, 522, 524, 599, 600, 999, 101, 103,
)  # fmt: skip
_TYPES = (
    b"image/jpeg", b"image/png", b"image/webp", b"text/html", b"text/html; charset=\xff\xfe", b"text/html; charset=x",
    b"application/json", b"application/octet-stream", b"", b"/", b"image/", b"image/jpeg; charset=utf-7", b"\x00",
    b"text/xml", b"multipart/x-mixed-replace; boundary=x", b"image/svg+xml", b"a" * 5000, b"image/jpeg, text/html",
)  # fmt: skip
_HEADERS = (
    b"Retry-After: -1", b"Retry-After: nan", b"Retry-After: 1e999", b"Retry-After: 99999999999999999999",
    b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", b"Retry-After: Mon, 00 Jan 0000 00:00:00 GMT", b"Retry-After: \xff",
    b"Content-Encoding: gzip", b"Content-Encoding: br", b"Content-Encoding: zstd", b"Content-Encoding: deflate, gzip",
    b"Content-Encoding: \xff", b"Transfer-Encoding: chunked", b"Transfer-Encoding: \xff", b"Content-Length: -5",
    b"Content-Length: 99999999999999999999", b"Content-Length: x", b"Content-Length: 3\r\nContent-Length: 7",
    b"X-Robots-Tag: \xff\x00", b"X-Robots-Tag: unavailable_after: x", b"Set-Cookie: \xff=\x00", b": no name",
    b"no colon", b" folded", b"Bad Name: x", b"X-Long: " + b"x" * 40_000, b"X: " + bytes(range(1, 32)),
    b"Content-Disposition: attachment; filename=../../etc/passwd", b"Refresh: 0; url=http://127.0.0.1/",
    b"Location: http://127.0.0.1/", b"Connection: upgrade\r\nUpgrade: x", b"ETag: \xff", b"Content-Range: bytes x/y",
    b"Last-Modified: \xff", b"Date: never", b"Alt-Svc: h2=\"127.0.0.1:1\"", b"Link: <http://127.0.0.1/>; rel=preload",
)  # fmt: skip


def answer(chance: random.Random, location: str, good: bytes, kind: bytes) -> bytes:
    """Return a fuzzed HTTP response.

    Args:
        chance: the source of randomness.
        location: where redirects lead.
        good: a body that is right.
        kind: the media type of `good`.
    """
    way = chance.random()
    if way < 0.05:
        return _noise(chance)
    if way < 0.5:
        where = location.encode("utf-8", "surrogatepass").replace(b"\r", b"").replace(b"\n", b"")
        head = [f"HTTP/1.1 {chance.choice((301, 302, 303, 307, 308))} x".encode(), b"Location: " + where]
        return _response([*head, *chance.sample(_HEADERS, chance.choice((0, 0, 1)))], b"")
    body, declared = (good, kind) if way < 0.8 else (_body(chance, good), chance.choice(_TYPES))
    status = 200 if way < 0.9 else chance.choice(_STATUSES)
    line = chance.choice((b"HTTP/1.1 %d OK", b"HTTP/1.1 %d", b"HTTP/1.0 %d OK", b"HTTP/1.1 %d \xff\xfe")) % status
    return _response([line, b"Content-Type: " + declared, *chance.sample(_HEADERS, chance.choice((0, 1, 1, 2)))], body)


def _response(head: list[bytes], body: bytes) -> bytes:
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"Connection: close", b"", body])


def _body(chance: random.Random, good: bytes) -> bytes:
    return chance.choice((
        b"", good[: chance.randrange(len(good))], chance.randbytes(500), gzip.compress(good), b"<html>" * 200,
        b"[" * 5000, b'{"a":' * 2000, b"\xff\xd8\xff" + chance.randbytes(300), b"\x89PNG" + chance.randbytes(99),
        b"<svg onload=x>", b"GIF89a" + b"\xff" * 50, b"\x1f\x8b" + chance.randbytes(50), good + b"\x00" * 1000,
    ))  # fmt: skip


def _noise(chance: random.Random) -> bytes:
    return chance.choice((
        b"", b"\r\n\r\n", b"HTTP/1.1", b"HTTP/1.1 200 OK\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 abc x\r\n\r\n",
        b"HTTP/1.1 -1 x\r\n\r\n", b"HTTP/1.1 99999 x\r\n\r\n", b"\x16\x03\x01\x02\x00", chance.randbytes(200),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50, b"ICY 200 OK\r\n\r\n", b"<html>no head</html>",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc",
    ))  # fmt: skip
