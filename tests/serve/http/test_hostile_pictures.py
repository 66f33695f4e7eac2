"""Hostile pictures: bombs, lying types, scripts, private addresses. None is decoded, fetched or held for long."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from memeloom.serve.http.captioning.subjects import _pixels
from tests.serve.conftest import Server, StartServer
from tests.serve.http.pictured_model import write_pictured_model


@pytest.fixture(scope="module")
def seeing(start_server: StartServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model takes pictures."""
    folder = write_pictured_model(tmp_path_factory.mktemp("seeing"))
    with start_server({"generate.model": str(folder)}) as server:
        server.until_ready()
        yield server


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
