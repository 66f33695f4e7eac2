"""Hostile clients: floods, slow ones, lying pictures, private addresses. Nothing hangs, nothing leaks."""

import io
import json
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from PIL import Image

from memeloom.serve.http.captioning.subjects import _pixels
from tests.serve.conftest import Server, StartServer
from tests.serve.http.pictured_model import write_pictured_model

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


@pytest.fixture(scope="module")
def seeing(start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model takes pictures."""
    folder = write_pictured_model(tmp_path_factory.mktemp("seeing"))
    with start_server({"generate.model": str(folder)}) as server:
        server.until_ready()
        yield server


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
        b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n",
    ):
        with connect(tight) as connection:
            connection.sendall(sent)
            assert not closed(connection).startswith(b"HTTP/1.1 200")


def png_bomb() -> bytes:
    """30,000 x 30,000 pixels in a few bytes of header."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 9000)) + chunk(b"IEND", b"")
    )


def picture(form: str) -> bytes:
    stream = io.BytesIO()
    Image.effect_noise((300, 200), 60).save(stream, form)
    return stream.getvalue()


def frames(number: int) -> bytes:
    stream = io.BytesIO()
    made = [Image.new("1", (2, 2), at % 2) for at in range(number)]
    made[0].save(stream, "GIF", save_all=True, append_images=made[1:], duration=20)
    return stream.getvalue()


UPLOADS: dict[str, Callable[[], bytes]] = {
    "bomb": png_bomb,
    "svg with script": lambda: b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "html": lambda: b"<!doctype html><html><script>alert(1)</script></html>",
    "truncated": lambda: picture("JPEG")[:3000],
    "empty": lambda: b"",
    "program": lambda: b"\x7fELF" + bytes(1000),
    "10,000 frames": lambda: frames(10_000),
    "animation": lambda: frames(3),
}
HOSTILE = [name for name in UPLOADS if name not in ("animation", "10,000 frames")]


def test_a_picture_is_captioned_by_a_model_that_takes_pictures(seeing: Server) -> None:
    """Whatever the upload is called."""
    with seeing.client() as http:
        for data in (picture("JPEG"), picture("PNG"), UPLOADS["animation"]()):
            upload = {"image": ("a.svg", data, "image/svg+xml")}
            found = http.post("/v1/captions", files=upload).raise_for_status().json()
            assert found["template"]["id"] == "image"
            assert found["captions"]
            drawn = http.post("/v1/memes", files=upload, headers={"accept": "image/png"}).raise_for_status()
            assert drawn.headers["content-type"] == "image/jpeg"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pictures_are_refused_with_a_reason(seeing: Server, name: str) -> None:
    data = UPLOADS[name]()
    with seeing.client() as http:
        for route in ("/v1/captions", "/v1/memes"):
            answer = http.post(route, files={"image": ("a.png", data, "image/png")}, headers={"accept": "image/png"})
            assert answer.status_code == 415, answer.text
            assert answer.json()["field"] == "image"
    for secret in ("Traceback", ".py", str(Path.home()), "/tmp"):
        assert secret not in answer.text


def test_an_animation_of_10_000_frames_is_captioned_by_its_first_and_not_drawn(seeing: Server) -> None:
    upload = {"image": ("a.gif", UPLOADS["10,000 frames"](), "image/gif")}
    with seeing.client() as http:
        assert http.post("/v1/captions", files=upload).status_code == 200
        drawn = http.post("/v1/memes", files=upload, data={"format": "gif"}, headers={"accept": "image/gif"})
        assert drawn.status_code == 415, drawn.text[:200]
        assert "frames" in drawn.json()["detail"]
        assert drawn.json()["field"] == "image"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/a.png", "http://localhost/a.png", "http://[::1]/a.png", "http://10.0.0.1/a.png",
        "http://169.254.169.254/latest/meta-data/", "http://0x7f000001/a.png", "file:///etc/passwd", "gopher://a/b",
        "http://user:password@example.com/a.png", "not an address", "http://127.0.0.1.nip.io.internal/a.png",
    ],
)  # fmt: skip
def test_private_addresses_are_never_fetched(seeing: Server, url: str) -> None:
    with seeing.client() as http:
        answer = http.post("/v1/captions", json={"image_url": url})
    assert answer.status_code == 415
    assert answer.json()["field"] == "image_url"
    assert url not in answer.text


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


def test_a_picture_that_waits_for_the_model_takes_little_memory() -> None:
    """47 KB of a PNG are 48 MB of pixels."""
    stream = io.BytesIO()
    Image.new("RGB", (4000, 4000)).save(stream, "PNG")
    assert len(stream.getvalue()) < 60_000
    waiting = _pixels(stream.getvalue(), 16_000_000, "image")
    assert waiting.nbytes < 3 * 2**20
    assert waiting.base is None or waiting.base.nbytes < 3 * 2**20
    assert _pixels(picture("PNG"), 16_000_000, "image").shape == (200, 300, 3)


def test_a_model_that_takes_no_pictures_refuses_them_before_they_are_decoded(server: Server) -> None:
    with server.client() as http:
        for field, answer in (
            ("image", http.post("/v1/captions", files={"image": ("a.png", b"no picture", "image/png")})),
            ("image_url", http.post("/v1/captions", json={"image_url": "http://127.0.0.1/a.png"})),
        ):
            assert (answer.status_code, answer.json()["field"]) == (422, field)
