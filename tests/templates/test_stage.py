"""The templates stage: matches, unknown memes, failures, repeated runs."""

import time
from collections.abc import Callable

import pytest
from PIL import Image as Pillow

from memeloom.catalog.documents import Where
from memeloom.catalog.records import TemplateRef
from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.templates.stage import failed_memes, match_memes
from tests.templates.meme_catalog import MemeCatalog

pytestmark = pytest.mark.usefixtures("in_process")
Draw = Callable[[int], Pillow.Image]
Captioned = Callable[[int, int], Pillow.Image]


@pytest.fixture
def filled(catalog: MemeCatalog, draw: Draw, captioned: Captioned) -> MemeCatalog:
    """Five templates; ten memes on them, four on nothing known, one that its page names, one without a picture."""
    for seed in range(5):
        catalog.template(f"{seed}", draw(seed))
    for number in range(10):
        catalog.meme(f"on{number}", captioned(number % 5, number), title="kept")
    for number in range(4):
        catalog.meme(f"strange{number}", draw(900 + number))
    catalog.meme("named", draw(1), template=TemplateRef(id="3", slug="slug-3", name="Name 3"))
    catalog.meme("bare", None)
    return catalog


def run(config: Config, **options: bool) -> Summary:
    return match_memes(config, Silent(), **options)


def test_matches_are_written_and_the_rest_is_counted(config: Config, filled: MemeCatalog) -> None:
    summary = run(config)
    assert summary.counts == {"templates": 5, "memes": 14, "matched": 10, "unknown": 4}
    assert summary.reasons == {}
    for number in range(10):
        meme = filled.documents.get(f"test:on{number}")
        assert meme is not None
        assert meme.template is not None
        assert (meme.template.id, meme.template.known) == (f"{number % 5}", "match")
        assert meme.template.distance is not None
        assert 0 < meme.template.distance < 60
        assert meme.title == "kept"
    assert [meme.id for meme in filled.documents.scan(Where(template_known=False))] == [
        "test:bare", "test:strange0", "test:strange1", "test:strange2", "test:strange3",
    ]  # fmt: skip
    assert filled.unknown() == [f"test:strange{number}" for number in range(4)]


def test_a_template_named_by_a_page_stays(config: Config, filled: MemeCatalog) -> None:
    run(config)
    meme = filled.documents.get("test:named")
    assert meme is not None
    assert meme.template == TemplateRef(id="3", slug="slug-3", name="Name 3", known="page")


def test_a_second_run_changes_nothing(config: Config, filled: MemeCatalog) -> None:
    run(config)
    memes, sketches = list(filled.documents.scan()), list(filled.documents.sketches())
    assert run(config).counts == {"templates": 5, "memes": 0, "matched": 0, "unknown": 0}
    assert list(filled.documents.scan()) == memes
    assert list(filled.documents.sketches()) == sketches


def test_the_pictures_of_templates_are_sketched_once(config: Config, filled: MemeCatalog, draw: Draw) -> None:
    run(config)
    for template in filled.documents.templates():
        assert template.image is not None
        filled.blobs.delete(template.image.key)
    filled.meme("late", draw(2))
    assert run(config).counts["matched"] == 1


def test_a_changed_template_picture_is_sketched_again(
    config: Config, filled: MemeCatalog, draw: Draw, captioned: Captioned
) -> None:
    run(config)
    filled.template("2", draw(77))
    filled.meme("late", captioned(77, 5))
    assert run(config).counts["matched"] == 1
    assert filled.made_on("late") == "2"


def test_a_missing_template_picture_is_counted(config: Config, filled: MemeCatalog) -> None:
    (gone,) = (template.image for template in filled.documents.templates() if template.id == "3")
    assert gone is not None
    filled.blobs.delete(gone.key)
    summary = run(config)
    assert summary.counts == {"templates": 4, "memes": 14, "matched": 8, "unknown": 6}
    assert summary.reasons == {"template's image missing": 1}
    assert run(config).reasons == {"template's image missing": 1}  # it may come back: it is tried again


def test_unknown_memes_match_a_later_template(
    config: Config, catalog: MemeCatalog, draw: Draw, captioned: Captioned
) -> None:
    catalog.meme("early", captioned(2, 1))
    catalog.meme("other", draw(900))
    assert run(config).counts == {"templates": 0, "memes": 2, "matched": 0, "unknown": 2}
    catalog.template("2", draw(2))
    summary = run(config)
    assert (catalog.made_on("early"), catalog.made_on("other")) == ("2", None)
    assert catalog.unknown() == ["test:other"]
    assert summary.counts == {"templates": 1, "memes": 0, "matched": 0, "unknown": 0, "learned later": 1}


def test_missing_and_corrupt_blobs_fail_with_a_reason(config: Config, filled: MemeCatalog, draw: Draw) -> None:
    lost = filled.meme("lost", draw(40)).image
    assert lost is not None
    filled.blobs.delete(lost.key)
    filled.meme("page", draw(41), image=filled_image(filled, b"<html>404</html>"))
    summary = run(config)
    assert summary.counts == {"templates": 5, "memes": 16, "matched": 10, "unknown": 4, "failed": 2}
    assert summary.reasons == {"image missing": 1, "not an image": 1}
    assert dict(failed_memes(config)) == {"test:lost": "image missing", "test:page": "not an image"}
    assert run(config).counts["memes"] == 0
    assert run(config, retry_failed=True).reasons == summary.reasons


def filled_image(catalog: MemeCatalog, data: bytes) -> dict[str, object]:
    return {
        "key": catalog.blobs.put(data), "width": 9, "height": 9, "format": "png", "bytes": len(data),
        "phash64": "0" * 16, "phash256": "0" * 64,
    }  # fmt: skip


def test_memes_leased_by_another_run_are_skipped(config: Config, filled: MemeCatalog) -> None:
    filled.documents.enqueue("templates", Where(image=True, template_known=False))
    assert len(filled.documents.lease("templates", 6, ttl=600, attempts=3)) == 6
    counts = run(config).counts
    assert (counts["memes"], counts["held"]) == (8, 6)


def test_leases_of_a_dead_run_expire(config: Config, filled: MemeCatalog) -> None:
    filled.documents.enqueue("templates", Where(image=True, template_known=False))
    assert len(filled.documents.lease("templates", 6, ttl=0.01, attempts=3)) == 6
    time.sleep(0.02)  # past the end of the dead run's lease
    assert run(config).counts == {"templates": 5, "memes": 14, "matched": 10, "unknown": 4}


def test_unknown_memes_are_processed_again_on_request_only(config: Config, filled: MemeCatalog) -> None:
    run(config)
    assert run(config).counts["memes"] == 0
    again = run(config, again=True)
    assert again.counts == {"templates": 5, "memes": 4, "matched": 0, "unknown": 4}
    assert len(filled.unknown()) == 4


def test_plain_pictures_are_unknown_and_not_stored(config: Config, catalog: MemeCatalog) -> None:
    catalog.meme("white", Pillow.new("RGB", (300, 300), "white"))
    catalog.meme("dot", Pillow.new("RGB", (1, 1)))
    catalog.template("plain", Pillow.new("RGB", (300, 200), "red"))
    assert run(config).counts == {"templates": 0, "memes": 2, "matched": 0, "unknown": 2}
    assert catalog.unknown() == []
    assert run(config).counts["memes"] == 0


def test_a_found_template_gets_picture_and_text_boxes_in_the_same_run(
    config: Config, catalog: MemeCatalog, captioned: Captioned
) -> None:
    for number in range(6):
        catalog.meme(f"new{number}", captioned(5, number))
    assert run(config).counts["pictures recovered"] == 1
    (template,) = catalog.documents.templates()
    assert template.clean is not None
    assert template.clean.method == "median"
    assert len(template.clean.made_from) == 6
    assert template.boxes
    # It is recognised by that picture from now on.
    assert [stored.meme for stored in catalog.documents.sketches(template.id)].count("") == 1
    assert "pictures recovered" not in run(config).counts


def test_a_template_named_by_pages_gets_a_picture_without_leased_work(
    config: Config, catalog: MemeCatalog, captioned: Captioned
) -> None:
    ref = catalog.template("bare", None).ref()
    for number in range(4):
        catalog.meme(f"named{number}", captioned(6, number), template=ref)
    catalog.meme("later", captioned(6, 7))
    summary = run(config)
    assert summary.counts["pictures recovered"] == 1
    assert catalog.made_on("later") == "bare"
