"""On real captions the steps drop about what the article's rules drop, and little of that is English or clean."""

import gzip
import json
from pathlib import Path

from tests.dataset.builds import Build, MakeMeme


def test_a_sample_of_the_real_captions(build: Build, meme: MakeMeme, real_data: Path) -> None:
    with gzip.open(real_data / "imgflip_captions.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % 50 == 0]
    built = build(meme(str(number), *row["boxes"], template=row["template"]) for number, row in enumerate(rows))
    counts, reasons = built.summary.counts, built.summary.reasons
    share = {reason: count / len(rows) for reason, count in reasons.items()}
    assert counts["kept"] + sum(reasons.values()) == len(rows)
    assert 0.68 < counts["kept"] / len(rows) < 0.75
    assert 0.19 < share["too long"] < 0.25
    assert 0.002 < share["characters"] < 0.008
    assert 0.001 < share["language"] < 0.01
    assert 0.005 < share["profanity: strong"] < 0.03
    assert share.get("profanity: slur", 0) < 0.005
    assert "profanity: mild" not in share
    assert counts["characters"] <= 69
