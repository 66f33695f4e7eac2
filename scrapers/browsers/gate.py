"""The proxy of a browser, on loopback, which connects to the public web only.

The scripts of a page may request anything. The browser is started so that every connection goes through this proxy,
also to loopback, and that it resolves no names. The gate resolves each name, refuses it unless all its addresses are
public (or the host is allowed), and connects to the very address that it checked, so a name that resolves differently
the second time gains nothing. Behind another proxy, that proxy resolves the names.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from memeloom.scrapers.guard import is_public

# A header of responses made by the gate itself.
MARK = "X-Memeloom-Gate"
REFUSED = "refused"
UNREACHABLE = "unreachable"

_HEAD_BYTES = 64 * 2**10
_CHUNK = 64 * 2**10
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 15.0
_HOP_HEADERS = {"connection", "proxy-connection", "proxy-authorization", "keep-alive"}


class _Closed(Exception):
    """The host is refused or unreachable; `why` is sent to the browser in the header `MARK`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Upstream:
    """A proxy between the gate and the web; `credentials` as in a Proxy-Authorization header."""

    host: str
    port: int
    credentials: str | None = None

    @classmethod
    def at(cls, url: str, credentials: str | None) -> "Upstream":
        """Return the proxy at ``http://host:port``."""
        parts = urlsplit(url if "//" in url else f"//{url}")
        return cls(parts.hostname or "", parts.port or 80, credentials)


class Gate:
    """The proxy of one browser, on the event loop.

    Attributes:
        upstream: the proxy behind this one, if any.
        refused: hosts that were refused since the last `forget`.
    """

    def __init__(self, allow_hosts: Iterable[str]) -> None:
        self.upstream: Upstream | None = None
        self.refused: set[str] = set()
        self._allow_hosts = frozenset(allow_hosts)
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        """Listen on loopback. Returns the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def forget(self) -> None:
        """Close every connection of the last page, and clear `refused`."""
        self.refused.clear()
        for task in self._serving:
            task.cancel()

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.forget()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, ValueError, IndexError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            writer.transport.abort()  # one side disconnected or did not speak HTTP, or the page has ended
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = _Head.read(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS))
        try:
            await (self._tunnel if head.method == "CONNECT" else self._pass)(head, reader, writer)
        except _Closed as closed:
            status = "403 Forbidden" if closed.why == REFUSED else "502 Bad Gateway"
            answer = f"HTTP/1.1 {status}\r\n{MARK}: {closed.why}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            writer.write(answer.encode())
            await writer.drain()

    async def _tunnel(self, head: "_Head", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve ``CONNECT host:port``: bytes are forwarded unchanged."""
        host, port = _host_and_port(f"//{head.target}", 443)
        there, back = await self._connect(host, port)
        try:
            if self.upstream is not None:
                back.write(_connect_request(host, port, self.upstream))
                answer = await asyncio.wait_for(there.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
                if answer.split(b" ", 2)[1:2] != [b"200"]:
                    raise _Closed(UNREACHABLE)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _exchange(reader, back, there, writer)
        finally:
            back.close()

    async def _pass(self, head: "_Head", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve ``GET http://host/path``: one request and its response, then the connection ends."""
        parts = urlsplit(head.target)
        if parts.scheme != "http" or "transfer-encoding" in head.headers:
            raise _Closed(REFUSED)
        host, port = _host_and_port(head.target, 80)
        there, back = await self._connect(host, port)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            extra = []
            if self.upstream is not None:
                path = head.target
                extra = [f"Proxy-Authorization: {self.upstream.credentials}"] if self.upstream.credentials else []
            back.write(head.again(f"{head.method} {path} HTTP/1.1", extra))
            if length := int(head.headers.get("content-length", "0")):
                back.write(await reader.readexactly(length))
            await back.drain()
            # The response's head is rewritten, so the browser does not reuse the connection for another host.
            answer = _Head.read(await there.readuntil(b"\r\n\r\n"))
            writer.write(answer.again(answer.first))
            await _exchange(reader, None, there, writer)
        finally:
            back.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.upstream is not None:
            with suppress(ValueError):
                self._check(host, [str(ipaddress.ip_address(host))])
            addresses, port = [self.upstream.host], self.upstream.port
        else:
            addresses = await self._resolve(host)
        for address in addresses:
            with suppress(OSError, TimeoutError):
                connection = asyncio.open_connection(address, port, limit=_HEAD_BYTES)
                return await asyncio.wait_for(connection, _CONNECT_SECONDS)
        raise _Closed(UNREACHABLE)

    async def _resolve(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await asyncio.wait_for(
                loop.getaddrinfo(host, None, type=socket.SOCK_STREAM), _CONNECT_SECONDS
            )  # fmt: skip
        except (OSError, UnicodeError, TimeoutError):
            raise _Closed(UNREACHABLE) from None
        return self._check(host, [str(address[0]) for *_, address in found])

    def _check(self, host: str, addresses: list[str]) -> list[str]:
        if host in self._allow_hosts or all(map(is_public, addresses)):
            return addresses
        self.refused.add(host)
        raise _Closed(REFUSED)


@dataclass(frozen=True, slots=True)
class _Head:
    """The head of a request or response; names in `headers` are in lower case, `lines` are unchanged."""

    first: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, data: bytes) -> "_Head":
        first, *lines = data.decode("latin-1").rstrip("\r\n").split("\r\n")
        return cls(first, tuple(lines))

    @property
    def method(self) -> str:
        return self.first.split(" ")[0]

    @property
    def target(self) -> str:
        return self.first.split(" ")[1]

    @property
    def headers(self) -> dict[str, str]:
        pairs = (line.partition(":") for line in self.lines)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    def again(self, first: str, extra: Iterable[str] = ()) -> bytes:
        """Return the head for the other side, with a new first line and without hop-by-hop headers."""
        kept = [line for line in self.lines if line.partition(":")[0].strip().lower() not in _HOP_HEADERS]
        return "\r\n".join([first, *kept, *extra, "Connection: close", "", ""]).encode("latin-1")


def _host_and_port(url: str, otherwise: int) -> tuple[str, int]:
    parts = urlsplit(url)
    if not parts.hostname:
        raise _Closed(REFUSED)
    return parts.hostname, parts.port or otherwise


def _connect_request(host: str, port: int, upstream: Upstream) -> bytes:
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}"]
    if upstream.credentials:
        lines.append(f"Proxy-Authorization: {upstream.credentials}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _exchange(
    reader: asyncio.StreamReader,
    back: asyncio.StreamWriter | None,
    there: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Forward bytes in both directions until either side ends; without `back`, the browser's bytes are discarded."""
    pumps = {asyncio.ensure_future(_pump(reader, back)), asyncio.ensure_future(_pump(there, writer))}
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> None:
    while data := await reader.read(_CHUNK):
        if writer is not None:
            writer.write(data)
            await writer.drain()
