"""Recognition on real pictures: captions drawn on real templates are found, strangers are not."""

import hashlib
import io
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image as Pillow

from catalog.images import hamming, inspect_image
from catalog.records import Image, Template
from configs.load import load_config
from serve.drawing import draw_caption
from templates.index import TemplateIndex

CAPTIONS = (
    ("WHEN YOU FINALLY FIX THE BUG", "AND FIND THREE MORE UNDER IT"),
    ("ONE DOES NOT SIMPLY", "READ THE MANUAL FIRST"),
    ("", "THEY TOLD ME IT WOULD ONLY TAKE FIVE MINUTES"),
)


@pytest.fixture(scope="module")
def pictures(real_data: Path) -> dict[str, Path]:
    """Real template pictures by name, those of the half that no threshold was tuned on."""
    rows = json.loads((real_data / "templates" / "manifest.json").read_text(encoding="utf-8"))
    paths = {row["file"]: real_data / "templates" / row["file"] for row in rows}
    digests = {name: int(hashlib.sha256(name.encode()).hexdigest(), 16) for name in paths}
    return {name: path for name, path in paths.items() if digests[name] % 2 == 1 and path.is_file()}


@pytest.fixture(scope="module")
def index(pictures: dict[str, Path]) -> TemplateIndex:
    """The first 60 of them, the distances at their defaults."""
    settings = load_config(environment={}).templates
    filled = TemplateIndex(settings.max_distance, settings.max_distance_256)
    for name, path in list(pictures.items())[:60]:
        filled.add(Template(id=name, slug=name, name=name, image=_described(path.read_bytes()), source="real"))
    return filled


def _described(data: bytes) -> Image:
    return inspect_image(data, max_bytes=10**8, max_pixels=10**8)


def test_drawn_captions_are_matched_to_the_right_template(index: TemplateIndex, pictures: dict[str, Path]) -> None:
    choice = random.Random(4)

    def same_picture(a: str, b: str) -> bool:
        """Two sources know some templates under two names."""
        hashes = [_described(pictures[name].read_bytes()).phash256 for name in (a, b)]
        return hamming(*hashes) <= 40

    verdicts: Counter[str] = Counter()
    for name in list(pictures)[:60]:
        meme = draw_caption(Pillow.open(pictures[name]), (), choice.choice(CAPTIONS))
        meme = meme.resize((round(meme.width * 0.7), round(meme.height * 0.7)))
        stream = io.BytesIO()
        meme.save(stream, "JPEG", quality=choice.choice((40, 70, 90)))
        found = index.match(_described(stream.getvalue())).template
        verdicts["unknown" if found is None else "right" if same_picture(found.id, name) else "wrong"] += 1
    assert verdicts["wrong"] == 0
    assert verdicts["right"] >= 54


def test_real_memes_on_other_pictures_stay_unknown(index: TemplateIndex, real_data: Path) -> None:
    strangers = sorted((real_data / "real_memes" / "cm_memes_hinglish").glob("*.jpg"))[:80]
    found = [index.match(_described(path.read_bytes())).template for path in strangers]
    assert found == [None] * 80
