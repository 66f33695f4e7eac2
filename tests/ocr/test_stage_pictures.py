"""Pictures of every format, good and bad, through the stage with the real engines."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from memeloom.catalog.records import Ocr
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config, Store
from memeloom.ocr.stage import read_memes
from memeloom.serve.drawing.fonts import FONT
from tests.ocr.memes import draw_meme, encoded, put

pytestmark = pytest.mark.usefixtures("in_process")

TEXT = "THIS IS STILL A MEME"


@pytest.fixture(params=["tesseract", "rapidocr"])
def config(request: pytest.FixtureRequest, store_config: Store) -> Config:
    if request.param == "rapidocr":
        pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
        pytest.importorskip("onnxruntime", reason="the extra `ocr` is not installed")
    overrides = [f"ocr.engine={request.param}", "engine.workers=1"]
    return load_config(overrides=overrides, environment={}).model_copy(update={"store": store_config})


def read_all(config: Config, pictures: dict[str, bytes]) -> tuple[dict[str, Ocr], dict[str, str]]:
    """What was read, and why nothing was, by name."""
    for name, data in pictures.items():
        put(config, name, data)
    summary = read_memes(config)
    documents = open_documents(config.store)
    readings = {meme.id.removeprefix("test:"): meme.ocr for meme in documents.scan() if meme.ocr}
    reasons = {meme_id.removeprefix("test:"): reason for meme_id, reason in documents.failed("ocr")}
    assert readings.keys() | reasons.keys() == pictures.keys()
    assert summary.counts["memes"] == len(pictures)
    dropped = [ocr.dropped for ocr in readings.values() if ocr.dropped]
    assert sum(summary.reasons.values()) == len(reasons) + len(dropped)
    return readings, reasons


def test_good_pictures_of_every_kind_are_read(config: Config) -> None:
    meme = draw_meme(TEXT)
    turned = Pillow.Exif()
    turned[0x0112] = 6
    wide = np.asarray(meme.convert("L")).astype(np.uint16) * 257
    pictures = {
        "cmyk": encoded(meme.convert("CMYK")),
        "grey": encoded(meme.convert("L")),
        "progressive": encoded(meme, progressive=True),
        "palette": encoded(meme.quantize(256), "PNG"),
        "gif": encoded(meme.quantize(256), "GIF"),
        "animated": encoded(meme, "GIF", save_all=True, append_images=[draw_meme()]),
        "webp": encoded(meme, "WEBP", quality=90),
        "16-bit": encoded(Pillow.fromarray(wide), "PNG"),
        "turned": encoded(meme.rotate(90, expand=True), exif=turned),
        "alpha": on_nothing("black"),
        "white-alpha": on_nothing("white"),
    }
    readings, reasons = read_all(config, pictures)
    assert reasons == {}
    assert {name: ocr.text.casefold().replace("\n", " ") for name, ocr in readings.items()} == dict.fromkeys(
        pictures, TEXT.casefold()
    )
    upright = readings["turned"].boxes[0]
    assert upright.y + upright.height < 0.5
    assert upright.width > upright.height


def test_bad_pictures_fail_with_a_reason_and_empty_ones_are_dropped(config: Config) -> None:
    jpeg, png = encoded(draw_meme(TEXT)), encoded(draw_meme(TEXT), "PNG")
    failing = {
        "cut jpeg": (jpeg[: len(jpeg) // 2], "truncated"),
        "cut png": (png[: len(png) // 2], "truncated"),
        "cut gif": (encoded(draw_meme(TEXT), "GIF")[:5000], "truncated"),
        "bomb": (bomb(30_000), "too many pixels"),
        "html": (b"<html><body>404</body></html>", "not an image"),
        "noise": (bytes(range(256)) * 20, "not an image"),
        "header": (png[:8], "not an image"),
        "empty": (b"", "empty"),
    }
    without_text = {
        "dot": encoded(Pillow.new("RGB", (1, 1)), "PNG"),
        "ribbon": encoded(Pillow.new("RGB", (20_000, 10), "white"), "PNG"),
        "pole": encoded(Pillow.new("L", (10, 20_000), "black"), "PNG"),
        "clear": encoded(Pillow.new("RGBA", (300, 200), (0, 0, 0, 0)), "PNG"),
    }
    names = {name.replace(" ", "-"): (data, reason) for name, (data, reason) in failing.items()}
    readings, reasons = read_all(config, {name: data for name, (data, _) in names.items()} | without_text)
    assert reasons == {name: reason for name, (_, reason) in names.items()}
    assert {name: ocr.dropped for name, ocr in readings.items()} == dict.fromkeys(without_text, "no text")


def on_nothing(ink: str) -> bytes:
    """Letters on a transparent ground of their own colour."""
    picture = Pillow.new("RGB", (600, 300), ink).convert("RGBA")
    picture.putalpha(0)
    ImageDraw.Draw(picture).text((40, 110), TEXT, fill=ink, font=ImageFont.truetype(FONT, 60))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def bomb(side: int) -> bytes:
    """A valid PNG of a given number of pixels a side, black: a hundred kilobytes that would be a gigabyte in memory."""
    deflate = zlib.compressobj(9)
    row = bytes(1 + side // 8)
    packed = b"".join(deflate.compress(row * 1000) for _ in range(side // 1000)) + deflate.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
