"""An uploaded meme is recognised by its template, and its text is read."""

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from memeloom.catalog.errors import BadImage
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.serve.drawing.draw import draw_meme
from memeloom.serve.feed.uploads import UploadReader
from tests.serve.http.feed.conftest import picture


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[UploadReader]:
    """A reader that knows three templates."""
    stores = {"store.documents": f"sqlite:///{tmp_path}/catalog.db", "store.blobs": str(tmp_path / "blobs")}
    config = load_config(environment={}, options=stores)
    with closing(open_documents(config.store)) as documents, closing(open_blobs(config.store)) as blobs:
        for number in range(3):
            blobs.put(picture(number))
            image = inspect_image(picture(number), max_bytes=10**7, max_pixels=10**7)
            template = Template(id=f"t{number}", slug=f"t{number}", name=f"T {number}", image=image, source="toy")
            documents.upsert_templates([template])
        yield UploadReader(config, documents, blobs)


def jpeg(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.convert("RGB").save(stream, "JPEG", quality=80)
    return stream.getvalue()


def test_a_meme_on_a_known_template_is_recognised_and_read(reader: UploadReader) -> None:
    with Image.open(io.BytesIO(picture(1))) as opened:
        blank = opened.resize((opened.width * 2, opened.height * 2))
    found = reader.read(jpeg(draw_meme(blank, ["such upload", "very text"])))
    assert found.template is not None
    assert found.template.id == "t1"
    said = " ".join(found.texts).lower()
    assert "upload" in said
    assert "very" in said


def test_another_picture_is_of_no_template_and_a_text_is_no_picture(reader: UploadReader) -> None:
    found = reader.read(jpeg(Image.linear_gradient("L").resize((300, 300))))
    assert (found.template, found.texts) == (None, ())
    with pytest.raises(BadImage):
        reader.read(b"<svg/>")
