"""Requests are refused early and cheaply, and bodies are held once."""

import asyncio
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from memeloom.serve.http.middleware.admission import ADMISSION, BUSY, Admission, RefuseEarly
from memeloom.serve.http.middleware.limits import BodyLimit
from memeloom.serve.http.protocol import BoundedProtocol

_PATIENCE = 30


def test_a_body_is_held_once() -> None:
    size, held = 100_000, []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        held.append(tracemalloc.get_traced_memory()[0])
        assert len(message["body"]) == 100 * size

    left = [100]

    async def receive() -> Message:
        left[0] -= 1
        return {"type": "http.request", "body": bytes(size), "more_body": left[0] > 0}

    async def send(_: Message) -> None:
        raise AssertionError

    scope = {"type": "http", "path": "/", "headers": [(b"content-type", b"application/zip")]}
    tracemalloc.start()
    try:
        asyncio.run(BodyLimit(app, 200 * size)(scope, receive, send))
    finally:
        tracemalloc.stop()
    assert held[0] < 1.5 * 100 * size


def test_a_refused_request_is_never_read() -> None:
    admission, sent = Admission(1), list[Message]()
    admission.enter("/x")

    async def never(*_: Any) -> Any:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(RefuseEarly(never, admission)({"type": "http", "path": "/x"}, never, send))
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]


def test_paths_with_a_limit_of_their_own_leave_room_for_others() -> None:
    admission = Admission(4, {"/v1/batch": 1})
    admission.enter("/v1/batch")
    assert [admission.refuses(path) for path in ("/v1/batch", "/v1/memes", "/healthz")] == [True, False, False]
    for _ in range(3):
        admission.enter("/v1/memes")
    assert [admission.refuses(path) for path in ("/v1/memes", "/healthz")] == [True, False]
    admission.leave("/v1/batch")
    assert not admission.refuses("/v1/batch")


class Served:
    """A server with the protocol, whose admission the test decides about."""

    def __init__(self) -> None:
        self.refused = 0
        self.admission = Admission(1, refused=self._count)
        self.reached: list[bytes] = []

    def _count(self) -> None:
        self.refused += 1

    async def answer(self, request: Request) -> PlainTextResponse:
        self.reached.append(await request.body())
        return PlainTextResponse("fine")

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[dict[str, Any]]:
        yield {ADMISSION: self.admission}

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=_PATIENCE)

    address: tuple[str, int]


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    app = Starlette(routes=[Route("/{rest:path}", served.answer, methods=["GET", "POST"])], lifespan=served.lifespan)
    protocol: Any = partial(BoundedProtocol, seconds=_PATIENCE, most=100, waiting={})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        served.address = listening.getsockname()
        server = uvicorn.Server(uvicorn.Config(app, http=protocol, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        with served.connect() as connection:  # it has started
            connection.sendall(request(b"GET", b"/"))
            assert status(connection) == 200
        served.reached.clear()
        yield served
        server.should_exit = True
        thread.join(_PATIENCE)


def request(method: bytes, path: bytes, body: bytes = b"", *fields: bytes) -> bytes:
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: a", *fields]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def status(connection: socket.socket) -> int:
    """Read one answer and return its status."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    assert len(body) == length
    return int(head.split(b" ")[1])


def test_whole_requests_to_a_full_server_get_a_constant_answer(served: Served) -> None:
    post = request(b"POST", b"/v1/captions", b'{"template": "doge"}', b"Connection: keep-alive")
    with served.connect() as connection:
        served.admission.enter("/x")
        for sent in (post, request(b"GET", b"/images/a.png?x=1"), post):
            connection.sendall(sent)
            assert connection.recv(65536) == BUSY
        served.admission.leave("/x")
        connection.sendall(post)  # the connection can still be used
        assert status(connection) == 200
        served.admission.enter("/x")
        connection.sendall(post)
        assert connection.recv(65536) == BUSY
    assert served.refused == 4
    assert served.reached == [b'{"template": "doge"}']


@pytest.mark.parametrize(
    "parts",
    [
        [request(b"GET", b"/healthz")],
        [request(b"HEAD", b"/x")],
        [request(b"GET", b"/x", b"", b"Origin: https://a.example")],
        [request(b"GET", b"/x", b"", b"Connection: close")],
        [request(b"GET", b"/x%20")],
        [request(b"POST", b"/x", b"abc")[:-2], b"bc"],
        [request(b"POST", b"/x", b"abc")[:20], request(b"POST", b"/x", b"abc")[20:]],
        [b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
        [b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n"],
    ],
)  # fmt: skip
def test_other_requests_take_the_long_way(served: Served, parts: list[bytes]) -> None:
    """Probes are answered, and what is no whole plain request is parsed; the application refuses it."""
    served.admission.enter("/x")
    with served.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
            if part is not parts[-1]:
                with served.connect() as other:  # its answer shows that the server has read the part
                    other.sendall(request(b"GET", b"/healthz"))
                    assert status(other) == 200
        assert connection.recv(65536).split(b" ")[1] in (b"200", b"405")
    assert served.refused == 0


def test_pipelined_requests_are_answered_in_order(served: Served) -> None:
    served.admission.enter("/x")
    with served.connect() as connection:
        connection.sendall(request(b"POST", b"/a", b"1") + request(b"POST", b"/b", b"2"))
        received = b""
        while received.count(b"fine") < 2:
            received += connection.recv(65536)
    assert served.reached == [b"1", b"2"]
