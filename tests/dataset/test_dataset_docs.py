"""The page about datasets names every step, every feature and every reason for a drop."""

import re
from pathlib import Path

from dataset.schema import FEATURES
from dataset.steps.registry import DUPLICATES, STEPS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dataset.md").read_text(encoding="utf-8")


def test_it_names_every_step_and_feature() -> None:
    for name in (*STEPS, DUPLICATES, *(name for name, _, _ in FEATURES)):
        assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE), name


def test_it_names_every_reason() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "dataset").rglob("*.py"))
    reasons = set(re.findall(r'Drop\("([^"]+)"\)', code)) | set(re.findall(r'dropped\["([^"]+)"\]', code))
    assert len(reasons) > 10
    for reason in reasons:
        assert f"`{reason}`" in PAGE, reason
