"""How well and how fast each OCR engine reads real memes: `python -m bench.ocr --data DATA [--limit N]`.

DATA is a folder with `real_memes/manifest.json`: pictures with transcripts. The English ones are
split in half by the hash of their file name. What is set in `ocr/` was tuned on one half; the table
is about the other. Each engine runs in a process of its own.
"""

import argparse
import hashlib
import json
import multiprocessing
import re
import resource
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from catalog.images import decode_image
from configs.load import load_config
from ocr.engine import open_engine
from ocr.read import read_picture

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


@dataclass(frozen=True)
class Score:
    """One row of the table; recall, precision and character error rate are over all words of all images."""

    engine: str
    recall: float
    precision: float
    error_rate: float
    kept: float
    images_per_cpu_second: float
    rss_mb: float


def reporting_half(folder: Path, limit: int | None) -> list[tuple[Path, str]]:
    """English memes that were not used for tuning, with their transcripts, in an order that hashes decide."""
    rows = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    digests = {row["file"]: hashlib.sha256(row["file"].encode()).hexdigest() for row in rows}
    half = [row for row in rows if row["lang"] == "en" and int(digests[row["file"]], 16) % 2 == 1]
    half.sort(key=lambda row: digests[row["file"]])
    return [(folder / row["file"], row["text"]) for row in half[:limit]]


def measure(engine_name: str, memes: Sequence[tuple[Path, str]]) -> Score:
    """Read `memes` with one engine, its settings at their defaults."""
    config = load_config(overrides=[f"ocr.engine={engine_name}"], environment={})
    engine = open_engine(config.ocr)
    engine.read(decode_image(memes[0][0].read_bytes()))
    before, texts, kept = _cpu_seconds(), [], 0
    for path, _ in memes:
        reading = read_picture(decode_image(path.read_bytes()), engine, config.ocr)
        texts.append(words(reading.text))
        kept += reading.dropped is None
    seconds = _cpu_seconds() - before
    truths = [words(truth) for _, truth in memes]
    found = sum((Counter(truth) & Counter(text)).total() for truth, text in zip(truths, texts, strict=True))
    errors = sum(distance(" ".join(truth), " ".join(text)) for truth, text in zip(truths, texts, strict=True))
    return Score(
        engine=engine_name,
        recall=found / sum(map(len, truths)),
        precision=found / max(sum(map(len, texts)), 1),
        error_rate=errors / sum(len(" ".join(truth)) for truth in truths),
        kept=kept / len(memes),
        images_per_cpu_second=len(memes) / seconds,
        rss_mb=sum(resource.getrusage(who).ru_maxrss for who in _WHO) / 1024,
    )


def words(text: str) -> list[str]:
    """The words of `text`, case-folded, without punctuation."""
    return _WORD.findall(text.casefold().replace("’", "'").replace("‘", "'"))


def distance(a: str, b: str) -> int:
    """Insertions, deletions and substitutions between `a` and `b` (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (left != right))
    return row[-1]


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, _WHO))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds real_memes/")
    parser.add_argument("--limit", type=int, help="images to read; all of the half if not given")
    parser.add_argument("--engines", nargs="+", default=["tesseract", "rapidocr"])
    arguments = parser.parse_args()
    memes = reporting_half(arguments.data / "real_memes", arguments.limit)
    print(f"{len(memes)} real English memes, reporting half")
    print(
        "| engine | word recall | word precision | CER | kept | images/cpu-s | RSS MB |\n|---|---|---|---|---|---|---|"
    )
    for name in arguments.engines:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            score = pool.submit(measure, name, memes).result()
        shares = " | ".join(f"{share:.3f}" for share in (score.recall, score.precision, score.error_rate, score.kept))
        print(f"| {score.engine} | {shares} | {score.images_per_cpu_second:.1f} | {score.rss_mb:.0f} |")


if __name__ == "__main__":
    main()
