"""The language and profanity steps err rarely on the labelled captions that were not used for tuning."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.dataset_labels import Labelled, read_labels
from memeloom.dataset.steps.caption import Caption
from memeloom.dataset.steps.language import require_language
from memeloom.dataset.steps.profanity import WordList
from memeloom.dataset.steps.tiers import TIERS
from memeloom.engine.steps import Keep


@pytest.fixture(scope="module")
def labels(real_data: Path) -> list[Labelled]:
    return [row for row in read_labels(real_data) if row.reported]


def kept(labels: Sequence[Labelled], language: str) -> tuple[int, int]:
    """How many captions in `language` the step for English keeps, and of how many."""
    step = require_language(["en"], "py3langid", 0.5)
    rows = [row for row in labels if row.language == language]
    captions = [Caption(row.id, "imgflip", "t", "", "", row.boxes) for row in rows]
    return sum(isinstance(step(caption), Keep) for caption in captions), len(rows)


def test_errors_of_the_language_step(labels: list[Labelled]) -> None:
    english, of_english = kept(labels, "en")
    assert of_english > 400
    assert english >= of_english - 2
    nameless, of_nameless = kept(labels, "none")
    assert nameless >= of_nameless - 1
    others, of_others = kept(labels, "other")
    assert of_others > 15
    assert others <= 4


def test_errors_of_the_profanity_step(labels: list[Labelled]) -> None:
    words = WordList()
    order = ("none", *TIERS)
    wrong = [
        row
        for row in labels
        if max([order.index(found.kind) for found in words.find("\n".join(row.boxes))], default=0)
        != order.index(row.profanity)
    ]
    assert sum(row.profanity != "none" for row in labels) > 70
    assert len(wrong) <= 5
