"""On real captions the steps drop about what the article's rules drop, and little of that is English or clean."""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from memeloom.catalog.records import Meme
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.build import build_dataset


def test_a_sample_of_the_real_captions(
    config: Callable[..., Config],
    fill: Callable[[Config, Iterable[Meme]], None],
    meme: Callable[..., Meme],
    real_data: Path,
) -> None:
    with gzip.open(real_data / "imgflip_captions.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % 50 == 0]
    settings = config()
    fill(settings, [meme(str(number), *row["boxes"], template=row["template"]) for number, row in enumerate(rows)])
    summary = build_dataset(settings, Silent())
    share = {reason: count / len(rows) for reason, count in summary.reasons.items()}
    assert summary.counts["kept"] + sum(summary.reasons.values()) == len(rows)
    assert 0.68 < summary.counts["kept"] / len(rows) < 0.75
    assert 0.19 < share["too long"] < 0.25
    assert 0.015 < share["characters"] < 0.035
    assert 0.001 < share["language"] < 0.01
    assert 0.005 < share["profanity: strong"] < 0.03
    assert share.get("profanity: slur", 0) < 0.005
    assert "profanity: mild" not in share
    assert summary.counts["characters"] <= 69
