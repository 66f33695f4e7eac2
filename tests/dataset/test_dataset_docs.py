"""The page about datasets names every step, every feature and every reason for a drop."""

import re
from pathlib import Path

import yaml

from memeloom.dataset.flow.caps import RARE, UNPOPULAR
from memeloom.dataset.flow.choose import REASONS
from memeloom.dataset.flow.memes import NO_PICTURE
from memeloom.dataset.schema import FEATURES, SCHEMA_VERSION
from memeloom.dataset.statistics import FULL
from memeloom.dataset.steps.registry import DUPLICATES, STEPS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dataset.md").read_text(encoding="utf-8")


def test_it_names_every_step_and_feature() -> None:
    for name in (*STEPS, DUPLICATES, *(name for name, *_ in FEATURES)):
        assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE), name


def test_it_names_every_reason() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "dataset").rglob("*.py"))
    reasons = {*REASONS[1:], FULL, RARE, UNPOPULAR, *NO_PICTURE.values(), "picture missing", "picture damaged"}
    reasons |= set(re.findall(r'Drop\("([^"]+)"', code))
    assert len(reasons) > 20
    for reason in reasons:
        assert f"`{reason}`" in PAGE, reason


def test_it_tells_of_copies_splits_and_what_the_next_build_goes_on_from() -> None:
    settings = yaml.safe_load((ROOT / "configs" / "default.yaml").read_text(encoding="utf-8"))["dataset"]
    for name in ("near_text", "near_image"):
        assert f"`{name}` ({settings[name]})" in PAGE, name
    for name in ("keep_work", "split.by", "split.salt", "validation_from", "test_from", "shard_records"):
        assert f"`{name}" in PAGE, name
    assert f"## Feature schema (version {SCHEMA_VERSION})" in PAGE
