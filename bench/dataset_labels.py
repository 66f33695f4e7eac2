"""Captions labelled by hand for language and profanity, and the share of the data in each stratum."""

import csv
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LABELS = Path(__file__).with_name("dataset_labels.csv")
CAPTIONS = "imgflip_captions.jsonl.gz"
_LEAST, _MOST = 10, 160
# One in this many captions is used to estimate the size of a stratum.
_EVERY = 20
# The sample `profanity` was drawn from captions with bad words, or words that contain them.
_PATTERN = re.compile(
    r"ass|sh[i!*]t|damn|crap|cock|nud|rap[ei]|boob|piss|stfu|hoe|dick|slut|queef|tard|porn|nigg|bitch|b\*|b.?sh|f.?u.?[ck]"
    r"|f[*#]|cunt|puss|fag|whore|bastard|bloody|fkn",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Labelled:
    """A caption and its labels."""

    id: str
    sample: str
    language: str
    profanity: str
    boxes: tuple[str, ...]

    @property
    def fresh(self) -> bool:
        """Return True if the caption was drawn and labelled after everything was chosen."""
        return self.sample in {"dropped", "kept"}

    @property
    def reported(self) -> bool:
        """Return True for the half of the other captions that was not used for tuning."""
        return not self.fresh and hashlib.sha256(self.id.encode()).digest()[-1] % 2 == 1


@dataclass(frozen=True)
class Rate:
    """Error counts of a classifier.

    random: errors and captions of the random sample. enriched: those of the enriched stratum.
    weighted: errors per caption of the data, each stratum weighted by its share.
    """

    random: tuple[int, int]
    enriched: tuple[int, int]
    weighted: float


def read_labels(data: Path) -> list[Labelled]:
    """Return all labelled captions.

    Raises:
        SystemExit: the dump lacks a labelled caption.
    """
    with LABELS.open(encoding="utf-8", newline="") as lines:
        rows = {row["id"]: row for row in csv.DictReader(lines)}
    boxes = {key: found for key, found in read_captions(data) if key in rows}
    if missing := rows.keys() - boxes.keys():
        raise SystemExit(f"{data / CAPTIONS}: {len(missing)} labelled captions are missing, {min(missing)} for one")
    return [Labelled(key, row["sample"], row["language"], row["profanity"], boxes[key]) for key, row in rows.items()]


def read_captions(data: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield id and boxes of every caption in the dump; the first of equal ids."""
    seen = set()
    with gzip.open(data / CAPTIONS, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            key = row["post"].rsplit("/", 1)[-1]
            if key not in seen:
                seen.add(key)
                yield key, tuple(row["boxes"])


def matches_pattern(boxes: Sequence[str]) -> bool:
    """Return True if a caption is in the stratum of the sample `profanity`."""
    return _PATTERN.search(" / ".join(boxes)) is not None


def is_doubted(boxes: Sequence[str]) -> bool:
    """Return True if a caption is in the stratum of the sample `language`."""
    return _identifier()(" / ".join(box.strip() for box in boxes if box.strip()).lower()) != "en"


def stratum_share(data: Path, stratum: Callable[[Sequence[str]], bool]) -> float:
    """Return the share of the data in a stratum."""
    drawn = [boxes for at, (_, boxes) in enumerate(read_captions(data)) if at % _EVERY == 0]
    eligible = [boxes for boxes in drawn if _LEAST <= len(" / ".join(boxes)) <= _MOST]
    return sum(map(stratum, eligible)) / len(eligible)


def error_rate(
    labels: Sequence[Labelled],
    sample: str,
    stratum: Callable[[Sequence[str]], bool],
    share: float,
    is_wrong: Callable[[Labelled], bool],
) -> Rate:
    """Count `is_wrong` on the random captions and on those of the enriched `sample`.

    share: share of the data in `stratum`, from which the enriched sample was drawn.
    """
    drawn = [row for row in labels if row.sample == "random"]
    within = [row for row in labels if row.sample == sample] + [row for row in drawn if stratum(row.boxes)]
    without = [row for row in drawn if not stratum(row.boxes)]
    counts = [(sum(map(is_wrong, rows)), len(rows)) for rows in (drawn, within, without)]
    (_, _), (wrong, of), (wrong_without, of_without) = counts
    return Rate(counts[0], counts[1], share * wrong / of + (1 - share) * wrong_without / of_without)


@lru_cache(maxsize=1)
def _identifier() -> Callable[[str], str]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    return lambda text: str(identifier.classify(text)[0])
