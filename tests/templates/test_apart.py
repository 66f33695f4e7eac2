"""The stage that takes words off: what it makes, what it leaves, and that a kill loses nothing."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from memeloom.catalog.documents import Where
from memeloom.catalog.images import Pixels, decode_image
from memeloom.catalog.records import Meme, Ocr, OcrBox, TemplateRef
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.templates.apart import apart_memes
from tests.templates.shelf import LONG_AGO, Shelf
from tests.templates.worded import psnr, scene, write

ROOT = Path(__file__).parents[2]
TEXTS = [("WHEN YOU FINALLY", 0.5, 0.1), ("FIX THE BUG", 0.5, 0.9)]

SCRIPT = """
import os, signal, sys
from memeloom.catalog.documents import open_documents
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.templates import apart

class Mortal:
    def __init__(self, documents, writes):
        self.documents, self.left = documents, writes
    def __getattr__(self, name):
        found = getattr(self.documents, name)
        if name not in ("upsert", "ack"):
            return found
        def write(*arguments, **options):
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return found(*arguments, **options)
        return write

if __name__ == "__main__":
    apart.open_documents = lambda store: Mortal(open_documents(store), int(sys.argv[2]))
    apart.apart_memes(Config.model_validate_json(sys.argv[1]), Silent())
"""


def jpeg(picture: Pixels) -> bytes:
    return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()


def read(boxes: tuple[OcrBox, ...], dropped: str | None = None) -> Ocr:
    return Ocr(text="", boxes=boxes, confidence=90.0, engine="drawn", dropped=dropped)


def put(shelf: Shelf, name: str, seed: int, *, is_read: bool = True, template: str | None = None) -> Meme:
    """A meme on `scene(seed)` in the catalog."""
    worded = write(scene(seed), TEXTS)
    ref = TemplateRef(id=template, slug=template, name=template) if template else None
    return shelf.meme(name, jpeg(worded.picture), ocr=read(worded.boxes) if is_read else None, template=ref)


def blank(shelf: Shelf, template_id: str, seed: int) -> None:
    shelf.template(template_id, None, image=shelf.image(jpeg(scene(seed))))


def stored(shelf: Shelf, name: str) -> Meme:
    meme = shelf.documents.get(f"test:{name}")
    assert meme is not None
    return meme


def test_each_meme_gets_its_picture_without_words_and_where_they_stood(config: Config, shelf: Shelf) -> None:
    blank(shelf, "known", 1)
    put(shelf, "read", 2)
    put(shelf, "both", 1, template="known")
    put(shelf, "unread", 1, is_read=False, template="known")
    summary = apart_memes(config, Silent())
    assert summary.counts == {"memes": 3, "inpainted": 1, "from template": 2}
    for name, seed, method in (("read", 2, "inpaint"), ("both", 1, "template"), ("unread", 1, "template")):
        meme = stored(shelf, name)
        assert meme.clean is not None
        assert meme.image is not None
        assert meme.clean.method == method
        assert meme.clean.made_from[0] == meme.image.key
        assert len(meme.clean.made_from) == (2 if method == "template" else 1)
        assert (meme.clean.image.width, meme.clean.image.height) == (500, 400)
        assert meme.clean.mask is not None
        clean = decode_image(shelf.blobs.get(meme.clean.image.key))
        before = decode_image(shelf.blobs.get(meme.image.key))
        mask = decode_image(shelf.blobs.get(meme.clean.mask))
        assert set(np.unique(mask)) == {0, 255}
        assert psnr(clean, scene(seed), mask[:, :, 0]) > psnr(before, scene(seed), mask[:, :, 0]) + 5


def test_doing_it_twice_changes_nothing(config: Config, shelf: Shelf) -> None:
    put(shelf, "one", 2)
    apart_memes(config, Silent())
    first, blobs = stored(shelf, "one"), set(shelf.blobs.keys())
    assert apart_memes(config, Silent()).counts["memes"] == 0
    apart_memes(config, Silent(), again=True)
    assert stored(shelf, "one").clean == first.clean
    assert set(shelf.blobs.keys()) == blobs


def test_reasons_are_counted(config: Config, shelf: Shelf) -> None:
    blank(shelf, "known", 1)
    shelf.meme("plain", jpeg(scene(1)), template=TemplateRef(id="known", slug="known", name="known"))
    shelf.meme("broken", jpeg(scene(3)), ocr=read(write(scene(3), TEXTS).boxes))
    broken = stored(shelf, "broken")
    assert broken.image is not None
    shelf.blobs.delete(broken.image.key)
    summary = apart_memes(config, Silent())
    assert summary.counts["skipped"] == 1
    assert summary.counts["failed"] == 1
    assert dict(summary.reasons) == {"no words": 1, "image missing": 1}
    put(shelf, "broken", 3)  # its picture is back
    assert apart_memes(config, Silent(), retry_failed=True).counts["inpainted"] == 1


def test_a_meme_about_which_nothing_is_known_is_done_when_it_is_read(config: Config, shelf: Shelf) -> None:
    put(shelf, "later", 2, is_read=False, template="without-picture")
    assert apart_memes(config, Silent()).counts["inpainted"] == 0
    assert stored(shelf, "later").clean is None
    shelf.documents.upsert(
        [Meme(id="test:later", source="test", ocr=read(write(scene(2), TEXTS).boxes), fetched_at=LONG_AGO)]
    )
    assert apart_memes(config, Silent()).counts["inpainted"] == 1


def test_a_template_that_was_rejected_fills_nothing(config: Config, shelf: Shelf) -> None:
    blank(shelf, "known", 1)
    shelf.documents.revise_template("known", lambda now: now.model_copy(update={"state": "rejected"}))
    put(shelf, "one", 1, template="known")
    apart_memes(config, Silent())
    clean = stored(shelf, "one").clean
    assert clean is not None
    assert clean.method == "inpaint"


def test_a_template_whose_picture_is_gone_is_done_without(config: Config, shelf: Shelf) -> None:
    blank(shelf, "known", 1)
    (template,) = shelf.documents.templates()
    assert template.image is not None
    shelf.blobs.delete(template.image.key)
    put(shelf, "one", 1, template="known")
    assert apart_memes(config, Silent()).counts["inpainted"] == 1


def test_killed_between_any_two_writes_nothing_is_lost(config: Config, shelf: Shelf) -> None:
    brief = config.model_copy(
        update={"templates": config.templates.model_copy(update={"lease_seconds": 1.0, "attempts": 50, "batch": 2})}
    )
    for number in range(4):
        put(shelf, str(number), number)
    ends = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, brief.model_dump_json(), str(writes)], cwd=ROOT, timeout=120, check=False
        ).returncode
        for writes in (0, 1, 2)
    ]
    assert ends[0] == -signal.SIGKILL
    end = time.monotonic() + 60
    while shelf.documents.count(Where(clean=False)):
        assert time.monotonic() < end, "it never came back"
        apart_memes(brief, Silent())
        time.sleep(0.1)
    keys = {meme.clean.image.key for meme in shelf.documents.scan() if meme.clean}
    assert len(keys) == 4
    assert keys <= set(shelf.blobs.keys())


@pytest.mark.parametrize("shape", [(1, 1), (2, 900), (700, 3)])
def test_pictures_of_any_shape_are_done_or_skipped(config: Config, shelf: Shelf, shape: tuple[int, int]) -> None:
    picture = np.full((*shape, 3), 200, np.uint8)
    box = OcrBox(text="WORDS", x=0.0, y=0.0, width=1.0, height=1.0, confidence=1.0)
    shelf.meme("odd", jpeg(picture), ocr=read((box,)))
    assert apart_memes(config, Silent()).counts["memes"] == 1
