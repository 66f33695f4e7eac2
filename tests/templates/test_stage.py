"""The templates stage: memes on known templates learn which, the others are counted."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from PIL import Image as Pillow

from catalog.documents import DocumentStore, Where, open_documents
from catalog.records import Image, Meme, Template, TemplateRef
from configs.load import load_config
from configs.progress import Silent
from configs.schema import Config, Store
from serve.drawing import draw_caption
from templates.stage import match_memes

Draw = Callable[[int], Pillow.Image]
Described = Callable[..., Image]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def config(store_config: Store) -> Config:
    return load_config(overrides=["templates.batch=3"], environment={}).model_copy(update={"store": store_config})


@pytest.fixture
def catalog(config: Config, draw: Draw, described: Described, template: Callable[[int], Template]) -> DocumentStore:
    """Five templates; ten memes on them, four on nothing known, one that its page names, one without a picture."""
    documents = open_documents(config.store)
    documents.upsert_templates(template(seed) for seed in range(5))
    memes = [
        _meme(f"on{i}", described(draw_caption(draw(i % 5), (), [f"CAPTION {i}", "OF A TEST"]), 60)) for i in range(10)
    ]
    memes += [_meme(f"strange{i}", described(draw(900 + i))) for i in range(4)]
    named = TemplateRef(id="3", slug="slug-3", name="Name 3")
    memes += [_meme("named", described(draw(1))).model_copy(update={"template": named}), _meme("bare", None)]
    documents.upsert(memes)
    return documents


def _meme(name: str, image: Image | None) -> Meme:
    return Meme(id=f"test:{name}", source="test", image=image, title="kept", fetched_at=LONG_AGO)


def test_matches_are_written_and_the_rest_is_counted(config: Config, catalog: DocumentStore) -> None:
    summary = match_memes(config, Silent())
    assert summary.counts == {"templates": 5, "memes": 14, "matched": 10}
    assert summary.reasons == {"unknown": 4}
    for i in range(10):
        meme = catalog.get(f"test:on{i}")
        assert meme is not None
        assert meme.template is not None
        assert (meme.template.id, meme.template.known) == (f"{i % 5}", "match")
        assert meme.title == "kept"
    assert [meme.id for meme in catalog.scan(Where(template_known=False))] == [
        "test:bare", "test:strange0", "test:strange1", "test:strange2", "test:strange3",
    ]  # fmt: skip


def test_what_a_page_says_stays(config: Config, catalog: DocumentStore) -> None:
    match_memes(config, Silent())
    meme = catalog.get("test:named")
    assert meme is not None
    assert meme.template == TemplateRef(id="3", slug="slug-3", name="Name 3", known="page")


def test_a_second_run_changes_nothing(config: Config, catalog: DocumentStore) -> None:
    match_memes(config, Silent())
    before = list(catalog.scan())
    again = match_memes(config, Silent())
    assert again.counts == {"templates": 5, "memes": 0, "matched": 0}
    assert list(catalog.scan()) == before


def test_memes_that_come_later_are_matched_later(
    config: Config, catalog: DocumentStore, draw: Draw, described: Described
) -> None:
    match_memes(config, Silent())
    catalog.upsert([_meme("late", described(draw(2)))])
    assert match_memes(config, Silent()).counts["matched"] == 1


def test_without_template_pictures_no_meme_counts_as_seen(
    config: Config, draw: Draw, described: Described, template: Callable[[int], Template]
) -> None:
    documents = open_documents(config.store)
    documents.upsert([_meme("early", described(draw(2)))])
    summary = match_memes(config, Silent())
    assert summary.counts == {"templates": 0, "memes": 0, "matched": 0}
    documents.upsert_templates([template(2)])
    assert match_memes(config, Silent()).counts["matched"] == 1


def test_what_another_run_holds_is_left_to_it(config: Config, catalog: DocumentStore) -> None:
    catalog.enqueue("templates", Where(image=True, template_known=False))
    assert len(catalog.lease("templates", 6, ttl=600, attempts=3)) == 6
    assert match_memes(config, Silent()).counts == {"templates": 5, "memes": 8, "matched": 4, "held": 6}


def test_what_a_dead_run_held_comes_back(config: Config, catalog: DocumentStore) -> None:
    catalog.enqueue("templates", Where(image=True, template_known=False))
    assert len(catalog.lease("templates", 6, ttl=0.01, attempts=3)) == 6
    time.sleep(0.02)  # past the end of the dead run's lease
    assert match_memes(config, Silent()).counts == {"templates": 5, "memes": 14, "matched": 10}
