"""Hostile clients: floods, slow ones, lying pictures, private addresses. Nothing hangs, nothing leaks."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tests.serve.conftest import Server, StartServer

# Only a server that hangs takes so long.
_PATIENCE = 60


@pytest.fixture(scope="module")
def tight(start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with tight limits, without a model."""
    settings = {
        "generate.model": str(tmp_path_factory.mktemp("none")), "serve.read_seconds": 1,
        "serve.max_body_bytes": 100_000, "serve.connections": 60, "serve.concurrency": 10,
    }  # fmt: skip
    with start_server(settings) as server:
        with server.client() as http:
            assert http.get("/healthz").text == "ok"
        yield server
        with server.client() as http:  # whatever the tests did to it
            assert http.get("/images/doge/a.png").status_code == 200
        assert "Traceback" not in server.log.read_text()


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=_PATIENCE)


def closed(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection; a timeout is an error."""
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def until_broken(connection: socket.socket, data: bytes, pause: float = 0.0) -> bool:
    """Send again and again until the server closes the connection."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return True
        time.sleep(pause)
    return False


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        b"POST /v1/captions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
        b"POST /v1/captions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
)
def test_a_client_that_stops_sending_is_closed(tight: Server, sent: bytes) -> None:
    with connect(tight) as connection:
        connection.sendall(sent)
        closed(connection)


def test_a_client_that_sends_its_head_by_drops_is_closed(tight: Server) -> None:
    with connect(tight) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert until_broken(connection, b"a", pause=0.02)


def test_a_client_that_does_not_read_is_closed(tight: Server) -> None:
    """After about 150 KB of answers, whatever the kernel would buffer: it takes 4 MB of each connection if it may."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(_PATIENCE)
        connection.connect(("127.0.0.1", tight.port))
        request = b"GET /templates/ HTTP/1.1\r\nHost: a\r\n\r\n"
        assert until_broken(connection, request * 100)


def test_a_flood_of_headers_is_refused(tight: Server) -> None:
    with connect(tight) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(100_000)))
        except (BrokenPipeError, ConnectionResetError):
            return
        assert b"200" not in closed(connection)[:20]


def test_a_body_that_declares_too_much_is_refused_before_it_is_read(tight: Server) -> None:
    with connect(tight) as connection:
        connection.sendall(b"POST /v1/captions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n")
        assert closed(connection).startswith(b"HTTP/1.1 413 ")


def test_a_chunked_body_is_refused_when_it_gets_too_large(tight: Server) -> None:
    with connect(tight) as connection:
        connection.sendall(
            b"POST /v1/captions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        try:
            for _ in range(8):
                connection.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert closed(connection).startswith(b"HTTP/1.1 413 ")


def test_a_new_client_is_served_when_idle_connections_reach_the_limit(tight: Server) -> None:
    """Those that have waited longest are closed instead."""
    connections = [connect(tight) for _ in range(90)]
    try:
        connections[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert closed(connections[-1]).endswith(b"ok")
        for connection in connections[:-1]:
            closed(connection)
    finally:
        for connection in connections:
            connection.close()


def test_a_body_in_chunks_of_one_byte_is_not_read(server: Server) -> None:
    """They held up the event loop for seconds."""
    with connect(server) as connection:
        connection.sendall(
            b"POST /v1/captions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(b"1\r\n1\r\n" * 20_000 + b"0\r\n\r\n")
        assert closed(connection) == b""


def test_nonsense_is_refused(tight: Server) -> None:
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"\x00" * 100 + b"\r\n\r\n",
        b"GET /nowhere HTTP/9.9\r\nConnection: close\r\n\r\n",
    ):
        with connect(tight) as connection:
            connection.sendall(sent)
            assert not closed(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "path",
    [
        "/images/..%2f..%2fetc%2fpasswd.png",
        "/images/%2e%2e/%2e%2e/a.png",
        "/v2/models/..%2f..%2fetc/ready",
        "/../../etc",
    ],
)
def test_path_tricks_find_nothing(server: Server, path: str) -> None:
    with connect(server) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        answer = closed(connection)
    assert answer.split()[1] in (b"404", b"422", b"302", b"301"), answer[:200]
    assert b"root:" not in answer


def test_answers_have_security_headers_and_no_server_name(server: Server) -> None:
    with server.client() as http:
        for answer in (http.get("/healthz"), http.get("/nowhere"), http.get("/images/doge/a.png")):
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "server" not in answer.headers
            assert "access-control-allow-origin" not in answer.headers


def test_pages_of_other_sites_may_call_only_if_they_are_named(start_server: StartServer, tmp_path: Path) -> None:
    settings = {"generate.model": str(tmp_path), "serve.origins": "[https://memes.example]"}
    with start_server(settings) as server, server.client() as http:
        named = http.get("/healthz", headers={"origin": "https://memes.example"})
        other = http.get("/healthz", headers={"origin": "https://evil.example"})
    assert named.headers["access-control-allow-origin"] == "https://memes.example"
    assert "access-control-allow-origin" not in other.headers


def test_requests_are_answered_while_hostile_ones_are_open(tight: Server) -> None:
    connections = [connect(tight) for _ in range(40)]
    try:
        for connection in connections:
            connection.sendall(b"POST /v1/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n" + b"x" * 1000)
        with httpx2.Client(base_url=tight.address, timeout=_PATIENCE) as http:
            assert http.get("/images/doge/a.png").status_code == 200
    finally:
        for connection in connections:
            connection.close()


def test_clients_that_send_slowly_take_no_place_of_others(tight: Server) -> None:
    """More of them than `serve.concurrency`, all with requests that have begun."""
    connections = [connect(tight) for _ in range(20)]
    try:
        for connection in connections:
            connection.sendall(
                b"POST /v1/batch HTTP/1.1\r\nHost: a\r\nContent-Type: application/jsonl\r\n"
                b"Content-Length: 50000\r\n\r\n" + b"x" * 1000
            )
        with tight.client() as http:
            answers = [http.post("/images/", json={"template_id": "doge", "text": ["a"]}) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [201] * 5
    finally:
        for connection in connections:
            connection.close()


def test_a_million_wrong_items_are_refused_at_once(server: Server) -> None:
    """Each of them made an error message: 20 MB of zeros took minutes and gigabytes."""
    zeros = b'{"template_id": "doge", "text": [' + b"0," * 500_000 + b"0]}"
    with server.client() as http:
        answer = http.post("/images/", content=zeros, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["field"]) == (422, "text")
        assert len(answer.content) < 1000
        longer = http.post("/images/", content=zeros * 2, headers={"content-type": "application/json"})
        assert longer.status_code == 413
        form = http.post("/images/", data={"template_id": "doge", "text": "a" * 200_000})
        assert form.status_code == 413


def test_a_batch_with_a_long_line_refuses_that_line(server: Server) -> None:
    lines = b'{"template": [' + b"{}," * 1_000_000 + b'{}]}\n\n{"template": "nothing"}\n'
    with server.client() as http:
        answer = http.post("/v1/batch", content=lines, headers={"content-type": "application/jsonl"})
    assert [json.loads(line)["problem"]["status"] for line in answer.text.splitlines()] == [413, 404]
