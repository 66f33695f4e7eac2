"""The OCR stage end to end on SQLite and a folder, with the real Tesseract."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from PIL import Image as Pillow

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.records import Image, Meme, Ocr, Template, TemplateBox, TemplateRef
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config, Store
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.stage import read_memes

pytestmark = pytest.mark.usefixtures("in_process")

DrawMeme = Callable[..., Pillow.Image]
Encoded = Callable[..., bytes]
Add = Callable[..., str]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def config(store_config: Store, tmp_path: Path) -> Config:
    overrides = ["ocr.batch=3", "engine.workers=1"]
    return load_config(overrides=[*overrides, f"runs={tmp_path}/runs"], environment={}).model_copy(
        update={"store": store_config}
    )


@pytest.fixture
def documents(config: Config) -> DocumentStore:
    return open_documents(config.store)


@pytest.fixture
def add(config: Config, documents: DocumentStore) -> Add:
    """Name and bytes in: a meme with that picture is in the catalog. Its record believes what a site would say."""
    blobs = open_blobs(config.store)

    def add(name: str, data: bytes, **facts: object) -> str:
        image = Image(
            key=blobs.put(data), width=600, height=500, format="jpeg", bytes=len(data), phash64="0" * 16,
            phash256="0" * 64,
        )  # fmt: skip
        known = {"id": f"test:{name}", "source": "test", "image": image, "fetched_at": LONG_AGO, "title": "kept"}
        documents.upsert([Meme.model_validate({**known, **facts})])
        return image.key

    return add


def with_(config: Config, **ocr: object) -> Config:
    return config.model_copy(update={"ocr": config.ocr.model_copy(update=ocr)})


def ocr_of(documents: DocumentStore, name: str) -> Ocr | None:
    meme = documents.get(f"test:{name}")
    assert meme is not None
    return meme.ocr


def test_captions_are_kept_and_others_dropped_with_a_reason(
    config: Config, documents: DocumentStore, add: Add, draw_meme: DrawMeme, encoded: Encoded
) -> None:
    add("two", encoded(draw_meme("TOP OF THE MEME", "BOTTOM OF IT")))
    add("bare", encoded(draw_meme()))
    add("page", encoded(draw_meme("many words in here " * 3, "and some more below")))
    add("known", encoded(draw_meme("SOMETHING ELSE")), boxes=("THE PAGE SAYS SO",))
    summary = read_memes(with_(config, max_words=10), Silent())
    assert summary.counts == {"memes": 3, "kept": 1, "dropped": 2, "failed": 0}
    assert summary.reasons == {"no text": 1, "too much text": 1}
    read = ocr_of(documents, "two")
    assert read is not None
    assert [box.text for box in read.boxes] == ["TOP OF THE MEME", "BOTTOM OF IT"]
    meme = documents.get("test:two")
    assert meme is not None
    assert (meme.caption, meme.title) == (("TOP OF THE MEME", "BOTTOM OF IT"), "kept")
    page = documents.get("test:page")
    assert page is not None
    assert page.caption == ()
    assert ocr_of(documents, "known") is None


def test_a_meme_on_a_known_template_gets_its_boxes(
    config: Config, documents: DocumentStore, add: Add, draw_meme: DrawMeme, encoded: Encoded
) -> None:
    bottom, top, side = (
        TemplateBox(x=0.0, y=0.7, width=1.0, height=0.3),
        TemplateBox(x=0.0, y=0.0, width=1.0, height=0.3),
        TemplateBox(x=0.0, y=0.4, width=0.2, height=0.2),
    )
    template = Template(id="9", slug="nine", name="Nine", boxes=(bottom, top, side), source="test")
    documents.upsert_templates([template])
    matched = template.ref().model_copy(update={"known": "match", "distance": 4})
    add("on9", encoded(draw_meme("UP HERE", "DOWN THERE")), template=matched)
    strange = TemplateRef(id="8", slug="eight", name="Not in the catalog")
    add("on8", encoded(draw_meme("UP HERE", "DOWN THERE")), template=strange)
    read_memes(config, Silent())
    captions = [meme.caption for meme in documents.scan()]
    assert captions == [("UP HERE", "DOWN THERE"), ("DOWN THERE", "UP HERE", "")]


def test_missing_and_corrupt_blobs_fail_with_a_reason(
    config: Config, documents: DocumentStore, add: Add, draw_meme: DrawMeme, encoded: Encoded
) -> None:
    good = encoded(draw_meme("STILL HERE"))
    add("good", good)
    missing, corrupt = add("missing", good + b" "), add("corrupt", good + b"  ")
    open_blobs(config.store).delete(missing)
    _overwrite(Path(config.store.blobs), corrupt)
    summary = read_memes(config, Silent())
    assert summary.counts == {"memes": 3, "kept": 1, "dropped": 0, "failed": 2}
    assert summary.reasons == {"image missing": 1, "image corrupt": 1}
    assert documents.counts().stages["ocr"].reasons == summary.reasons
    assert read_memes(config, Silent()).counts["memes"] == 0


def test_a_timeout_is_retried_then_fails_until_requested(
    config: Config, documents: DocumentStore, add: Add, draw_meme: DrawMeme, encoded: Encoded
) -> None:
    add("slow", encoded(draw_meme("THIS TAKES SOME TIME")))
    summary = read_memes(with_(config, image_seconds=1e-4, attempts=2), Silent())
    assert summary.counts == {"memes": 1, "kept": 0, "dropped": 0, "failed": 1}
    assert summary.reasons == {"timeout": 1}
    assert read_memes(config, Silent()).counts["memes"] == 0
    assert documents.retry("ocr", "timeout") == 1
    assert read_memes(config, Silent()).counts["kept"] == 1


def test_a_second_run_changes_nothing(
    config: Config, documents: DocumentStore, add: Add, draw_meme: DrawMeme, encoded: Encoded
) -> None:
    add("two", encoded(draw_meme("TOP OF THE MEME", "BOTTOM OF IT")))
    read_memes(config, Silent())
    before = list(documents.scan())
    assert read_memes(config, Silent()).counts == {"memes": 0, "kept": 0, "dropped": 0, "failed": 0}
    assert list(documents.scan()) == before


def test_lost_spaces_are_restored_with_the_catalogs_words(
    config: Config, documents: DocumentStore, add: Add, draw_meme: DrawMeme, encoded: Encoded
) -> None:
    for number in range(30):
        add(f"known{number}", encoded(draw_meme(), "PNG"), boxes=(f"blorp quax {number}", "quax the blorp"))
    documents.upsert([Meme(id="test:glued", source="test", image=_known_image(documents), fetched_at=LONG_AGO)])
    assert read_memes(config, Silent(), open_engine=_open_gluer).counts["kept"] == 1
    glued = ocr_of(documents, "glued")
    assert glued is not None
    assert glued.text == "QUAX THE BLORP"


def test_two_processes_read_each_meme_once(
    config: Config,
    documents: DocumentStore,
    add: Add,
    draw_meme: DrawMeme,
    encoded: Encoded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # with real workers
    numbers = ("ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT")
    for place, number in enumerate(numbers):
        add(f"m{place}", encoded(draw_meme(f"CAPTION NUMBER {number}", seed=place)))
    both = config.model_copy(update={"engine": config.engine.model_copy(update={"workers": 2})})
    assert read_memes(both, Silent()).counts == {"memes": 8, "kept": 8, "dropped": 0, "failed": 0}
    texts = [meme.ocr.text for meme in documents.scan() if meme.ocr]
    assert texts == [f"CAPTION NUMBER {number}" for number in numbers]
    work = documents.counts().stages["ocr"]
    assert (work.done, work.pending, work.leased, work.failed) == (8, 0, 0, 0)


def _overwrite(folder: Path, key: str) -> None:
    (path,) = (path for path in folder.rglob("*") if path.is_file() and key in path.as_posix().replace("/", ""))
    path.chmod(0o644)
    path.write_bytes(b"not what was put there")


def _known_image(documents: DocumentStore) -> Image:
    known = documents.get("test:known0")
    assert known is not None
    assert known.image is not None
    return known.image


class _Gluer:
    name = "gluer"

    def read(self, _: object) -> list[Word]:
        return [Word("QUAXTHEBLORP", 0.1, 0.1, 0.8, 0.1, 99.0, 0)]


def _open_gluer(_: object) -> _Gluer:
    return _Gluer()
