"""A website of the test's own: what it answers is written in the test, what it was asked is recorded."""

import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Answer: TypeAlias = tuple[int, dict[str, str], bytes]


@dataclass
class Asked:
    """One request as it arrived; `at` is the monotonic clock's."""

    path: str
    headers: dict[str, str]
    at: float
    body: bytes = b""


@dataclass
class Website:
    """What a site says: `pages` maps a path (with its query) to an answer, or to a function that makes one."""

    url: str = ""
    pages: dict[str, Answer | Callable[[Asked], Answer]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def html(self, path: str, text: str) -> None:
        """Answer `path` with a page."""
        self.pages[path] = (200, {"Content-Type": "text/html; charset=utf-8"}, text.encode())

    def json(self, path: str, value: Any) -> None:
        """Answer `path` with JSON."""
        self.pages[path] = (200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def image(self, path: str, data: bytes) -> None:
        """Answer `path` with what is said to be a JPEG."""
        self.pages[path] = (200, {"Content-Type": "image/jpeg"}, data)

    def body(self, path: str) -> bytes:
        """The bytes that `path` is answered with."""
        page = self.pages[path]
        assert not callable(page)
        return page[2]

    def times(self, path: str) -> list[float]:
        """When `path` was asked for."""
        return [asked.at for asked in self.asked if asked.path == path]


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Website]:
    """A website on loopback, at its own port; over TLS with the certificate and key in a file."""
    site = Website()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(self.path, dict(self.headers), time.monotonic(), body)
            site.asked.append(asked)
            page = site.pages.get(self.path, (404, {}, b"not here"))
            status, headers, data = page(asked) if callable(page) else page
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(data))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # a crawl that was killed does not wait for its answers
                self.wfile.write(data)
            self.close_connection = "Content-Length" in headers

        def handle(self) -> None:
            with suppress(ConnectionError, ssl.SSLError):
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- its name in the base class
            pass

    Handler.do_GET = Handler.do_POST = Handler.answer  # type: ignore[attr-defined]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The handshake is left to the thread of the connection.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    site.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
