"""Faults of connections: slow, missing or endless bytes, and resets."""

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
    """Send the response in `pieces` (20), `pause` (0.1) seconds before each."""
    response, body = await _begun(request, handler)
    size = max(1, -(-len(body) // settings.get("pieces", 20)))
    for start in range(0, len(body), size):
        await asyncio.sleep(settings.get("pause", 0.1))
        await response.write(body[start : start + size])
    return response


async def truncated(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Send the first `part` (0.5) of the announced Content-Length, then close."""
    response, body = await _begun(request, handler)
    response.force_close()
    await response.write(body[: int(len(body) * settings.get("part", 0.5))])
    if request.transport is not None:
        request.transport.close()
    return response


async def reset(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Reset the connection: before the response, or after `part` (0) of the body."""
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
    """Send `sends` (``nothing``, ``headers`` or ``part``), then nothing more until the client disconnects."""
    response: web.StreamResponse = web.Response()
    if (sends := settings.get("sends", "nothing")) != "nothing":
        response, body = await _begun(request, handler)
        await response.write(body[: len(body) // 2] if sends == "part" else b"")
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(_LOOK_SECONDS)
    return response


async def endless_body(request: web.Request, handler: Handler, _: Settings) -> web.StreamResponse:
    """Send the response, then endless bytes, without Content-Length."""
    inner, body = await whole(request, handler)
    response = web.StreamResponse(status=inner.status, headers=headers_of(inner))
    await response.prepare(request)
    await response.write(body)
    while request.transport is not None and not request.transport.is_closing():
        await response.write(bytes(_ENDLESS_PIECE))
    return response


async def huge_headers(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Send the response with `count` (200) extra headers of `size` (1,000) bytes each."""
    response, body = await whole(request, handler)
    padding = {f"X-Padding-{number}": "x" * settings.get("size", 1000) for number in range(settings.get("count", 200))}
    return web.Response(status=response.status, body=body, headers=headers_of(response) | padding)


async def gzip_bomb(request: web.Request, handler: Handler, settings: Settings) -> web.StreamResponse:
    """Send a small valid gzip body that unpacks to `bytes` (2,000,000,000) zeros."""
    inner, _ = await whole(request, handler)
    body = await asyncio.to_thread(_packed_zeros, settings.get("bytes", 2_000_000_000))
    return web.Response(status=inner.status, body=body, headers=headers_of(inner) | {"Content-Encoding": "gzip"})


@lru_cache(2)
def _packed_zeros(count: int) -> bytes:
    """Return at least `count` zeros as gzip; flushed blocks are independent, so one block is repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    blocks, checksum = -(-count // len(_ZEROS)), 0
    for _ in range(blocks):
        checksum = zlib.crc32(_ZEROS, checksum)
    end = packer.flush() + struct.pack("<II", checksum, blocks * len(_ZEROS) % 2**32)
    return b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + block * blocks + end


async def _begun(request: web.Request, handler: Handler) -> tuple[web.StreamResponse, bytes]:
    """Send the headers of the response; return it and its unsent body."""
    inner, body = await whole(request, handler)
    response = web.StreamResponse(status=inner.status, headers=headers_of(inner))
    response.content_length = len(body)
    await response.prepare(request)
    return response, body
