"""Faults of connections: slow, missing or endless bytes, and connections that break."""

import asyncio
import socket
import struct
import zlib
from functools import lru_cache

from aiohttp import web

from memeloom.demo.context import Handler
from memeloom.demo.faults_responses import Settings, headers_of, whole

_LOOK_SECONDS = 0.02
_ENDLESS_PIECE = 65_536
_ZEROS = bytes(1 << 20)


async def slow_bytes(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """The right bytes in `pieces` (20), `pause` (0.1) seconds before each."""
    response, body = await _begun(request, handler)
    size = max(1, -(-len(body) // settings.get("pieces", 20)))
    for start in range(0, len(body), size):
        await asyncio.sleep(settings.get("pause", 0.1))
        await response.write(body[start : start + size])
    return response


async def truncated(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """The first `part` (0.5) of the bytes, then the connection closes; all of them were announced."""
    response, body = await _begun(request, handler)
    response.force_close()
    await response.write(body[: int(len(body) * settings.get("part", 0.5))])
    if request.transport is not None:
        request.transport.close()
    return response


async def reset(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """The connection is reset: before the response, or after `part` (0) of the body."""
    response: web.StreamResponse = web.Response()
    if part := settings.get("part", 0):
        response, body = await _begun(request, handler)
        await response.write(body[: int(len(body) * part)])
    if request.transport is not None:
        line: socket.socket = request.transport.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return response


async def stall(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Silence until the client gives up; it gets nothing, the headers or a part of the body, as `sends` (nothing) says.

    It is ``nothing``, ``headers`` or ``part``.
    """
    response: web.StreamResponse = web.Response()
    if (sends := settings.get("sends", "nothing")) != "nothing":
        response, body = await _begun(request, handler)
        await response.write(body[: len(body) // 2] if sends == "part" else b"")
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(_LOOK_SECONDS)
    return response


async def endless_body(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """The right bytes and then others without end; no length is announced."""
    inner, body = await whole(request, handler)
    response = web.StreamResponse(status=inner.status, headers=headers_of(inner))
    await response.prepare(request)
    await response.write(body)
    while request.transport is not None and not request.transport.is_closing():
        await response.write(bytes(_ENDLESS_PIECE))
    return response


async def huge_headers(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """The right answer behind `count` (200) needless headers of `size` (1,000) bytes each."""
    response, body = await whole(request, handler)
    padding = {f"X-Padding-{number}": "x" * settings.get("size", 1000) for number in range(settings.get("count", 200))}
    return web.Response(status=response.status, body=body, headers=headers_of(response) | padding)


async def gzip_bomb(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """A well-formed body that is small on the wire and unpacks to `bytes` (2,000,000,000) zeros."""
    inner, _ = await whole(request, handler)
    body = await asyncio.to_thread(_packed_zeros, settings.get("bytes", 2_000_000_000))
    return web.Response(status=inner.status, body=body, headers=headers_of(inner) | {"Content-Encoding": "gzip"})


@lru_cache(2)
def _packed_zeros(count: int) -> bytes:
    """At least `count` zeros as one gzip file: flushed blocks do not depend on each other, so one is repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    blocks, checksum = -(-count // len(_ZEROS)), 0
    for _ in range(blocks):
        checksum = zlib.crc32(_ZEROS, checksum)
    end = packer.flush() + struct.pack("<II", checksum, blocks * len(_ZEROS) % 2**32)
    return b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + block * blocks + end


async def _begun(request: web.Request, handler: Handler) -> tuple[web.StreamResponse, bytes]:
    """The right answer, its headers and length announced and nothing of its body sent, and that body."""
    inner, body = await whole(request, handler)
    response = web.StreamResponse(status=inner.status, headers=headers_of(inner))
    response.content_length = len(body)
    await response.prepare(request)
    return response, body
