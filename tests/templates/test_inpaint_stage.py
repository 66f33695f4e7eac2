"""The inpaint stage: pictures without words, skipped memes, and kills that lose nothing."""

import signal
import time

import cv2
import numpy as np
import pytest

from memeloom.catalog.documents import Where
from memeloom.catalog.images import Pixels, decode_image
from memeloom.catalog.records import Meme, Ocr, OcrBox, TemplateRef
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.templates.inpaint_stage import inpaint_memes
from tests.templates.killed import run_killed
from tests.templates.meme_catalog import LONG_AGO, MemeCatalog
from tests.templates.scenes import psnr, scene, write

pytestmark = pytest.mark.usefixtures("in_process")
TEXTS = [("WHEN YOU FINALLY", 0.5, 0.1), ("FIX THE BUG", 0.5, 0.9)]


def jpeg(picture: Pixels) -> bytes:
    return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()


def read(boxes: tuple[OcrBox, ...], dropped: str | None = None) -> Ocr:
    return Ocr(text="", boxes=boxes, confidence=90.0, engine="drawn", dropped=dropped)


def put(catalog: MemeCatalog, name: str, seed: int, *, is_read: bool = True, template: str | None = None) -> Meme:
    """A meme on `scene(seed)` in the catalog."""
    worded = write(scene(seed), TEXTS)
    ref = TemplateRef(id=template, slug=template, name=template) if template else None
    return catalog.meme(name, jpeg(worded.picture), ocr=read(worded.boxes) if is_read else None, template=ref)


def blank(catalog: MemeCatalog, template_id: str, seed: int) -> None:
    catalog.template(template_id, None, image=catalog.image(jpeg(scene(seed))))


def stored(catalog: MemeCatalog, name: str) -> Meme:
    meme = catalog.documents.get(f"test:{name}")
    assert meme is not None
    return meme


def test_each_meme_gets_a_picture_without_words_and_a_mask(config: Config, catalog: MemeCatalog) -> None:
    blank(catalog, "known", 1)
    put(catalog, "read", 2)
    put(catalog, "both", 1, template="known")
    put(catalog, "unread", 1, is_read=False, template="known")
    summary = inpaint_memes(config, Silent())
    assert summary.counts == {"memes": 3, "inpainted": 1, "from template": 2}
    for name, seed, method in (("read", 2, "inpaint"), ("both", 1, "template"), ("unread", 1, "template")):
        meme = stored(catalog, name)
        assert meme.clean is not None
        assert meme.image is not None
        assert meme.clean.method == method
        assert meme.clean.made_from[0] == meme.image.key
        assert len(meme.clean.made_from) == (2 if method == "template" else 1)
        assert (meme.clean.image.width, meme.clean.image.height) == (500, 400)
        assert meme.clean.mask is not None
        clean = decode_image(catalog.blobs.get(meme.clean.image.key))
        before = decode_image(catalog.blobs.get(meme.image.key))
        mask = decode_image(catalog.blobs.get(meme.clean.mask))
        assert set(np.unique(mask)) == {0, 255}
        assert psnr(clean, scene(seed), mask[:, :, 0]) > psnr(before, scene(seed), mask[:, :, 0]) + 5


def test_a_second_run_changes_nothing(config: Config, catalog: MemeCatalog) -> None:
    put(catalog, "one", 2)
    inpaint_memes(config, Silent())
    first, blobs = stored(catalog, "one"), set(catalog.blobs.keys())
    assert inpaint_memes(config, Silent()).counts["memes"] == 0
    inpaint_memes(config, Silent(), again=True)
    assert stored(catalog, "one").clean == first.clean
    assert set(catalog.blobs.keys()) == blobs


def test_reasons_are_counted(config: Config, catalog: MemeCatalog) -> None:
    blank(catalog, "known", 1)
    catalog.meme("plain", jpeg(scene(1)), template=TemplateRef(id="known", slug="known", name="known"))
    catalog.meme("broken", jpeg(scene(3)), ocr=read(write(scene(3), TEXTS).boxes))
    broken = stored(catalog, "broken")
    assert broken.image is not None
    catalog.blobs.delete(broken.image.key)
    summary = inpaint_memes(config, Silent())
    assert summary.counts["skipped"] == 1
    assert summary.counts["failed"] == 1
    assert dict(summary.reasons) == {"no words": 1, "image missing": 1}
    put(catalog, "broken", 3)  # its picture is back
    assert inpaint_memes(config, Silent(), retry_failed=True).counts["inpainted"] == 1


def test_a_skipped_meme_is_processed_once_it_is_read(config: Config, catalog: MemeCatalog) -> None:
    put(catalog, "later", 2, is_read=False, template="without-picture")
    assert inpaint_memes(config, Silent()).counts["inpainted"] == 0
    assert stored(catalog, "later").clean is None
    catalog.documents.upsert(
        [Meme(id="test:later", source="test", ocr=read(write(scene(2), TEXTS).boxes), fetched_at=LONG_AGO)]
    )
    assert inpaint_memes(config, Silent()).counts["inpainted"] == 1


def test_a_rejected_template_is_not_used(config: Config, catalog: MemeCatalog) -> None:
    blank(catalog, "known", 1)
    catalog.documents.revise_template("known", lambda now: now.model_copy(update={"state": "rejected"}))
    put(catalog, "one", 1, template="known")
    inpaint_memes(config, Silent())
    clean = stored(catalog, "one").clean
    assert clean is not None
    assert clean.method == "inpaint"


def test_a_missing_template_picture_is_not_needed(config: Config, catalog: MemeCatalog) -> None:
    blank(catalog, "known", 1)
    (template,) = catalog.documents.templates()
    assert template.image is not None
    catalog.blobs.delete(template.image.key)
    put(catalog, "one", 1, template="known")
    assert inpaint_memes(config, Silent()).counts["inpainted"] == 1


def test_a_kill_between_two_writes_loses_nothing(config: Config, catalog: MemeCatalog) -> None:
    brief = config.model_copy(
        update={"templates": config.templates.model_copy(update={"lease_seconds": 1.0, "attempts": 50, "batch": 2})}
    )
    for number in range(4):
        put(catalog, str(number), number)
    ends = [run_killed(brief, inpaint_memes, writes) for writes in (0, 1, 2)]
    assert ends[0] == -signal.SIGKILL
    end = time.monotonic() + 60
    while catalog.documents.count(Where(clean=False)):
        assert time.monotonic() < end, "it never came back"
        inpaint_memes(brief, Silent())
        time.sleep(0.1)
    keys = {meme.clean.image.key for meme in catalog.documents.scan() if meme.clean}
    assert len(keys) == 4
    assert keys <= set(catalog.blobs.keys())


@pytest.mark.parametrize("shape", [(1, 1), (2, 900), (700, 3)])
def test_any_shape_is_processed(config: Config, catalog: MemeCatalog, shape: tuple[int, int]) -> None:
    picture = np.full((*shape, 3), 200, np.uint8)
    box = OcrBox(text="WORDS", x=0.0, y=0.0, width=1.0, height=1.0, confidence=1.0)
    catalog.meme("odd", jpeg(picture), ocr=read((box,)))
    assert inpaint_memes(config, Silent()).counts["memes"] == 1
