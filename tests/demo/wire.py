"""A client that shows what is on the wire: no library between the test and the socket."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


@contextmanager
def asked(url: str) -> Iterator[socket.socket]:
    """A connection on which `url` has been asked for."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=20) as connection:
        target = f"{parts.path}{'?' + parts.query if parts.query else ''}"
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        yield connection


def raw(url: str) -> bytes:
    """Everything that the server sends for one request, until it closes the connection."""
    with asked(url) as connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def until_reset(url: str) -> bytes:
    """Everything that the server sends until it resets the connection; AssertionError if it just closes it."""
    received = b""
    with asked(url) as connection:
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            return received
    raise AssertionError(f"{url}: closed, not reset")
