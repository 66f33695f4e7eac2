"""Templates without a picture get one from their memes, and text boxes; what others say stays."""

from collections import Counter

import cv2
import pytest

from memeloom.catalog.images import decode_image
from memeloom.catalog.records import Ocr, Template, TemplateBox, TemplateRef
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.templates.recovery import recover_templates
from tests.templates.shelf import Shelf
from tests.templates.worded import psnr, scene, write

WORDS = [
    "GREEN TESTS",
    "ON MY MACHINE",
    "BUT NOT",
    "ON YOURS",
    "NOBODY KNOWS",
    "WHY IT RAINS",
    "EVER AGAIN",
    "SO IT IS",
]


def put(shelf: Shelf, name: str, number: int, seed: int, template: str, *, is_read: bool = True) -> None:
    """A meme on `scene(seed)`, with words by `number`."""
    texts = [(WORDS[number % 8], 0.35 + 0.03 * number, 0.1), (WORDS[(3 * number + 1) % 8], 0.65 - 0.03 * number, 0.9)]
    worded = write(scene(seed), texts, size=0.08)
    data = cv2.imencode(".jpg", worded.picture, [cv2.IMWRITE_JPEG_QUALITY, 80 + number])[1].tobytes()
    ocr = Ocr(text="", boxes=worded.boxes, confidence=90.0, engine="drawn") if is_read else None
    shelf.meme(name, data, ocr=ocr, template=TemplateRef(id=template, slug=template, name=template, known="match"))


def found(shelf: Shelf, template_id: str, **facts: object) -> None:
    shelf.template(template_id, None, state="found", source="found", **facts)


def stored(shelf: Shelf, template_id: str) -> Template:
    return next(template for template in shelf.documents.templates() if template.id == template_id)


def run(config: Config, shelf: Shelf) -> Counter[str]:
    return recover_templates(config, shelf.documents, Silent())


def test_a_found_template_gets_its_picture_and_boxes(config: Config, shelf: Shelf) -> None:
    found(shelf, "found:1")
    for number in range(8):
        put(shelf, str(number), number, 1, "found:1")
    assert run(config, shelf) == {"pictures": 1, "boxes": 1}
    template = stored(shelf, "found:1")
    assert template.clean is not None
    assert template.clean.method == "median"
    assert len(template.clean.made_from) == 8
    assert template.picture == template.clean.image
    assert len(template.boxes) == 2
    assert all(box.style for box in template.boxes)
    picture = decode_image(shelf.blobs.get(template.clean.image.key))
    assert picture.shape == (400, 500, 3)
    assert psnr(picture, scene(1)) > 30


def test_it_is_done_again_when_there_are_twice_as_many_memes_and_not_before(config: Config, shelf: Shelf) -> None:
    found(shelf, "found:1")
    for number in range(3):
        put(shelf, str(number), number, 1, "found:1")
    assert run(config, shelf)["pictures"] == 1
    first = stored(shelf, "found:1")
    for number in range(3, 5):
        put(shelf, str(number), number, 1, "found:1")
    assert run(config, shelf) == {}
    assert stored(shelf, "found:1") == first
    put(shelf, "5", 5, 1, "found:1")
    assert run(config, shelf)["pictures"] == 1
    again = stored(shelf, "found:1").clean
    assert again is not None
    assert len(again.made_from) == 6


def test_the_same_memes_give_the_same_bytes(config: Config, shelf: Shelf) -> None:
    for template_id in ("found:1", "found:2"):
        found(shelf, template_id)
        for number in range(4):
            put(shelf, f"{template_id}-{number}", number, 1, template_id)
    run(config, shelf)
    first, second = stored(shelf, "found:1").clean, stored(shelf, "found:2").clean
    assert first is not None
    assert first == second


def test_copies_of_one_meme_are_one_meme(config: Config, shelf: Shelf) -> None:
    found(shelf, "found:1")
    for number in range(6):
        put(shelf, str(number), number % 2, 1, "found:1")
    assert run(config, shelf) == {}


@pytest.mark.parametrize("facts", [{"state": "rejected"}, {"merged_into": "other"}])
def test_templates_that_are_none_are_left_alone(config: Config, shelf: Shelf, facts: dict[str, str]) -> None:
    shelf.template("found:1", None, **{"state": "found", **facts})
    shelf.template("other", None, boxes=[TemplateBox(x=0, y=0, width=1, height=1)])
    for number in range(4):
        put(shelf, str(number), number, 1, "found:1")
    assert run(config, shelf) == {}


def test_memes_on_a_sites_picture_tell_only_where_their_texts_stand(config: Config, shelf: Shelf) -> None:
    data = cv2.imencode(".jpg", scene(1))[1].tobytes()
    shelf.template("site", None, image=shelf.image(data))
    for number in range(5):
        put(shelf, str(number), number, 1, "site")
    assert run(config, shelf) == {"boxes": 1}
    template = stored(shelf, "site")
    assert template.clean is None
    assert len(template.boxes) == 2
    assert run(config, shelf) == {}


def test_boxes_that_a_source_states_stay(config: Config, shelf: Shelf) -> None:
    stated = TemplateBox(x=0.1, y=0.1, width=0.8, height=0.3)
    found(shelf, "found:1", boxes=[stated])
    for number in range(4):
        put(shelf, str(number), number, 1, "found:1")
    assert run(config, shelf)["pictures"] == 1
    assert stored(shelf, "found:1").boxes == (stated,)


def test_memes_that_have_nothing_in_common_are_counted_and_give_nothing(config: Config, shelf: Shelf) -> None:
    found(shelf, "found:1")
    for number in range(4):
        put(shelf, str(number), number, 40 + number, "found:1")
    assert run(config, shelf) == {"failed/memes do not fit together": 1}
    assert stored(shelf, "found:1").clean is None


def test_pictures_that_are_missing_are_done_without(config: Config, shelf: Shelf) -> None:
    found(shelf, "found:1")
    for number in range(5):
        put(shelf, str(number), number, 1, "found:1")
    image = next(meme.image for meme in shelf.documents.scan() if meme.image)
    shelf.blobs.delete(image.key)
    assert run(config, shelf)["pictures"] == 1
    clean = stored(shelf, "found:1").clean
    assert clean is not None
    assert len(clean.made_from) == 4
