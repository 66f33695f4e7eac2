"""The spill sorts whatever order rows come in; duplicates and caps choose by hash, not by arrival."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from configs.schema import Dataset
from dataset.select import Caps, tally_templates, unique
from dataset.spill import Row, Spill


def row(order: int, key: str, template: str = "t", boxes: tuple[str, ...] = ("a", "b")) -> Row:
    return Row(f"{order:032x}", f"imgflip:{key}", "train", "imgflip", template, f"Name {template}", template, boxes, "")


def rows(number: int) -> list[Row]:
    rng = random.Random(number)
    return [row(rng.getrandbits(128), str(at), f"t{at % 3}", ("naïve ✓", "", 'a "b" | \n')) for at in range(number)]


@pytest.mark.parametrize("expected", [0, 1, 25_000, 500_000, 10**12])
def test_rows_come_back_sorted_and_whole_whatever_their_order(tmp_path: Path, expected: int) -> None:
    made = rows(2000)
    spill = Spill(tmp_path, expected)
    for one in random.Random(1).sample(made, len(made)):
        spill.add(one.line())
    assert list(spill.sorted_rows()) == sorted(made)
    assert list(spill.sorted_rows()) == sorted(made), "asked a second time"


def test_only_one_partition_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataset.spill._PARTITION_ROWS", 100)
    monkeypatch.setattr("dataset.spill._WAITING_ROWS", 50)
    spill = Spill(tmp_path, 2000)
    for one in rows(2000):
        spill.add(one.line())
    sizes = [len(path.read_text().splitlines()) for path in tmp_path.iterdir()]
    assert len(sizes) == 20
    assert max(sizes) < 150
    assert sum(sizes) >= 1950


def test_of_equal_captions_the_lowest_id_stays(tmp_path: Path) -> None:
    copies = [row(7, key) for key in ("c", "a", "b")] + [row(9, "d")]
    for seed in range(6):
        (tmp_path / str(seed)).mkdir()
        spill = Spill(tmp_path / str(seed), 4)
        for one in random.Random(seed).sample(copies, 4):
            spill.add(one.line())
        dropped: Counter[str] = Counter()
        assert [one.id for one in unique(spill.sorted_rows(), dropped)] == ["imgflip:a", "imgflip:d"]
        assert dropped == {"duplicate": 2}


def selected(settings: Dataset, made: list[Row], **changes: Any) -> tuple[list[str], Counter[str]]:
    dropped: Counter[str] = Counter()
    caps = Caps(settings.model_copy(update=changes), tally_templates(made))
    return [one.id.removeprefix("imgflip:") for one in caps.apply(made, dropped)], dropped


@pytest.fixture
def made() -> list[Row]:
    """In order of hash: three captions on x, two on y, two on a, one on z."""
    return [row(at, f"{template}{at}", template) for at, template in enumerate("xyxazyax")]


def test_without_caps_all_stay(settings: Dataset, made: list[Row]) -> None:
    assert selected(settings, made) == (["x0", "y1", "x2", "a3", "z4", "y5", "a6", "x7"], Counter())


def test_a_full_template_keeps_its_first_by_hash(settings: Dataset, made: list[Row]) -> None:
    kept, dropped = selected(settings, made, captions_per_template=1)
    assert kept == ["x0", "y1", "a3", "z4"]
    assert dropped == {"template is full": 4}


def test_rare_templates_are_left_out(settings: Dataset, made: list[Row]) -> None:
    kept, dropped = selected(settings, made, min_captions_per_template=3)
    assert kept == ["x0", "x2", "x7"]
    assert dropped == {"rare template": 5}


def test_the_most_popular_templates_stay_and_ties_go_by_id(settings: Dataset, made: list[Row]) -> None:
    kept, dropped = selected(settings, made, templates=2)
    assert kept == ["x0", "x2", "a3", "a6", "x7"]
    assert dropped == {"template not among the most popular": 3}


def test_caps_work_together(settings: Dataset, made: list[Row]) -> None:
    kept, dropped = selected(settings, made, templates=2, captions_per_template=2, min_captions_per_template=2)
    assert kept == ["x0", "x2", "a3", "a6"]
    assert dropped == {"template not among the most popular": 2, "rare template": 1, "template is full": 1}
